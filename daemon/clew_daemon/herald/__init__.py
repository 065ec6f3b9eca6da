"""`clew herald`: metrics, traces and messages from the ledger, in a process of its own (docs/herald.md)."""
