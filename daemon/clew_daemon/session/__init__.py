"""One live worker: its processes, its messages, and whether it is alive."""
