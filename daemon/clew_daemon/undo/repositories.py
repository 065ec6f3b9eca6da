"""What an undo leaves because it belongs to a git repository that files alone would not bring back. Pure.

The repository of the workspace itself is looked at elsewhere: where its HEAD has moved, nothing is restored at all.
"""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING

from clew_shared.snapshots.entries import Entry
from clew_shared.snapshots.names import quoted, unquoted
from clew_shared.snapshots.plan import Left, UndoPlan, folders_above

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from clew_shared.snapshots.plan import Reason, Restored

_FOLDER = Entry(stat.S_IFDIR | 0o755, "")


def spared(
    found: UndoPlan, before: Mapping[str, str] | None, now: Mapping[str, str] | None
) -> UndoPlan:
    """Return a plan that removes no git repository, and puts back no files below a HEAD that has moved.

    `before` and `now` are the commits of the repositories below the workspace at the snapshot that is gone back to and
    in the present, None where they are not known.
    """
    reasons = _reasons(found, before or {}, now or {}, known=before is not None)
    if not reasons:
        return found
    restore: list[Restored] = []
    left: list[Left] = []
    repositories: set[str] = set()
    entries: list[Restored | Left] = [*found.restore, *found.left]
    for one in entries:
        above = (one.name, *folders_above(one.name))
        where = next((folder for folder in above if folder in reasons), "")
        if where and (one.wanted is None or reasons[where] == "commits"):
            repositories.add(where)
        elif isinstance(one, Left):
            left.append(one)
        else:
            restore.append(one)
    left += [Left(one, reasons[one], _FOLDER, None) for one in repositories]
    return UndoPlan(tuple(restore), tuple(sorted(left, key=lambda one: one.name)))


def _reasons(
    found: UndoPlan, before: Mapping[str, str], now: Mapping[str, str], *, known: bool
) -> dict[str, Reason]:
    """Return why what is in a repository is left, by its folder."""
    reasons: dict[str, Reason] = dict.fromkeys(_removed(found), "repository")
    for path, commit in now.items() if known else ():
        if before.get(path) != commit:
            reasons[path] = "commits" if path in before else "repository"
    return reasons


def _removed(found: UndoPlan) -> set[str]:
    """Return the folders that would be removed and have what makes a git repository, like a `.git` that was renamed."""
    entries: list[Restored | Left] = [*found.restore, *found.left]
    removed = [unquoted(one.name) for one in entries if one.wanted is None]
    heads = {path.removesuffix(b"/HEAD") for path in removed if path.endswith(b"/HEAD")}
    for part in (b"/objects/", b"/refs/"):
        heads &= {folder for path in removed for folder in _holding(path + b"/", part)}
    return set(map(quoted, heads))


def _holding(path: bytes, part: bytes) -> Iterator[bytes]:
    """Yield the folders on a path that hold a part of it."""
    at = path.find(part)
    while at >= 0:
        yield path[:at]
        at = path.find(part, at + 1)
