"""The rules for thoughts and streaks: when the agent needs an intervention.

An intervention refuses nothing. One that is ignored (its cause still holds three steps later, and has grown) is sent
again; the fold counts those.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from clew_shared.gate.messages import tried
from clew_shared.gate.repetition import attempts_allowed
from clew_shared.gate.verdict import PROTOCOL
from clew_shared.record.events import Intervened
from clew_shared.record.fold.thoughts import ALIKE, SWING, streak_of
from clew_shared.text.shorten import in_one_line
from clew_shared.text.thoughts import GENERAL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clew_shared.gate.verdict import AgentCalls, Thresholds
    from clew_shared.record.state import ErrorStreak, Series, State

IGNORED_AFTER_STEPS = 3
FAILURE_CHARS = 300
TURNS_MIN = 2
IN_TURN = 4
"""Two answers, each twice."""

_FAMILY = {
    "theme": "thought",
    "repeated_planning": "thought",
    "repetition": "action",
    "no_progress": "action",
    "same_error": "action",
    "stuck": "reflection",
}


def review(
    state: State,
    thresholds: Thresholds,
    calls: AgentCalls = PROTOCOL,
    *,
    tool: str = "",
    signature: str = "",
) -> Intervened | None:
    """Return the intervention that is due now, if any; `tool` and `signature` name the last action."""
    for found in (
        theme(state, thresholds, calls) or alike(state, thresholds, calls),
        repeated_planning(state, thresholds, calls),
        same_error(state, thresholds, tool, signature),
        restated(state, thresholds, tool),
        swing(state, thresholds, signature),
        no_progress(state, thresholds, calls),
        stuck(state, thresholds, calls),
    ):
        if found and (due := _due(state, found)):
            return _with_tried(state, due)
    return None


def _with_tried(state: State, due: Intervened) -> Intervened:
    """Append what was tried, after a line break: the first line is complete without it."""
    if _FAMILY[due.intervention] == "thought":
        return due
    stale = state.attention.stale if due.intervention == "no_progress" else 0
    return due.model_copy(update={"message": due.message + tried(state, stale=stale)})


def _due(state: State, found: Intervened) -> Intervened | None:
    """Return None for what was sent just now; mark what was ignored as sent again."""
    attention = state.attention
    raised = attention.raised.get(found.intervention)
    if raised and raised.key == found.key:
        grown = streak_of(state, found.intervention, found.key) - raised.streak
        waited = attention.steps - raised.since
        enough = IGNORED_AFTER_STEPS if raised.heeded else 1
        # a turn is no step, so that a streak of turns is measured by its growth
        ignored = grown >= enough and max(waited, grown) >= IGNORED_AFTER_STEPS
        return found.model_copy(update={"again": True}) if ignored else None
    family = _FAMILY[found.intervention]
    recent = (
        r
        for kind, r in attention.raised.items()
        if _FAMILY[kind] == family and attention.steps - r.since < IGNORED_AFTER_STEPS
    )
    return None if any(recent) else found


def theme(state: State, thresholds: Thresholds, calls: AgentCalls) -> Intervened | None:
    """Notice that the last thoughts all have one theme, without progress in between.

    Stops: "I need to plan", three times. Must pass: three searches,
    each announced by a thought, that find something new.
    """
    row = state.attention.theme
    if row.count < thresholds.theme_window or row.what == GENERAL:
        return None
    message = (
        f"Your last {row.count} thoughts were all {row.what.replace('_', ' ')} and nothing new came of them. "
        f"You are repeating yourself: take one concrete action now, or {calls.finish}."
    )
    return Intervened(intervention="theme", key=f"theme:{row.what}", message=message)


def alike(state: State, thresholds: Thresholds, calls: AgentCalls) -> Intervened | None:
    """Notice that the last thoughts all say the same in other words, on any topic.

    Actions that bring nothing new may lie in between. Stops: one plan, repeated before each of three searches that
    find nothing. Must pass: the same words about another file or number, a plan repeated after it has led to
    something, "still running, I wait" between polls.
    """
    count = state.attention.alike
    if count < thresholds.theme_window:
        return None
    message = (
        f"Your last {count} thoughts said the same thing in other words and nothing new came of them. "
        f"You are repeating yourself: take one concrete action now that is not in that plan, or {calls.finish}."
    )
    return Intervened(intervention="theme", key=ALIKE, message=message)


def repeated_planning(state: State, thresholds: Thresholds, calls: AgentCalls) -> Intervened | None:
    """Notice thoughts in a row without a tool call; with new content in the last one, twice as many.

    Stops: "let me think about step 2", "… step 3". Must pass: an analysis of four sentences before the first action,
    each about something else.
    """
    count = state.attention.thoughts_without_tools
    limit = thresholds.thoughts_without_tools * (2 if state.attention.new_thought else 1)
    if count < limit:
        return None
    message = (
        f"{count} thoughts in a row without a tool call. Act now: call one tool, or {calls.finish}."
    )
    return Intervened(intervention="repeated_planning", key="planning", message=message)


def no_progress(state: State, thresholds: Thresholds, calls: AgentCalls) -> Intervened | None:
    """Notice actions, or whole iterations, that bring no new world and no new outcome."""
    attention = state.attention
    by_actions = attention.stale >= thresholds.stale_actions
    by_iterations = (
        attention.iterations_without_facts >= thresholds.iterations_without_facts
        and not attention.fresh  # the present iteration is counted at its end
    )
    if not (by_actions or by_iterations):
        return None
    what = (
        f"{attention.stale} actions in a row"
        if by_actions
        else f"{attention.iterations_without_facts} iterations"
    )
    claimed = "You call it advancing, but " if by_iterations and attention.claims else ""
    message = (
        f"{claimed}{what} brought nothing new: no file changed and no new answer. Stop, say what you know, and do "
        f"one different, concrete action that you have not tried; if the work is done, {calls.finish}."
    )
    return Intervened(intervention="no_progress", key="stale", message=message)


def same_error(
    state: State, thresholds: Thresholds, tool: str, signature: str
) -> Intervened | None:
    """Notice one error that recurs, whatever the arguments.

    It is counted in a row for one tool, in a row for one action (with other actions in between), and, for errors of
    the tool itself (`error`: wrong arguments, not found, not unique), in the whole scope.

    An error that comes back after a change is the answer to another attempt. It counts only if it is the same to the
    letter, and `stale_actions` of them make a streak.

    Stops: forty commands that open the same missing path; a test that fails with the very same output after
    each of five rewrites; an edit that is not unique, tried again after every detour. Must pass: a rate
    limit or a timeout (those get back-off), tests whose failure changes after each edit, four hypotheses against a
    stubborn bug, each with an edit.
    """
    scope, limit = state.scope, thresholds.same_error_limit
    last = scope.tool_errors.get(tool)
    if last is None:
        return None
    for key, streak in (
        (f"tool:{tool}", last),
        (f"action:{signature}", scope.action_errors.get(signature)),
    ):
        if streak and _counts(streak, thresholds):
            return _same_error(key, tool, streak.count, last.what)
    misused = scope.misuses.get(f"{tool}:{last.what}", 0)
    return (
        _same_error(f"misuse:{tool}:{last.what}", tool, misused, last.what)
        if misused >= limit
        else None
    )


def _counts(streak: ErrorStreak, thresholds: Thresholds) -> bool:
    limit = thresholds.same_error_limit
    if streak.count == streak.tries + 1:  # something was changed before each of them
        limit = max(limit, thresholds.stale_actions)
    return streak.count >= limit


def _same_error(key: str, tool: str, count: int, what: str) -> Intervened:
    message = (
        f'{tool} has now failed {count} times in the same way: "{what.partition(":")[2]}". Trying again '
        "the same way does not help: find the cause first, then do one different, concrete action, "
        "perhaps by another tool."
    )
    return Intervened(intervention="same_error", key=key, message=message)


def restated(state: State, thresholds: Thresholds, tool: str) -> Intervened | None:
    """Notice actions that ask for the same with other limits, or with its words in another order, and learn nothing.

    What a read returns that earlier reads in the same world have returned is no new fact. Stops: a file read with ever
    larger limits that was seen whole at the first; a search repeated with its words reordered. Must pass: larger
    limits that show more, page after page, a closer look at a part, the same question after a change or a wait.
    """
    key = state.attention.restated
    count = streak_of(state, "repetition", key)
    if not key or count < attempts_allowed(tool, thresholds):
        return None
    message = (
        f"You have now asked for this {count} times in other forms, and the answers held nothing that you had not seen "
        "before. Nothing more is there: work with what you know, or ask for something else."
    )
    return Intervened(intervention="repetition", key=key, message=message)


def swing(state: State, thresholds: Thresholds, signature: str) -> Intervened | None:
    """Notice edits under which what a check measures goes to and fro.

    A number that reaches a new extreme is a trend. Without one: two readings in turn, each for the second time, or
    `stale_actions` readings that change direction twice. Stops: 3-5-3-5 failing tests. Must pass: two steps forward
    and one back, red and green in turn, an error that stays the same for a while, a check run again without an edit.
    """
    series = state.scope.series.get(signature)
    if series is None:
        return None
    long = series.turns >= TURNS_MIN and series.count >= thresholds.stale_actions
    without_trend = long and not _narrows(series)
    if not (_in_turn(series.outcomes) or _in_turn(series.last) or without_trend):
        return None
    shown = ", ".join(" ".join(f"{number:g}" for number in reading) for reading in series.last)
    readings = f" (its last numbers: {shown})" if len(series.last) > 1 else ""
    message = (
        f"The answers of this check go to and fro under your edits, with no trend{readings}: each edit undoes what "
        "another one did. Go back to the best state, understand one failure, and change only what it needs."
    )
    return Intervened(intervention="no_progress", key=SWING + signature, message=message)


def _narrows(series: Series) -> bool:
    """Return whether the last readings lie closer together than all, as those of a search that closes in do."""
    recent = [max(column) - min(column) for column in zip(*series.last, strict=True)]
    return all(
        2 * now <= high - low
        for now, low, high in zip(recent, series.lows, series.highs, strict=True)
    )


def _in_turn(row: Sequence[object]) -> bool:
    """Return whether the last four are two different ones in turn."""
    return len(row) >= IN_TURN and row[-4:-2] == row[-2:] and row[-1] != row[-2]


def stuck(state: State, thresholds: Thresholds, calls: AgentCalls) -> Intervened | None:
    """Notice that the agent itself reports, several times in a row, that it is stuck."""
    count = state.attention.stuck
    if count < thresholds.stuck_limit:
        return None
    failed = in_one_line(state.subtask.last_failure, FAILURE_CHARS) if state.subtask else ""
    failure = f" Last failure: {failed}." if failed else ""
    message = (
        f"You have called yourself stuck {count} times in a row. To recover: name what you tried and why it failed,"
        f" then do one different, concrete action.{failure} Otherwise {calls.failed}."
    )
    return Intervened(intervention="stuck", key="stuck", message=message)
