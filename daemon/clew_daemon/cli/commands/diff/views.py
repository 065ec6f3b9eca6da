"""What `clew diff` shows: the diff, its files with counts, JSON, and notes on what it does not show.

The text of the diff is redacted, harmless for a terminal, and in bounded memory.
"""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING, Any, NamedTuple

from clew_daemon.reading.output import width_of
from clew_daemon.reading.sanitize import clean, counted
from clew_shared.record.moment import iso, local
from clew_shared.text.redact import redact
from clew_shared.views.publish import path_view

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from clew_daemon.cli.commands.diff.changes import GoalDiff
    from clew_daemon.cli.subtasks import Position
    from clew_shared.record.snapshot_events import SnapshotTaken
    from clew_shared.snapshots.comparison import ChangedFile

LEFT_OUT_SHOWN = 10
LEFT_OUT = "left out of the snapshot"
IGNORED = "Ignored files are in no snapshot, so they are not compared."
BYTES_MAX = 64 << 20
"""A larger diff is cut, with a note."""

BLOCK_CHARS, BLOCK_CHARS_MAX = 1 << 16, 4 << 20
"""A text is redacted in blocks, which end before a file or a hunk, so that no key is cut in two."""

TOO_LARGE = (
    f"… the rest is left out: the diff is over {BYTES_MAX >> 20} MiB; --stat lists all files"
)
_HUNK, _FILE = "@@ ", "diff --git "
_KEY, _KEY_LINES = "-----BEGIN ", 300
_KINDS = {"+": "added", "-": "removed", "@": "hunk"}
_GREEN, _RED, _CYAN = "\x1b[32m", "\x1b[31m", "\x1b[36m"
_COLOURS = {"added": _GREEN, "removed": _RED, "hunk": _CYAN, "file": "\x1b[1m"}
_COLOURS |= {"deleted": _RED, "renamed": _CYAN}


class DiffLine(NamedTuple):
    """A line of the difference; `kind` is added, removed, hunk, file, or "" for one that stayed."""

    kind: str
    text: str


def coloured(kind: str, text: str) -> str:
    """Return a text in the colour of its kind, for a terminal."""
    return f"{_COLOURS[kind]}{text}\x1b[m" if text and kind in _COLOURS else text


def json_view(found: GoalDiff, subtask: Position | None) -> dict[str, Any]:
    """Return the files, from when to when, and what is not among them."""
    return {
        "goal": found.state.goal_id,
        "subtask": f"{subtask[0] + 1}.{subtask[1] + 1}" if subtask else None,
        "from": _point(found.first),
        "to": _point(found.last),
        "files": [_file(one) for one in found.files],
        "foreign": found.foreign,
        "left_out": [{**path_view(one.path), "why": one.why} for one in found.last.left_out],
        "left_out_total": found.last.left_out_total,
        "missing": found.state.snapshots.missing,
    }


def _point(taken: SnapshotTaken) -> dict[str, str]:
    return {"at": iso(taken.at), "moment": taken.moment, "tree": taken.tree}


def _file(one: ChangedFile) -> dict[str, Any]:
    return {
        **path_view(one.path),
        **({"old_path": path_view(one.old_path)["path"]} if one.old_path else {}),
        "status": one.status,
        "added": one.added,
        "removed": one.removed,
        "binary": one.binary,
        **({"folder": True} if one.folder else {}),
        **({"left_out": True} if one.left_out else {}),
        "modes": [f"{mode:o}" if mode else None for mode in one.modes],
    }


def stat_lines(found: GoalDiff, *, colour: bool = False) -> Iterator[str]:
    """Yield each file with its counts, and their sums."""
    shown = [(one, _label(one)) for one in found.files]
    width = max((width_of(label) for _, label in shown), default=0)
    for one, label in shown:
        status = f"{one.status:8}"
        status = coloured(one.status, status) if colour else status
        yield f"{status}  {label}{' ' * (width - width_of(label))}  {_counts(one)}".rstrip()
    yield _sum(found.files)


