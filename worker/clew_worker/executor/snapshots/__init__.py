"""Takes snapshots of the workspace into the goal's store, and restores entries from it (docs/snapshots.md).

It writes and reads the store; whose a change was and what is undone is decided elsewhere
(`clew_shared.snapshots.plan`).
"""
