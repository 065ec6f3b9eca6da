"""`clew demo`: sample goals in a temporary home, with crashes."""
