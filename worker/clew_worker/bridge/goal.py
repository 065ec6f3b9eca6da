"""The bridge's view of its goal: the last answer to `hello`, and what has happened in the CLI's turn since."""

import asyncio
from collections.abc import Mapping
from typing import Any

from clew_shared.tools import IDLE_TOOLS
from clew_shared.wire.answers import Judged
from clew_shared.wire.hello import HelloAnswer, HelloState
from clew_worker.agent.client import AgentClient
from clew_worker.agent.turn import call_record

RECORDS_MAX = 200
"""As many as one `reflect` carries."""

IDLE_CALLS_MAX = 10
"""After so many calls in a row that carried nothing out, a turn is over: else it would have no end."""


class GoalView:
    """One goal as its CLI works on it; `over` is set when nothing more is accepted from it, `turn_over` in this turn.

    `effects` counts the calls of the present turn that reached the daemon.
    """

    def __init__(self, daemon: AgentClient, name: str) -> None:
        self.daemon = daemon
        self.hello = HelloAnswer()
        self.over = asyncio.Event()
        self.turn_over = asyncio.Event()
        self.effects = self._idle_calls = 0
        self._name = name
        self._news: list[str] = []
        self._records: list[dict[str, Any]] = []
        daemon.on("feedback", lambda params: self._news.append(str(params.get("text") or "")))

    @property
    def state(self) -> HelloState:
        """The goal's state as the daemon last sent it."""
        return self.hello.state

    async def refresh(self) -> None:
        """Ask the daemon for the state as it is now."""
        self.hello = await self.daemon.greet(self._name)

    def begin(self) -> None:
        """Begin a turn of the CLI."""
        self.effects = self._idle_calls = 0
        self.turn_over = asyncio.Event()

    def called(self) -> None:
        """Count a call; one that carries something out begins the count anew."""
        self._idle_calls += 1
        if self._idle_calls > IDLE_CALLS_MAX:
            self.turn_over.set()

    def acted(self, tool: str, args: Mapping[str, Any], judged: Judged) -> None:
        """Note an action with its verdict."""
        self.effects += 1
        if judged.outcome and tool not in IDLE_TOOLS:
            self._idle_calls = 0
        if len(self._records) < RECORDS_MAX:
            self._records.append(call_record(tool, args, judged.outcome, message=judged.message))

    def take_records(self) -> list[dict[str, Any]]:
        """Return the entries of an iteration record since the last time."""
        taken, self._records = self._records, []
        return taken

    def take_news(self) -> list[str]:
        """Return the feedback that has come since the last time."""
        taken, self._news = self._news, []
        return taken
