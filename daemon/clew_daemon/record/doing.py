"""What a worker does now, for `status` and `watch`: a pure rule over its goal's state and its session's activity.

The record has what was decided and done; only the session knows that an LLM call or a check is under way.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from clew_shared.record.moment import iso

if TYPE_CHECKING:
    from clew_shared.record.state import InFlight, State


@dataclass(slots=True)
class Work:
    """The activity of a session; times are seconds since 1970.

    `llm_since` is when the LLM call began, or the wait for a slot (`llm_queued`); None without a call.
    `check` is the name of the check that has been running since `check_since`, "" for none.
    """

    greeted: bool = False
    llm_since: float | None = None
    llm_queued: bool = False
    check: str = ""
    check_since: float = 0.0


def now_view(state: State, work: Work | None) -> dict[str, Any] | None:
    """Return what the goal's worker does, since when, and on what; None if no worker is at work."""
    if work is None or not state.working:
        return None
    if work.check:
        return _view("checks", work.check_since, f"check {work.check}")
    if state.in_flight:
        return _tool(next(reversed(state.in_flight.values())))
    if not work.greeted:
        return _view("starting", state.worker_since, f"worker, epoch {state.epoch}")
    if work.llm_since is not None:
        what = "waiting for a free LLM slot" if work.llm_queued else "LLM call"
        return _view("thinking", work.llm_since, what)
    return _view("thinking", state.updated_at, "choosing the next step")


def _tool(flight: InFlight) -> dict[str, Any]:
    what = f"#{flight.seq} {flight.signature.replace('::', ' ', 1)}"
    return {"doing": "tool", "since": flight.action.timestamp, "what": what}


def _view(doing: str, since: float, what: str) -> dict[str, Any]:
    return {"doing": doing, "since": iso(since), "what": what}
