"""The world: what is in the workspace, as a digest, and what changes it."""
