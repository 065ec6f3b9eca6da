"""Cells: the processes that agents and executors run in, and the nursery that forks them."""
