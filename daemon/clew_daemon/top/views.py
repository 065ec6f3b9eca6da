"""The views of one goal: a screen for each, with a line of tabs, and a number that opens it."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, TypeVar, get_args

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.widgets import Static

from clew_daemon.top.home import GoalRow, HomeReader, goal_row
from clew_daemon.top.screens import LiveScreen

View = TypeVar("View")

ViewName = Literal["goal", "timeline", "prompt", "files"]
VIEWS: tuple[ViewName, ...] = get_args(ViewName)
"""The views by their numbers, from 1."""


class KeyTab(Static):
    """A key of the line of tabs and what it does; a click does the same."""

    def __init__(self, key: str, label: str, action: str, look: str = "") -> None:
        super().__init__(f"{key} {label}", markup=False, classes=f"tab {look}")
        self._action = action

    async def on_click(self) -> None:
        if self._action:
            await self.app.run_action(self._action, self.screen)


ViewKeys = tuple[tuple[str, str, str], ...]
"""Keys of one view, each with its label and its action, "" for what only a widget of the view does."""


def hidden(keys: ViewKeys) -> list[BindingType]:
    """Return the bindings of keys that are not in the last line of the screen."""
    return [Binding(key, action, label, show=False) for key, label, action in keys]


class GoalViewScreen(LiveScreen[tuple[GoalRow, View]]):
    """A screen about one goal; `view` is its name among the tabs.

    `keys` are those of this view alone; they are beside the tabs, since the last line has no room for them.
    """

    view: ClassVar[ViewName]
    keys: ClassVar[ViewKeys] = ()
    BINDINGS: ClassVar[list[BindingType]] = [("escape", "app.pop_screen", "Back")]

    def __init__(self, home: HomeReader, goal: str) -> None:
        super().__init__(home)
        self.goal_id = goal
        self.goal: GoalRow | None = None

    def head(self) -> ComposeResult:
        with Horizontal(classes="tabs"):
            for number, view in enumerate(VIEWS, start=1):
                look = "here" if view == self.view else ""
                yield KeyTab(str(number), view.capitalize(), f"app.view('{view}')", look)
            for key, label, action in self.keys:
                yield KeyTab(key, label, action, "hint")

    def read(self) -> tuple[GoalRow, View]:
        detail = self.home.detail(self.goal_id)
        return goal_row(detail, time.time()), self.read_view(detail)

    def display_read(self, found: tuple[GoalRow, View]) -> None:
        self.goal, view = found
        self.display_view(view)

    @abstractmethod
    def read_view(self, detail: Mapping[str, Any]) -> View:
        """Return what to show of a goal, given its entry of `clew status GOAL --json`; called in a thread."""

    @abstractmethod
    def display_view(self, found: View) -> None:
        """Show what was read."""
