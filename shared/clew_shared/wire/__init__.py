"""What crosses a process boundary: daemon and agent, daemon and nursery, daemon and executor."""
