"""The further views of a goal: the prompts of its agent turn by turn, and the files that it has changed."""

import shlex
from collections.abc import Iterator
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll

from clew_daemon.reading.diff import ChangedFiles, changed_files
from clew_daemon.reading.errors import CliError
from clew_daemon.reading.goal_list import GoalView
from clew_daemon.reading.instance import Instance
from clew_daemon.reading.output import Line
from clew_daemon.reading.prompt_text import InspectedPrompt, inspected, turn_lines
from clew_daemon.reading.sanitize import clean
from clew_daemon.top.screens import GoalViewScreen
from clew_daemon.top.tables import TextPage


class PromptScreen(GoalViewScreen[InspectedPrompt | str]):
    """The prompt of a turn with what changed since the turn before, first of the next call; or why there is none."""

    view, shows = "prompt", "clew context"
    keys = (
        ("b", "Previous", "screen.turn(-1)"),
        ("n", "Next", "screen.turn(1)"),
        ("a", "All", "screen.whole"),
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(key, action, label, show=False) for key, label, action in keys
    ]

    def __init__(self, instance: Instance, goal: str) -> None:
        super().__init__(instance, goal)
        self._turn: int | None = None
        self._is_whole = False
        self._shown: InspectedPrompt | str = ""

    def basis(self, detail: GoalView) -> object:
        return self._turn, detail["iteration"], None if self._turn else detail["updated_at"]

    def read_view(self, detail: GoalView) -> InspectedPrompt | str:  # noqa: ARG002 - it is read by its id
        try:
            return inspected(self.instance, self.goal_id, self._turn)
        except CliError as error:
            return error.message

    def display_view(self, found: InspectedPrompt | str) -> None:
        self._shown = found
        if isinstance(found, str):
            self.page([[(clean(found), "")]])
        else:
            self.page(turn_lines(found, whole=self._is_whole))

    def action_turn(self, step: int) -> None:
        """Show the prompt of the turn before or after; after the last one, always that of the next call."""
        if isinstance(self._shown, InspectedPrompt):
            wanted = max(1, self._shown.turn + step)
            self._turn = wanted if wanted < self._shown.turns else None
            turn = f" --turn {self._turn}" if self._turn else ""
            self.show_command(f"clew context {shlex.quote(self.goal_id)}{turn}")
            self.renew(at_once=True)

    def action_whole(self) -> None:
        """Show all of the prompt, or only what changed."""
        self._is_whole = not self._is_whole
        self.display_view(self._shown)


_STYLES = {"added": "green", "removed": "red", "hunk": "cyan", "file": "bold"}
_FILE = "diff --git "


class FilesScreen(GoalViewScreen[ChangedFiles]):
    """The changed files with counts, then the difference of each; or why there is none."""

    view, shows = "files", "clew diff"
    _drawn: ChangedFiles | None = None

    def basis(self, detail: GoalView) -> object:
        return detail["snapshots"], detail["status"]

    def read_view(self, detail: GoalView) -> ChangedFiles:  # noqa: ARG002 - as above
        return changed_files(self.instance, self.goal_id)

    def display_view(self, found: ChangedFiles) -> None:
        if found == self._drawn:
            return
        self._drawn = found
        whole = self.query_one(VerticalScroll)
        whole.remove_children()
        for lines in _pages(found):
            page = TextPage()
            page.show(lines)
            whole.mount(page)


def _pages(found: ChangedFiles) -> Iterator[list[Line]]:
    """Yield the files with their counts, then the difference of each file, then what is not shown."""
    counts = found.counts if found.files else ()  # else the difference says it
    page: list[Line] = [[(clean(line), "")] for line in (found.missing, *counts) if line]
    if found.more_files:
        page.append([(f"… and {found.more_files} more", "dim")])
    for line in found.lines:
        if line.kind == "file" and line.text.startswith(_FILE):
            yield [*page, [("", "")]]
            page = []
        page.append([(clean(line.text.expandtabs(4)), _STYLES.get(line.kind, ""))])
    notes = [*(["The rest of the difference is left out."] if found.is_cut else []), *found.notes]
    yield [*page, [("", "")], *([(clean(note), "dim")] for note in notes)]
