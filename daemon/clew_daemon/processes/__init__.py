"""Processes: the nursery and its zygote, cells, control groups, executors, and how each ended."""
