"""`clew diff`: what a goal changed in its workspace, from the snapshots on record."""
