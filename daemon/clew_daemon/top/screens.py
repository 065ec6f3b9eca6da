"""What all screens share: they read in a thread when something has changed, and say where they are."""

import asyncio
import shlex
import time
from abc import abstractmethod
from collections.abc import Iterable
from contextlib import suppress
from typing import ClassVar, Generic, Literal, TypeVar, get_args

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.css.query import NoMatches
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Footer, Static

from clew_daemon.reading.errors import CliError
from clew_daemon.reading.goal_list import GoalView
from clew_daemon.reading.instance import Instance
from clew_daemon.reading.output import Line
from clew_daemon.reading.queries import one_goal
from clew_daemon.reading.sanitize import clean
from clew_daemon.top.tables import TextPage, scrolling

Read = TypeVar("Read")
View = TypeVar("View")
ViewName = Literal["goal", "timeline", "prompt", "files"]
VIEWS: tuple[ViewName, ...] = get_args(ViewName)
"""The views of a goal by their numbers, from 1."""

ViewKeys = tuple[tuple[str, str, str], ...]
"""Keys of one view, each with its label and its action, "" for what only a widget of the view does."""

BACK = ("escape", "app.pop_screen", "Back")
READ_SHARE = 0.02
"""The share of the time that reading may take, since much of it is the daemon's: after a long read comes a pause."""
PAUSE_MAX_S = 5.0


class LiveScreen(Screen[None], Generic[Read]):
    """A screen that shows what `read` returns; `command` is the command line that shows the same."""

    command = ""

    def __init__(self, instance: Instance) -> None:
        super().__init__()
        self.instance = instance
        self._is_reading = self._is_due = False
        self._is_awaited = asyncio.Event()

    def compose(self) -> ComposeResult:
        yield Static(Text(f"$ {clean(self.command)}"), classes="command")
        yield Static("", classes="note")
        yield from self.head()
        yield from self.body()
        yield Footer(show_command_palette=False, compact=True)

    def on_screen_resume(self) -> None:
        """Read when the screen is shown, and at once when it is shown again: what it shows may be old."""
        self.renew(at_once=True)

    def renew(self, *, at_once: bool = False) -> None:
        """Read again, once more afterwards if it is asked for meanwhile; `at_once` without a pause: a person waits."""
        self._is_due = True
        if at_once:
            self._is_awaited.set()
        if not self._is_reading:
            self._is_reading = True
            self.run_worker(self._renew(), exit_on_error=True)

    async def _renew(self) -> None:
        try:
            while self._is_due:
                self._is_due = False
                began = time.monotonic()
                try:
                    found = await asyncio.to_thread(self.read)
                except CliError as error:
                    self.notify(clean(error.message), severity="error", markup=False)
                else:
                    with suppress(NoMatches):  # the screen is being taken down
                        self.display_read(found)
                pause_s = min(PAUSE_MAX_S, (time.monotonic() - began) / READ_SHARE)
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._is_awaited.wait(), pause_s)
                self._is_awaited.clear()
        finally:
            self._is_reading = False

    def page(self, lines: Iterable[Line]) -> None:
        """Show lines on the page."""
        self.query_one(".page", TextPage).show(lines)

    def show_command(self, command: str) -> None:
        """Show another command line as the one that shows the same."""
        self.command = command
        self.query_one(".command", Static).update(Text(f"$ {clean(command)}"))

    def note(self, text: str) -> None:
        """Show a note on the daemon, "" for none; on a screen that is not there yet, nothing."""
        for shown in self.query(".note").results(Static):
            shown.update(Text(clean(text)))
            shown.display = bool(text)

    def head(self) -> ComposeResult:
        """Yield what stands above the body."""
        yield from ()

    def body(self) -> list[Widget]:
        """Return the widgets between the head and the keys: a page, where there is nothing else."""
        return [scrolling(TextPage())]

    @abstractmethod
    def read(self) -> Read:
        """Return what to show; called in a thread, raises CliError."""

    @abstractmethod
    def display_read(self, found: Read) -> None:
        """Show what was read."""


class KeyTab(Static):
    """A key of the line of tabs and what it does; a click does the same."""

    def __init__(self, key: str, label: str, action: str, look: str = "") -> None:
        super().__init__(f"{key} {label}", markup=False, classes=f"tab {look}")
        self._action = action

    async def on_click(self) -> None:
        if self._action:
            await self.app.run_action(self._action, self.screen)


class GoalViewScreen(LiveScreen[tuple[GoalView, View]]):
    """A screen about one goal: a page that scrolls, unless it has another body.

    `view` is its name among the tabs, `shows` the command that shows the same of a goal. `keys` are those of this view
    alone; they are beside the tabs, since the last line has no room for them.
    """

    view: ClassVar[ViewName]
    shows: ClassVar[str]
    keys: ClassVar[ViewKeys] = ()
    BINDINGS: ClassVar[list[BindingType]] = [BACK]

    def __init__(self, instance: Instance, goal: str) -> None:
        self.command = f"{self.shows} {shlex.quote(goal)}"
        super().__init__(instance)
        self.goal_id = goal
        self.goal: GoalView | None = None
        self._basis: object = None
        self._read: View | None = None

    def head(self) -> ComposeResult:
        with Horizontal(classes="tabs"):
            for number, view in enumerate(VIEWS, start=1):
                look = "here" if view == self.view else ""
                yield KeyTab(str(number), view.capitalize(), f"app.view('{view}')", look)
            for key, label, action in self.keys:
                yield KeyTab(key, label, action, "hint")

    def read(self) -> tuple[GoalView, View]:
        detail = one_goal(self.instance, self.goal_id)["goal"]
        basis = self.basis(detail)
        if self._read is None or basis is None or basis != self._basis:
            self._read, self._basis = self.read_view(detail), basis
        return detail, self._read

    def display_read(self, found: tuple[GoalView, View]) -> None:
        self.goal, view = found
        self.display_view(view)

    def basis(self, detail: GoalView) -> object:  # noqa: ARG002 - for those that have one
        """Return what the view follows from: it is read again only if that has changed; None: always."""
        return None

    @abstractmethod
    def read_view(self, detail: GoalView) -> View:
        """Return what to show of a goal; called in a thread."""

    @abstractmethod
    def display_view(self, found: View) -> None:
        """Show what was read."""
