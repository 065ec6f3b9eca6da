"""`clew demo`: a sample goal in a temporary home, with crashes."""
