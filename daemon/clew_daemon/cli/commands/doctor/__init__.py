"""`clew doctor`: what works here, what does not, and how to fix it."""
