"""What became of the workspace before an attempt, in words for people."""

from __future__ import annotations

from collections.abc import Sequence


def ground_facts(restored: int, kept: str | None, left: Sequence[str]) -> list[str]:
    """Return a phrase for the files restored, one for why others were not, one for those that were left."""
    facts = {
        f"{restored} {'file' if restored == 1 else 'files'} restored": restored,
        f"not restored: {kept}": kept,
        f"left as they are: {', '.join(left)}": left,
    }
    return [text for text, applies in facts.items() if applies]