def _label(one: ChangedFile) -> str:
    label = _name(one.path) + ("/" if one.folder else "")
    return f"{_name(one.old_path)} -> {label}" if one.old_path else label


def _counts(one: ChangedFile) -> str:
    if one.status == "mode":
        return _modes(one)
    if one.folder:
        return "empty folder"
    if one.left_out:
        return LEFT_OUT
    return "Bin" if one.binary else f"+{one.added} -{one.removed}"


def _modes(one: ChangedFile) -> str:
    before, after = (stat.S_IMODE(mode) for mode in one.modes)
    return f"{before:04o} -> {after:04o}"


def _sum(files: list[ChangedFile]) -> str:
    if not files:
        return "no changes"
    added, removed = sum(one.added for one in files), sum(one.removed for one in files)
    lines = f"{counted(added, 'line')} added, {counted(removed, 'line')} removed"
    folders = sum(one.folder for one in files)
    and_folders = f" and {counted(folders, 'empty folder')}" if folders else ""
    return f"{counted(len(files) - folders, 'file')}{and_folders} changed: {lines}"


def diff_lines(found: GoalDiff) -> Iterator[DiffLine]:
    """Yield the unified diff, and what git has no lines for: permissions and empty folders."""
    in_hunk = False
    with found.compared.patch() as lines:
        for block in _blocks(lines):
            for line in redact(block).removesuffix("\n").split("\n"):
                in_hunk = not line.startswith(_FILE) and (in_hunk or line.startswith(_HUNK))
                end = "\r" if line.endswith("\r") else ""
                shown = "\t".join(map(clean, line.removesuffix("\r").split("\t"))) + end
                yield DiffLine(_KINDS.get(line[:1], "") if in_hunk else "file", shown)
    for one in found.files:
        if one.folder:
            yield DiffLine("file", f"empty folder {one.status}: {_name(one.path)}/")
        elif one.left_out:
            yield DiffLine("file", f"{one.status}, {LEFT_OUT}: {_name(one.path)}")
        elif one.status == "mode" and one.modes[0] & 0o100 == one.modes[1] & 0o100:
            yield DiffLine("file", f"mode {_modes(one)}: {_name(one.path)}")
    if not found.files:
        yield DiffLine("file", "no changes")


def _blocks(lines: Iterable[bytes]) -> Iterator[str]:
    """Join the lines of a diff, other bytes than UTF-8 spelled out, to blocks; end with a note if they are too many."""
    block: list[str] = []
    size = total = 0
    for raw in lines:
        line = raw.decode(errors="backslashreplace")
        ends = size > BLOCK_CHARS and line.startswith((_FILE, _HUNK))
        if size > BLOCK_CHARS_MAX:
            ends = not any(_KEY in one for one in block[-_KEY_LINES:])
        if ends:
            yield "".join(block)
            block, size = [], 0
        total += len(raw)
        if total > BYTES_MAX:
            block.append(TOO_LARGE)
            break
        block.append(line)
        size += len(line)
    if block:
        yield "".join(block)


def notes(found: GoalDiff) -> Iterator[str]:
    """Yield what the diff does not show, and why."""
    state, last = found.state, found.last
    if state.working and not state.ended:
        yield f"As of {local(last.at)}, the last snapshot: the goal is at work."
    if found.foreign:
        are = "is" if found.foreign == 1 else "are"
        yield f"{counted(found.foreign, 'file')} that someone else changed meanwhile {are} not shown."
    if last.left_out_total:
        shown = [f"{clean(redact(one.path))} ({clean(one.why)})" for one in last.left_out]
        more = last.left_out_total - LEFT_OUT_SHOWN
        tail = f", and {more} more" if more > 0 else ""
        yield f"In no snapshot: {', '.join(shown[:LEFT_OUT_SHOWN])}{tail}."
    if state.snapshots.missing:
        yield f"No snapshot was taken since {local(last.at)}: {clean(state.snapshots.missing)}."
    yield IGNORED


def _name(path: str) -> str:
    return clean(redact(path))
