"""What the programs of one worker learn of their goal's trace, so that spans of their own join it.

The config asks for it by naming TRACEPARENT in `[sandbox] env`: otherwise the same command has the same environment
each time, as caches of builds and the gate's comparison of outcomes expect.
"""

from __future__ import annotations

from dataclasses import dataclass

from clew_shared.record.trace_ids import TRACEPARENT, span_id, traceparent, worker_span_id


@dataclass(frozen=True, slots=True)
class WorkerTrace:
    """The place of one worker in its goal's trace: `span` is its span's id, "" where its programs learn nothing."""

    goal: str = ""
    span: str = ""

    @classmethod
    def begun(cls, goal: str, epoch: int, at: float) -> WorkerTrace:
        """Return the place of a worker that is about to start, at `at` seconds since 1970."""
        return cls(goal, worker_span_id(goal, epoch, at))

    def of_worker(self) -> dict[str, str]:
        """Return what is added to the environment of the worker's processes."""
        return {TRACEPARENT: traceparent(self.goal, self.span)} if self.span else {}

    def of_action(self, seq: int, at: float) -> dict[str, str]:
        """Return what is added to the environment of the action that was allowed with event `seq`, at `at`."""
        if not self.span:
            return {}
        return {TRACEPARENT: traceparent(self.goal, span_id(self.goal, seq, at))}
