"""`clew top`: goals live in a terminal. Only `app` and what it imports need textual."""
