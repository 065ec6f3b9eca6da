"""What a worker does now, by its goal's record and its session's activity. Pure."""

from dataclasses import dataclass

from clew_daemon.record.goal_view import Part
from clew_shared.record.moment import iso
from clew_shared.record.state import State
from clew_shared.text.words import action_text


@dataclass(slots=True)
class Work:
    """The activity of a session; times are seconds since 1970."""

    greeted: bool = False
    llm_since: float | None = None  # when the LLM call began, or the wait for a slot
    llm_queued: bool = False
    check: str = ""  # the one that has been running since `check_since`
    check_since: float = 0.0
    said: str = ""  # what the running command, or the last one, has printed last

    def hear(self, tail: str) -> None:
        self.said = tail


def now_view(state: State, work: Work | None) -> Part | None:
    """Return what the goal's worker does, since when, and on what; None if no worker is at work."""
    if work is None or not state.working:
        return None
    if work.check:
        return _view("checks", work.check_since, f"check {work.check}")
    if state.in_flight:
        flight = next(reversed(state.in_flight.values()))
        what = f"#{flight.seq} {action_text(flight.action.name, flight.action.args)}"
        said = {"said": work.said} if work.said else {}
        return {"doing": "tool", "since": flight.action.timestamp, "what": what, **said}
    if not work.greeted:
        return _view("starting", state.worker_since, f"worker, epoch {state.epoch}")
    if work.llm_since is not None:
        what = "waiting for a free LLM slot" if work.llm_queued else "LLM call"
        return _view("thinking", work.llm_since, what)
    return _view("thinking", state.updated_at, "choosing the next step")


def _view(doing: str, since: float, what: str) -> Part:
    return {"doing": doing, "since": iso(since), "what": what}
