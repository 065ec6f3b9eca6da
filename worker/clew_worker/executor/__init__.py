"""The executor: carries out actions that were allowed, and checks, in the workspace."""
