"""What all screens share: they read in a thread when something has changed, and say where they are."""

import asyncio
import shlex
import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import ClassVar, Literal, get_args

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.css.query import NoMatches
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import DataTable, Footer, Static

from clew_daemon.reading.errors import CliError
from clew_daemon.reading.instance import Instance
from clew_daemon.reading.output import Line, Span, wrapped
from clew_daemon.reading.queries import one_goal
from clew_daemon.reading.sanitize import clean
from clew_daemon.record.goal_view import GoalDetail

ViewName = Literal["goal", "timeline", "prompt", "files"]
VIEWS: tuple[ViewName, ...] = get_args(ViewName)  # the views of a goal by their numbers, from 1
BACK = ("escape", "app.pop_screen", "Back")
# The share of the time that reading may take, since much of it is the daemon's: a long read is followed by a pause.
READ_SHARE = 0.02
PAUSE_MAX_S = 5.0


def line_text(line: Line) -> Text:
    """Return a line as one text."""
    return Text.assemble(*((text, style) for text, style in line), end="", no_wrap=True)


class TextPage(Static):
    """Lines of text, wrapped as those of the command line; showing the same ones again keeps what is selected."""

    def __init__(self, classes: str = "page", *, before: str = "reading …") -> None:
        self._lines: list[Line] = [[(before, "dim")]]
        self._drawn: tuple[list[Line], int] | None = None  # and in which width
        self._wrapped: dict[tuple[int, tuple[Span, ...]], list[Text]] = {}
        super().__init__(before, classes=classes)

    def show(self, lines: Iterable[Line]) -> None:
        """Show these lines instead."""
        self._lines = list(lines)
        self.on_resize()

    def on_resize(self) -> None:
        """Wrap the lines to the width of the page."""
        width = self.content_size.width or self.app.size.width
        if self._drawn != (self._lines, width):
            self._drawn = self._lines, width
            lines = [(width, tuple(line)) for line in self._lines]
            # Most of a page stays as it is from one look to the next.
            known = {one: self._wrapped.get(one) or wrapped([*one[1]], width) for one in lines}
            self._wrapped = known
            self.update(Text("\n").join(part for one in lines for part in known[one]))


class RowTable(DataTable[Text]):
    """Rows by their keys, in a given order; the cursor stays at its key."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("home", "scroll_top", "First", show=False),
        Binding("end", "scroll_bottom", "Last", show=False),
        ("enter", "select_cursor", "Open"),
    ]

    def __init__(self, *titles: str, height: int = 1) -> None:
        super().__init__(cursor_type="row", cell_padding=1, show_header=any(titles))
        self._titles, self._height = titles, height
        self._shown: dict[str, list[Text]] = {}

    def on_mount(self) -> None:
        for title in self._titles:
            self.add_column(Text(title, "bold"), key=title)

    @property
    def current(self) -> str:
        """The key of the row at the cursor, "" if there is none."""
        keys = list(self._shown)
        return keys[self.cursor_row] if 0 <= self.cursor_row < len(keys) else ""

    def put(self, rows: dict[str, list[Text]]) -> None:
        """Show these rows: the cells by the keys of the rows."""
        current, before, self._shown = self.current, self._shown, rows
        if list(rows) == list(before):
            for key, cells in rows.items():
                if cells != before[key]:
                    for title, cell in zip(self._titles, cells, strict=True):
                        self.update_cell(key, title, cell, update_width=True)
            return
        self.clear()
        for key, cells in rows.items():
            self.add_row(*cells, key=key, height=self._height)
        if current in rows:
            self.move_cursor(row=list(rows).index(current), animate=False)


class LiveScreen(Screen[None]):
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
                    draw = await asyncio.to_thread(self.read)
                except CliError as error:
                    self.notify(clean(error.message), severity="error", markup=False)
                else:
                    with suppress(NoMatches):  # the screen is being taken down
                        draw()
                pause_s = min(PAUSE_MAX_S, (time.monotonic() - began) / READ_SHARE)
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._is_awaited.wait(), pause_s)
                self._is_awaited.clear()
        finally:
            self._is_reading = False

    def page(self, lines: Iterable[Line]) -> None:
        """Show lines on the page."""
        self.query_one(".page", TextPage).show(lines)

    def note(self, text: str) -> None:
        """Show a note on the daemon, "" for none; on a screen that is not there yet, nothing."""
        for shown in self.query(".note").results(Static):
            shown.update(Text(clean(text)))
            shown.display = bool(text)

    def body(self) -> Sequence[Widget]:
        """Return the widgets between the notes and the keys: a page, where there is nothing else."""
        return [VerticalScroll(TextPage(), classes="whole")]

    @abstractmethod
    def read(self) -> Callable[[], None]:
        """Read what to show, in a thread, and return what draws it; raises CliError."""


class GoalViewScreen(LiveScreen):
    """A screen about one goal: a page that scrolls, unless it has another body.

    `view` is its name among the tabs, `shows` the command that shows the same of a goal. `keys` are those of this view
    alone, each with its label and its action; they are beside the tabs, since the last line has no room for them.
    """

    view: ClassVar[ViewName]
    shows: ClassVar[str]
    keys: ClassVar[tuple[tuple[str, str, str], ...]] = ()
    BINDINGS: ClassVar[list[BindingType]] = [BACK]

    def __init__(self, instance: Instance, goal: str) -> None:
        self.command = f"{self.shows} {shlex.quote(goal)}"
        super().__init__(instance)
        self.goal_id = goal
        self.goal: GoalDetail | None = None
        self._basis: object = None
        self._lines: list[Line] = []

    def body(self) -> Sequence[Widget]:
        tabs = [
            f"[{'bold reverse' if view == self.view else 'not bold'}][@click=app.view('{view}')]"
            f" {number} {view.capitalize()} [/][/]"
            for number, view in enumerate(VIEWS, start=1)
        ]
        tabs += [f"[dim][@click={action}] {key} {label} [/][/]" for key, label, action in self.keys]
        return [Static("".join(tabs), classes="tabs"), *self.below()]

    def below(self) -> Sequence[Widget]:
        """Return the widgets below the tabs."""
        return super().body()

    def read(self) -> Callable[[], None]:
        self.goal = detail = one_goal(self.instance, self.goal_id)["goal"]
        basis = self.basis(detail)
        if basis is None or basis != self._basis:
            self._lines, self._basis = self.lines(detail), basis
        return partial(self.page, self._lines)

    def basis(self, detail: GoalDetail) -> object:  # noqa: ARG002 - for those that have one
        """Return what the lines follow from: they are read again only if that has changed; None: always."""
        return None

    @abstractmethod
    def lines(self, detail: GoalDetail) -> list[Line]:
        """Return what to show of a goal; called in a thread."""
