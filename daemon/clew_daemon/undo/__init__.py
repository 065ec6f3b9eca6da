"""Undo: restores what a goal, or one of its subtasks, has changed in the workspace (docs/snapshots.md)."""
