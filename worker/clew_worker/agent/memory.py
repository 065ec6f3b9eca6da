"""What an llm agent has in mind: the daemon's last word on the goal, and the transcript since then.

Nothing in here is the truth: that is the daemon's, and a new epoch begins with what `hello` says.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from clew_shared.prompt_view import (
    Call,
    Entry,
    Mode,
    Said,
    View,
    current,
    open_subtasks,
    transcript_of,
    view_from,
)

CHARS_PER_TOKEN = 4.0
CHARS_PER_TOKEN_MIN, CHARS_PER_TOKEN_MAX = 1.5, 8.0
CALIBRATION_WEIGHT = 0.3


class Memory:
    """The agent's own copy of the goal; `transcript` belongs to the current subtask."""

    def __init__(self) -> None:
        self.hello: dict[str, Any] = {}
        self.transcript: list[Entry] = []
        self.mode: Mode = "tools"
        self.tightness = 0
        self.chars_per_token = CHARS_PER_TOKEN
        self.iteration = 0
        self.actions = 0
        self.refusals = 0
        self.changes = 0
        """Actions that changed something, or may have."""
        self._measured = False
        self._notes = 0
        self._subtask: tuple[Any, ...] = ()

    def learn(self, hello: Mapping[str, Any], *, anew: bool = False) -> None:
        """Take in what `hello` says; another subtask (or `anew`) begins another transcript."""
        self.hello = dict(hello)
        state = self.hello["state"]
        _, subtask = current(state)
        place = (state["current_task_idx"], state["current_subtask_idx"])
        subtask_key = (*place, subtask.get("description"))
        self.iteration = state.get("iteration", 0)
        if subtask_key != self._subtask or anew:
            self._subtask = subtask_key
            self.transcript = list(transcript_of(state))
            self.refusals = sum(c.result == "blocked" for c in self.calls)
        self.actions = sum(
            s.get("actions_total", 0) for t in state["goal"]["tasks"] for s in t["subtasks"]
        )

    def view(self) -> View:
        """See the goal as the prompt shows it."""
        view = view_from(
            self.hello,
            mode=self.mode,
            transcript=self.transcript,
            chars_per_token=self.chars_per_token,
            tightness=self.tightness,
        )
        return replace(view, iteration=self.iteration, tools_used=self.actions)

    @property
    def state(self) -> Mapping[str, Any]:
        state: Mapping[str, Any] = self.hello["state"]
        return state

    @property
    def calls(self) -> list[Call]:
        """The calls that the daemon has heard of, oldest first."""
        return [e for e in self.transcript if isinstance(e, Call) and e.seq > 0]

    @property
    def checks(self) -> Mapping[str, str]:
        return self.hello.get("checks") or {}

    @property
    def replan(self) -> str | None:
        return self.state.get("replan_required") or None

    @property
    def subtask_open(self) -> bool:
        return current(self.state)[1].get("status") in ("pending", "in_progress")

    def others_open(self) -> list[str]:
        """Name what is open besides the current subtask."""
        still_open = open_subtasks(self.state)
        here = current(self.state)[1].get("description")
        if self.subtask_open and here in still_open:
            still_open.remove(here)
        return still_open

    def say(self, text: str) -> None:
        """Put a note to the model into the transcript."""
        self.transcript.append(Said("user", text))

    def answer(self, name: str, args: Mapping[str, Any], text: str, result: str = "error") -> None:
        """Answer a call that was none of the executor's: it has no number in the ledger."""
        self._notes += 1
        self.transcript.append(Call(-self._notes, name, dict(args), result, text))

    def calibrate(self, chars: int, tokens: int) -> None:
        """Learn from the server's own count how many characters a token has."""
        if tokens <= 0 or chars <= 0:
            return
        seen = min(max(chars / tokens, CHARS_PER_TOKEN_MIN), CHARS_PER_TOKEN_MAX)
        weight = CALIBRATION_WEIGHT if self._measured else 1.0
        self.chars_per_token += weight * (seen - self.chars_per_token)
        self._measured = True


def plain_args(args: Mapping[str, Any], max_chars: int) -> dict[str, Any]:
    """Shorten arguments for a record; small values keep their types."""
    return {key: _plain(value, max_chars) for key, value in args.items()}


def _plain(value: Any, max_chars: int) -> Any:
    if value is None or isinstance(value, bool | int | float):
        return value
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return text[:max_chars]
