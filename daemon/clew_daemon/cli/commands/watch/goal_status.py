"""Lines on the status of a watched goal: its progress, what it does now, what it waits for, and its question."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from clew_daemon.cli.commands.watch.feed import QUESTION_CHARS, place, shown_action
from clew_daemon.publish.standing import standing
from clew_daemon.reading.goal_text import is_in, its_time, progress_bar
from clew_daemon.reading.output import STATUS_STYLE
from clew_daemon.reading.sanitize import clean, counted, duration, short, thousands
from clew_daemon.record.doing import running_action
from clew_shared.record.moment import local
from clew_shared.text.plain import percent
from clew_shared.views.publish import status_view

if TYPE_CHECKING:
    from collections.abc import Mapping

    from clew_daemon.reading.output import Line
    from clew_shared.record.state import State

SHORTEST = 40
"""Characters of a reason or a question that are shown, however small the window is."""


@dataclass(frozen=True, slots=True)
class GoalMoment:
    """A goal at one moment: its state, and its entry in the daemon's answer to `status`, requested at `asked_at`.

    `is_away` says that no daemon runs: then nothing happens, whatever the last event on record is.
    """

    state: State
    answer: Mapping[str, Any] | None = None
    asked_at: float = 0.0
    is_away: bool = False


def goal_lines(goal: GoalMoment, at: float) -> list[Line]:
    """Return the status of a goal in full: description, progress, subtask, activity, and a question."""
    state = goal.state
    head: Line = [(clean(state.goal_id), "bold"), (f"  {short(state.goal.description)}", "")]
    lines: list[Line] = [head, _progress_line(goal, at)]
    if state.goal.status in ("in_progress", "waiting") and (subtask := state.subtask):
        attempt = f"  attempt {number}" if (number := state.attempt.number) > 1 else ""
        lines.append([(f"{place(state)} {short(subtask.description)}", ""), (attempt, "yellow")])
    return [*lines, *_activity_lines(goal, at)]


def brief_lines(goal: GoalMoment, at: float, question_chars: int = QUESTION_CHARS) -> list[Line]:
    """Return the status of a goal in short: its id, progress and activity."""
    progress = _progress_line(goal, at, bar=False)
    name: Line = [(f"{clean(goal.state.goal_id)}  ", "bold"), *progress]
    return [name, *_activity_lines(goal, at, question_chars)]


def _progress_line(goal: GoalMoment, at: float, *, bar: bool = True) -> Line:
    """Return status, progress, elapsed time, tokens and restarts."""
    state = goal.state
    entry = status_view(state)
    drawn = f"{progress_bar(entry['progress'])} " if bar else ""
    facts = [_elapsed(goal, at)] if state.started_at else []
    facts += [f"{thousands(state.cost.tokens)} tokens"] if state.cost.tokens else []
    facts += [counted(state.actions_total, "action")] if state.actions_total else []
    facts += [counted(state.restarts, "restart")] if state.restarts else []
    facts += [f"{state.blocked_total} refused"] if state.blocked_total else []
    return [
        (f"{drawn}{percent(entry['progress'])}  ", "cyan"),
        (standing(entry), STATUS_STYLE.get(entry["status"], "")),
        (f"  {', '.join(facts)}", "dim"),
    ]


def _elapsed(goal: GoalMoment, at: float) -> str:
    """Return the time since the goal's start, until now or until it came to rest."""
    state = goal.state
    is_resting = state.ended or state.goal.status == "blocked" or goal.is_away
    until = ((state.ended and state.ended_at) or state.updated_at) if is_resting else at
    return _span(until - state.started_at)


def _span(seconds: float) -> str:
    """Return a time, rounded to whole seconds, in its two largest units."""
    return duration(max(0, round(seconds)), whole=True)


def _activity_lines(
    goal: GoalMoment, at: float, question_chars: int = QUESTION_CHARS
) -> list[Line]:
    """Return what the goal does now, what it waits for, or the question that it asks."""
    state, (text, style) = goal.state, _activity(goal, at)
    question = state.question.strip() if state.goal.status == "blocked" else ""
    lines: list[Line] = []
    if text and not (question and is_in(state.reason, question)):
        lines.append([(short(text, max(question_chars, SHORTEST)) if question else text, style)])
    if question:
        asked = clean(question, lines=True)
        if len(asked) > question_chars:  # then why it stopped says most
            most = state.reason if is_in(state.reason, question) else question
            asked = f"{short(most, question_chars)} (all of it: clew status {state.goal_id})"
        lines.append([("question: ", "bold magenta"), (asked, "")])
    return lines


def _activity(goal: GoalMoment, at: float) -> tuple[str, str]:
    """Return a text on what the goal does or waits for, and its style."""
    state = goal.state
    match str(state.goal.status):
        case "in_progress" if goal.is_away:
            return "stopped; continues when the daemon runs", "yellow"
        case "in_progress":
            return _working(goal, at), "cyan"
        case "waiting" | "queued":
            return _waiting(goal, at), "yellow"
        case "blocked" | "failed":
            return short(state.reason, 300), "magenta" if state.goal.status == "blocked" else "red"
        case _:
            return "", ""


def _working(goal: GoalMoment, at: float) -> str:
    state = goal.state
    if state.in_flight:
        flight = next(reversed(state.in_flight.values()))
        for_s = _span(at - _seconds(flight.action.timestamp, at))
        return f"tool running for {for_s}: #{flight.seq} {shown_action(flight.action)}"
    if not state.working:
        return f"starting a worker (epoch {state.epoch + 1})"
    now = (goal.answer or {}).get("now") or {}
    is_older = goal.asked_at < state.updated_at  # than the record
    if is_older or now.get("doing") in (None, "tool"):
        now = {"doing": "thinking"}
    for_s = _span(at - _seconds(now.get("since"), state.updated_at))
    what = short(str(now.get("what") or ""))
    match now["doing"]:
        case "checks":
            return f"checks running for {for_s}: {what}"
        case "starting":
            return f"starting for {for_s}: {what}"
        case _:
            return f"thinking for {for_s}{f' ({what})' if what else ''}"


def _waiting(goal: GoalMoment, at: float) -> str:
    state = goal.state
    answer = (goal.answer or {}).get("waiting") if goal.asked_at >= state.updated_at else None
    waiting = answer or status_view(state)["waiting"] or {}
    if state.paused and (action := running_action(state, at)):
        return f"pausing after {action}"
    if state.paused:
        return f"paused; to go on: clew continue {state.goal_id}"
    what = short(str(waiting.get("for") or "a worker"), 300).removeprefix("waits for ")
    what = "" if its_time(what) else f" for {what}"
    if goal.is_away and what == " for a worker":
        what = " for the daemon"
    until = waiting.get("until")
    left = _seconds(until, at) - at if until else 0.0
    when = f" until {local(until)}" if until and left > 0 else ""
    if goal.is_away:
        return f"waiting{what}{when}"
    left_text = f" (in {_span(left)})" if when else ""
    since = _span(at - _seconds(waiting.get("since"), at))
    return f"waiting{what}{when}{left_text}; for {since} now"


def _seconds(moment: Any, default: float) -> float:
    """Return a moment in ISO 8601 in seconds since 1970, `default` if it is none."""
    try:
        return datetime.fromisoformat(str(moment)).timestamp()
    except ValueError:
        return default
