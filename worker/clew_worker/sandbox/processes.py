"""Which processes a process has started, directly and indirectly."""

import contextlib
from pathlib import Path


def descendants(root: int) -> list[int]:
    """List every process beneath `root`, from /proc."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):  # gone meanwhile
                stat = (entry / "stat").read_text(errors="replace")
                parent = int(stat.rpartition(")")[2].split()[1])
                children.setdefault(parent, []).append(int(entry.name))
    found: list[int] = []
    todo = [root]
    while todo:
        below = children.pop(todo.pop(), [])
        found += below
        todo += below
    return found
