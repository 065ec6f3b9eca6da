"""The prompts of a goal's agent, turn by turn, each with what changed since the turn before."""

from __future__ import annotations

import shlex
from typing import ClassVar

from textual.binding import BindingType
from textual.widget import Widget

from clew_daemon.reading.errors import CliError
from clew_daemon.reading.instance import Instance
from clew_daemon.reading.prompt_preview import inspected
from clew_daemon.reading.prompt_text import InspectedPrompt, turn_lines
from clew_daemon.reading.sanitize import clean
from clew_daemon.top.screens import GoalDetail, GoalViewScreen, hidden
from clew_daemon.top.tables import TextPage, scrolling


class PromptScreen(GoalViewScreen[InspectedPrompt | str]):
    """The prompt of a turn, first of the next call; or why there is none."""

    view = "prompt"
    keys = (
        ("b", "Previous", "screen.turn(-1)"),
        ("n", "Next", "screen.turn(1)"),
        ("a", "All", "screen.whole"),
    )
    BINDINGS: ClassVar[list[BindingType]] = hidden(keys)

    def __init__(self, instance: Instance, goal: str) -> None:
        self.command = f"clew context {shlex.quote(goal)}"
        super().__init__(instance, goal)
        self._turn: int | None = None
        self._is_whole = False
        self._shown: InspectedPrompt | str = ""
        self._basis: object = None

    def body(self) -> list[Widget]:
        return [scrolling(TextPage())]

    def read_view(self, detail: GoalDetail) -> InspectedPrompt | str:
        """Return the prompt of the turn; the one that is shown if nothing has happened that changes it."""
        turn = self._turn
        basis = (turn, detail["iteration"], None if turn else detail["updated_at"])
        if basis != self._basis:
            try:
                self._shown = inspected(self.instance, self.goal_id, turn)
            except CliError as error:
                self._shown = error.message
            self._basis = basis
        return self._shown

    def display_view(self, found: InspectedPrompt | str) -> None:
        page = self.query_one(TextPage)
        if isinstance(found, str):
            page.show([[(clean(found), "")]])
        else:
            page.show(turn_lines(found, whole=self._is_whole))

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
