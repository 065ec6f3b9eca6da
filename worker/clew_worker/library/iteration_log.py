"""The iteration log: the records of an agent's turns, kept on disk, and what they say of where it stands.

The records are complete, for debugging; `reasoning_context` is their short form for a prompt. This log relies on the
agent's own assessment, while the daemon judges progress by evidence.
"""

import os
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from clew_shared.prompt.reasoning import FOUND_CHARS, relevant_lines
from clew_shared.prompt.windows import JSON_CHARS_PER_TOKEN
from clew_shared.text.shorten import in_one_line
from clew_worker.library.iteration_record import IterationRecord, parsed
from clew_worker.library.iteration_store import IterationStore

_LISTED_FAILURES = 5


class Intervention(str):
    """A message for the agent: a string that also has a `kind`."""

    __slots__ = ("kind",)
    kind: str

    def __new__(cls, kind: str, message: str) -> Self:
        intervention = super().__new__(cls, message)
        intervention.kind = kind
        return intervention

    @property
    def message(self) -> str:
        return str(self)


class IterationLog:
    """The records of one goal, oldest first.

    After `stuck_limit` turns in a row that are stuck or regressing by their own assessment, `add` returns a
    recovery intervention; it and every other turn reset the count.

    The log is kept in `.agent_context/` of `folder` (None: only in memory). A log of a `goal` continues with the
    records of that goal; under the daemon that is the goal that this process works on. A log without a goal
    continues the last one of the folder if that is still open or its program crashed.
    """

    def __init__(
        self,
        stuck_limit: int = 3,
        *,
        goal: str = "",
        folder: str | os.PathLike[str] | None = ".",
        chars_per_token: float = JSON_CHARS_PER_TOKEN,
    ) -> None:
        if stuck_limit < 1:
            raise ValueError(f"stuck_limit is {stuck_limit}; it must be at least 1")
        self.stuck_limit = stuck_limit
        self.chars_per_token = chars_per_token
        """For `reasoning_context`; that of a `DualTrackContext` is measured for the model in use."""
        self.records: list[IterationRecord] = []
        self._stuck: list[IterationRecord] = []
        self._store = None if folder is None else IterationStore(Path(folder), goal)
        if self._store:
            for record in self._store.read():
                self._take(record)
            weakref.finalize(self, self._store.end)

    def add(self, record: IterationRecord | Mapping[str, Any]) -> Intervention | None:
        """Add a record; return a recovery prompt when the agent is stuck, else None.

        Raises a ValueError that names every invalid field; the record is then not added.
        """
        entry = parsed(record)
        if self._store:
            self._store.append(entry)
        return self._take(entry)

    def _take(self, entry: IterationRecord) -> Intervention | None:
        self.records.append(entry)
        if entry.progress_assessment not in {"stuck", "regressing"}:
            self._stuck.clear()
            return None
        self._stuck.append(entry)
        if len(self._stuck) < self.stuck_limit:
            return None
        intervention = Intervention("stuck", _recovery_prompt(self._stuck))
        self._stuck.clear()
        return intervention

    def reasoning_context(self, max_tokens: int | None = None) -> list[str]:
        """Return one line per call, "did X → found Y": by relevance, in order of time within it.

        Repeated calls have a line each. Over `max_tokens`, the least relevant are left out, the oldest of them first.
        """
        ordered = sorted(self.records, key=lambda record: record.timestamp)
        lines = [(c.relevance, c.line()) for record in ordered for c in record.tool_calls]
        room = None if max_tokens is None else int(max_tokens * self.chars_per_token)
        return relevant_lines(lines, room)

    def cost(self) -> dict[str, float]:
        """Return the totals of all calls: `tokens`, `time` in seconds, and the number of `calls`."""
        calls = [call for record in self.records for call in record.tool_calls]
        return {
            "tokens": sum(call.cost.tokens for call in calls),
            "time": sum(call.cost.time for call in calls),
            "calls": len(calls),
        }


def _recovery_prompt(stuck: list[IterationRecord]) -> str:
    calls = [call for record in stuck for call in record.tool_calls]
    tried = list(dict.fromkeys(call.line() for call in calls))[-_LISTED_FAILURES:]
    lines = [f"No progress for {len(stuck)} iterations; it is time to recover."]
    if tried:
        lines += ["Tried without success:", *(f"- {line}" for line in tried)]
    lines.append("Do none of these again. Name one different, concrete action, and take it now.")
    suggested = [call.next_suggested_actions for call in calls if call.next_suggested_actions]
    if suggested:
        lines.append(f"Your latest idea: {in_one_line(suggested[-1], FOUND_CHARS)}")
    return "\n".join(lines)
