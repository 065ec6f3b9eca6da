"""Snapshots of a workspace: git objects in a store of clew's own, who changed what between them, and what undo does."""
