"""Takes snapshots into the goal's store, and restores entries; what is undone `clew_shared.snapshots.plan` decides."""
