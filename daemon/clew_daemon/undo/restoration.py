"""What an undo restores, as it is recorded before anything is restored."""

from __future__ import annotations

import json
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from clew_shared.snapshots.entries import Entry
from clew_shared.snapshots.plan import Restored
from clew_shared.snapshots.store import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class Restoration:
    """What is restored, from the snapshot `tree`; folders of `others` stay even if they become empty."""

    tree: str
    entries: list[Restored]
    others: tuple[str, ...] = ()

    def packed(self) -> bytes:
        """Return it as it is recorded."""
        entries = [[one.name, one.present, one.wanted] for one in self.entries]
        return json.dumps([self.tree, entries, self.others]).encode()


def restoration(
    tree: str, entries: Iterable[Restored], others: tuple[str, ...] = ()
) -> Restoration:
    """Return the restoration of entries in the order in which each finds its place free.

    What is removed comes first, the deepest first; then folders, then files and symlinks.
    """
    return Restoration(tree, sorted(entries, key=_turn), others)


def _turn(one: Restored) -> tuple[int, int, str]:
    if one.wanted is None:
        return 0, -one.name.count("/"), one.name
    return (1 if stat.S_ISDIR(one.wanted.mode) else 2), 0, one.name


def unpacked(body: bytes | None) -> Restoration:
    """Return the restoration that is on record; raises StoreError where that is missing or damaged.

    Earlier versions recorded no folders of others.
    """
    try:
        tree, entries, *rest = json.loads(body or b"")
        restored = [Restored(name, _entry(was), _entry(wanted)) for name, was, wanted in entries]
        others = tuple(rest[0]) if rest else ()
    except (ValueError, TypeError) as error:
        raise StoreError(
            f"the record of what the undo restores is missing or damaged: {error}"
        ) from None
    return Restoration(tree, restored, others)


def _entry(value: Any) -> Entry | None:
    return None if value is None else Entry(*value)
