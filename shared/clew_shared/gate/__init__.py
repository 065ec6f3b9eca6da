"""The gate, pure: may this action be done (again), and what is the agent told? (docs/loops.md)."""
