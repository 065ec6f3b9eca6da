"""`clew web`: the pages of a home, in a process of their own; it reads the ledger and sends the daemon requests."""
