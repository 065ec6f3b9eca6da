"""Snapshots of a workspace: git objects in a store of clew's own, who changed what between them, and what undo does.

The executor takes and restores them (`clew_worker.executor.snapshots`); the daemon and the command line read them.
"""
