"""What the last snapshot of a store holds, in memory and in a file: a restarted executor reads only what changed.

The file is a cache: damaged, of another version or of other settings it is ignored, and everything is read again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from clew_shared.record.snapshot_events import ChangeCount
from clew_worker.executor.snapshots.walk import Listing, SeenFile
from clew_worker.executor.world.contents import STAMP_BYTES

if TYPE_CHECKING:
    from pathlib import Path

_VERSION = 2
_ID_LETTERS = 40


@dataclass
class LastSnapshot:
    """The last snapshot: its number, commit and tree, what it holds, and what it counted as changed since `base`."""

    number: int
    commit: str
    tree: str
    listing: Listing = field(default_factory=Listing)
    base: str = ""
    changed: ChangeCount = field(default_factory=ChangeCount)


def save(path: Path, last: LastSnapshot, settings: object) -> None:
    """Write the file; where that fails the old one stays, which is as valid. `settings`: see `load`."""
    files = last.listing.files
    text = json.dumps(
        {
            "version": _VERSION,
            "settings": settings,
            "snapshot": [last.number, last.commit, last.tree, last.base],
            "changed": last.changed.model_dump(),
            "paths": list(files),
            "modes": [file.mode for file in files.values()],
            "ids": "".join([file.id for file in files.values()]),
            "stamps": b"".join([file.stamp for file in files.values()]).hex(),
            "folders": last.listing.folders,
            "left_out": last.listing.left_out,
        }
    )
    draft = path.with_suffix(".new")
    with contextlib.suppress(OSError):
        draft.write_text(f"{_digest(text)}\n{text}")
        draft.replace(path)


def load(path: Path, settings: object) -> LastSnapshot | None:
    """Read the file; None where it is of no use, also where it was written under other `settings` (of JSON's kinds)."""
    try:
        digest, _, text = path.read_text().partition("\n")
        if digest != _digest(text):
            return None
        return _parsed(json.loads(text), settings)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _parsed(saved: dict[str, Any], settings: object) -> LastSnapshot | None:
    if saved["version"] != _VERSION or saved["settings"] != settings:
        return None
    ids, stamps = saved["ids"], bytes.fromhex(saved["stamps"])
    files = {
        path: SeenFile(
            stamps[n * STAMP_BYTES : (n + 1) * STAMP_BYTES],
            mode,
            ids[n * _ID_LETTERS : (n + 1) * _ID_LETTERS],
        )
        for n, (path, mode) in enumerate(zip(saved["paths"], saved["modes"], strict=True))
    }
    number, commit, tree, base = saved["snapshot"]
    changed = ChangeCount.model_validate(saved["changed"])
    listing = Listing(files, saved["folders"], saved["left_out"])
    return LastSnapshot(number, commit, tree, listing, base, changed)
