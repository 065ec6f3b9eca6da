"""A goal's changed files and their difference, in bounded length: for the views. Or why there is nothing to compare."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from clew_daemon.reading.errors import CliError

if TYPE_CHECKING:
    from clew_daemon.reading.instance import Instance
    from clew_shared.snapshots.comparison import ChangedFile

LINES_MAX = 5_000
LINE_CHARS = 2_000
FILES_MAX = 500
_KINDS = {"+": "added", "-": "removed", "@": "hunk"}


@dataclass(frozen=True, slots=True)
class DiffLine:
    """A line of the difference; `kind` is added, removed, hunk, file, or "" for one that stayed."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class ChangedFiles:
    """The files that a goal changed, also as lines with counts, the difference, and notes.

    `missing` is why there is none of this.
    """

    files: tuple[ChangedFile, ...] = ()
    more_files: int = 0
    lines: tuple[DiffLine, ...] = ()
    is_cut: bool = False
    foreign: int = 0
    missing: str = ""
    counts: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def changed_files(instance: Instance, goal: str) -> ChangedFiles:
    """Compare a goal's first and last snapshots; keys are not shown, as far as they can be read here."""
    from clew_daemon.cli.commands.diff.changes import goal_diff
    from clew_daemon.cli.commands.diff.command import hide_keys
    from clew_daemon.cli.commands.diff.views import diff_lines, notes, stat_lines

    hide_keys(instance)
    try:
        with goal_diff(instance, goal, None) as found:
            lines: list[DiffLine] = []
            in_hunk = False
            for line in diff_lines(found, colour=False):
                if len(lines) == LINES_MAX:
                    break
                in_hunk = not line.startswith("diff --git ") and (in_hunk or line.startswith("@@ "))
                lines.append(_line(line.rstrip("\n"), in_hunk=in_hunk))
            return ChangedFiles(
                tuple(found.files[:FILES_MAX]),
                max(0, len(found.files) - FILES_MAX),
                tuple(lines),
                len(lines) == LINES_MAX,
                found.foreign,
                counts=tuple(islice(stat_lines(found, colour=False), FILES_MAX)),
                notes=tuple(notes(found)),
            )
    except CliError as error:
        return ChangedFiles(missing=error.message)


def _line(line: str, *, in_hunk: bool) -> DiffLine:
    text = line if len(line) <= LINE_CHARS else f"{line[:LINE_CHARS]}…"
    return DiffLine(_KINDS.get(line[:1], "") if in_hunk else "file", text)
