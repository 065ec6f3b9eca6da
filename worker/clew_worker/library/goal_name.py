"""The name of a goal without a daemon: by its text, so that the same goal is found again."""

import hashlib
import re

ID_CHARS_MAX = 40


def goal_id(text: str) -> str:
    """Return a name for a goal's text: its first words and 8 hex digits of its SHA-256."""
    words = "-".join(re.findall(r"[a-z0-9]+", text.lower())[:6])[:ID_CHARS_MAX].rstrip("-")
    return f"{words or 'goal'}-{hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()[:8]}"
