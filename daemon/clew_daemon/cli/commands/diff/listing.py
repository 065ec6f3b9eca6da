"""A goal's changed files and their difference, in bounded length: for the views. Or why there is nothing to compare."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from clew_daemon.reading.errors import CliError

if TYPE_CHECKING:
    from clew_daemon.cli.commands.diff.views import DiffLine
    from clew_daemon.reading.instance import Instance
    from clew_shared.snapshots.comparison import ChangedFile

LINES_MAX = 5_000
LINE_CHARS = 2_000
FILES_MAX = 500


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
    from clew_daemon.cli.commands.diff import views
    from clew_daemon.cli.commands.diff.changes import goal_diff
    from clew_daemon.cli.commands.diff.command import hide_keys

    hide_keys(instance)
    try:
        with goal_diff(instance, goal, None) as found:
            lines = tuple(islice(views.diff_lines(found), LINES_MAX))
            return ChangedFiles(
                tuple(found.files[:FILES_MAX]),
                max(0, len(found.files) - FILES_MAX),
                tuple(map(_shortened, lines)),
                len(lines) == LINES_MAX,
                found.foreign,
                counts=tuple(islice(views.stat_lines(found), FILES_MAX)),
                notes=tuple(views.notes(found)),
            )
    except CliError as error:
        return ChangedFiles(missing=error.message)


def _shortened(line: DiffLine) -> DiffLine:
    return (
        line if len(line.text) <= LINE_CHARS else line._replace(text=f"{line.text[:LINE_CHARS]}…")
    )
