"""The one reader behind everything that people look at: the record, the daemon, and both in words."""
