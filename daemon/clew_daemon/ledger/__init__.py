"""The daemon's ledger: one writer with its lock, and the check of a whole record."""
