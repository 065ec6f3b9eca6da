"""The log, as `clew logs -f` shows it, with a filter."""

import shlex
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import ClassVar

from textual.binding import BindingType
from textual.widget import Widget
from textual.widgets import Input, Log

from clew_daemon.logs.look import plain
from clew_daemon.reading.instance import Instance
from clew_daemon.reading.log_tail import LogTail, entries_of
from clew_daemon.top.screens import LiveScreen

LINES_MAX = 5_000
LINE_CHARS = 2_000
READ_S = 0.5


class LogScreen(LiveScreen):
    """The last lines of the log and new ones, all or those of a goal; `/` shows only lines that contain a text."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("escape", "leave", "Back"),
        ("slash", "search", "Filter"),
    ]

    def __init__(self, instance: Instance, goal: str | None = None) -> None:
        self.command = f"clew logs -f {shlex.quote(goal)}" if goal else "clew logs -f"
        super().__init__(instance)
        self._goal_id = goal
        self._tail = LogTail(instance.log_file)
        self._more = self._tail.last
        self._lines: deque[str] = deque(maxlen=LINES_MAX)
        self._wanted = ""

    def body(self) -> Sequence[Widget]:
        search = Input(placeholder="Only lines that contain …")
        search.display = False
        return [Log(max_lines=LINES_MAX, highlight=False), search]

    def on_mount(self) -> None:
        self.query_one(Log).focus()
        self.set_interval(READ_S, self.renew)

    def on_unmount(self) -> None:
        self._tail.close()

    def read(self) -> Callable[[], None]:
        """Read the lines that are new."""
        found, self._more = self._more()[-LINES_MAX:], self._tail.added
        entries = entries_of(found, self._goal_id)
        lines = [plain(entry)[:LINE_CHARS].replace("\n", " ") for entry in entries]
        return partial(self._add, lines)

    def _add(self, lines: list[str]) -> None:
        self._lines.extend(lines)
        if lines:
            self.query_one(Log).write_lines(self._wanted_of(lines))

    def _wanted_of(self, lines: Iterable[str]) -> list[str]:
        return [line for line in lines if self._wanted in line.lower()]

    def action_search(self) -> None:
        search = self.query_one(Input)
        search.display = True
        search.focus()

    def action_leave(self) -> None:
        """Leave the filter, or the log if there is none."""
        search = self.query_one(Input)
        if not search.display:
            self.app.pop_screen()
            return
        search.value, search.display = "", False
        self.query_one(Log).focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        self._wanted = event.value.lower()
        log = self.query_one(Log)
        log.clear()
        log.write_lines(self._wanted_of(self._lines) or [f"No line contains {event.value!r}."])

    def on_input_submitted(self) -> None:
        self.query_one(Log).focus()
