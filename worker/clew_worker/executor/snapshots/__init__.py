"""Takes snapshots into the goal's store, and restores entries; `clew_shared.snapshots.plan` decides what is undone."""
