"""The names of worlds: what is known of the files of a workspace (docs/loops.md, Worlds that cannot be measured).

A world is named by its digest, by CLAIMED and a digest where a change was only claimed, or by UNKNOWN and a digest
where the files are not known. A measurement is a digest, UNKNOWN where it was cut short by time or size, "" for none.
"""

from __future__ import annotations

CLAIMED = "claimed:"
UNKNOWN = "unknown:"
"""A world that could not be measured whole. As a measurement it equals no other, not even another UNKNOWN."""


def is_measured(world: str) -> bool:
    """Return whether this is an exact digest, which can be compared with others."""
    return bool(world) and not world.startswith((CLAIMED, UNKNOWN))
