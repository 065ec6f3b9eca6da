"""`clew watch`: goals and what happens to them, live."""
