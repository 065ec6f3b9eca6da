"""What all screens share: they read in a thread when something has changed, and say where they are."""

from __future__ import annotations

import asyncio
import time
from abc import abstractmethod
from contextlib import suppress
from typing import Any, Generic, TypeVar

from rich.text import Text
from textual.app import ComposeResult
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Footer, Static

from clew_daemon.reading.errors import CliError
from clew_daemon.reading.sanitize import clean
from clew_daemon.top.home import HomeReader

Read = TypeVar("Read")

READ_SHARE = 0.02
"""The share of the time that reading may take, since much of it is the daemon's: after a long read comes a pause."""
PAUSE_MAX_S = 5.0


class LiveScreen(Screen[None], Generic[Read]):
    """A screen that shows what `read` returns; `command` is the command line that shows the same."""

    command = ""

    def __init__(self, home: HomeReader) -> None:
        super().__init__()
        self.home = home
        self._is_reading = self._is_due = False
        self._is_awaited = asyncio.Event()
        self._read_s = 0.0

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
                found = await asyncio.to_thread(self._try_read)
                if isinstance(found, CliError):
                    self.notify(clean(found.message), severity="error", markup=False)
                else:
                    self.display_read(found)
                await self._pause(min(PAUSE_MAX_S, self._read_s / READ_SHARE))
        finally:
            self._is_reading = False

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._is_awaited.wait()
        self._is_awaited.clear()

    def _try_read(self) -> Any:
        began = time.monotonic()
        try:
            return self.read()
        except CliError as error:
            return error
        finally:
            self._read_s = time.monotonic() - began

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

    @abstractmethod
    def body(self) -> list[Widget]:
        """Return the widgets between the head and the keys."""

    @abstractmethod
    def read(self) -> Read:
        """Return what to show; called in a thread, raises CliError."""

    @abstractmethod
    def display_read(self, found: Read) -> None:
        """Show what was read."""
