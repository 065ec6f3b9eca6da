"""The ledger: the durable, append-only record of events, opaque bytes here, and the only source of truth."""
