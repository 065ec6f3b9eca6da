"""The files that a goal has changed, and the difference, as `clew diff` shows it."""

from __future__ import annotations

import shlex

from textual.containers import VerticalScroll
from textual.widget import Widget

from clew_daemon.reading.diff import ChangedFiles, changed_files
from clew_daemon.reading.instance import Instance
from clew_daemon.reading.output import Line
from clew_daemon.reading.sanitize import clean
from clew_daemon.top.screens import GoalDetail, GoalViewScreen
from clew_daemon.top.tables import TextPage, scrolling

_STYLES = {"added": "green", "removed": "red", "hunk": "cyan", "file": "bold"}
_FILE = "diff --git "


class FilesScreen(GoalViewScreen[ChangedFiles]):
    """The changed files with counts, then the difference of each; or why there is none."""

    view = "files"

    def __init__(self, instance: Instance, goal: str) -> None:
        self.command = f"clew diff {shlex.quote(goal)}"
        super().__init__(instance, goal)
        self._basis: object = None
        self._found = ChangedFiles()
        self._drawn: ChangedFiles | None = None

    def body(self) -> list[Widget]:
        return [scrolling(TextPage())]

    def read_view(self, detail: GoalDetail) -> ChangedFiles:
        """Return the changes, compared again only after another snapshot."""
        basis = detail["snapshots"], detail["status"]
        if basis != self._basis:
            self._found, self._basis = changed_files(self.instance, self.goal_id), basis
        return self._found

    def display_view(self, found: ChangedFiles) -> None:
        if found == self._drawn:
            return
        self._drawn = found
        whole = self.query_one(VerticalScroll)
        whole.remove_children()
        whole.mount(*(_page(lines) for lines in _pages(found)))


def _page(lines: list[Line]) -> TextPage:
    page = TextPage()
    page.show(lines)
    return page


def _pages(found: ChangedFiles) -> list[list[Line]]:
    """Return the files with their counts, then the difference of each file, then what is not shown."""
    if found.missing:
        return [[[(clean(found.missing), "")]]]
    counts = found.counts if found.files else ()  # else the difference says it
    pages: list[list[Line]] = [[[(clean(line), "")] for line in counts]]
    if found.more_files:
        pages[0].append([(f"… and {found.more_files} more", "dim")])
    for line in found.lines:
        if line.kind == "file" and line.text.startswith(_FILE):
            pages[-1].append([("", "")])
            pages.append([])
        pages[-1].append([(clean(line.text.expandtabs(4)), _STYLES.get(line.kind, ""))])
    notes = [*(["The rest of the difference is left out."] if found.is_cut else []), *found.notes]
    return [*pages, [[("", "")], *([(clean(note), "dim")] for note in notes)]]
