"""The list of goals, a row for each, drawn from their views (`clew_shared.views.publish.status_view`)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from clew_daemon.publish.standing import PAUSED, STOPPED, standing
from clew_daemon.reading.goal_text import ENDED, activity, its_time, status_style, waited_for
from clew_daemon.reading.output import Line, columns
from clew_daemon.reading.sanitize import clean, counted, short, thousands
from clew_shared.record.moment import local, roughly
from clew_shared.text.plain import percent

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from clew_daemon.reading.goal_text import GoalView

IDLE_SHOWN = 3
"""The number of steps without anything new from which the list says so."""

LISTED_CHARS = 160
"""The length to which a reason is shortened in the list; `clew status GOAL` has it whole."""

NEEDS_SHOWN = 5


def in_view(goals: Iterable[GoalView]) -> list[GoalView]:
    """Return goals in the order of a list: what needs a person, what has not ended, then the last that has ended."""
    given = list(goals)
    ended = [goal for goal in given if goal["status"] in ENDED]
    rest = [goal for goal in given if goal["status"] not in ENDED]
    return [*sorted(rest, key=lambda goal: not goal.get("needs_person")), *reversed(ended)]


def left_out_lines(goals: Sequence[GoalView], left_out: int) -> list[Line]:
    """Return a line on ended goals that a list leaves out, with the commands that show them; none if there are none."""
    if not left_out:
        return []
    last = goals[-1]["id"] if goals and goals[-1]["status"] in ENDED else ""
    before = f", or clew status --before {clean(last)}" if last else ""
    return [[(f"… {counted(left_out, 'more goal')} that ended: clew status --all{before}", "dim")]]


def overview(goals: Sequence[GoalView], at: float | None = None) -> list[Line]:
    """Return the rows of a list of goals, [] without goals; `at` is now, in seconds since 1970.

    A row has the goal's id, status, progress, age and agent, then what it does, waits for or ended with, and its
    tokens, restarts and blocked actions.
    """
    at = time.time() if at is None else at
    if not goals:
        return []
    head = ("GOAL", "STATUS", "DONE", "AGE", "AGENT", "NOW")
    return columns([[(title, "bold") for title in head], *(goal_cells(goal, at) for goal in goals)])


def needs_lines(goals: Iterable[GoalView]) -> list[Line]:
    """Return a line that names the goals that need a person, [] where none does."""
    asking = [clean(goal["id"]) for goal in goals if goal.get("needs_person")]
    if not asking:
        return []
    verb = "needs" if len(asking) == 1 else "need"
    shown = ", ".join(asking[:NEEDS_SHOWN]) + (", …" if len(asking) > NEEDS_SHOWN else "")
    how = f"; `clew status {asking[0]}` shows what to answer"
    head = f"{counted(len(asking), 'goal')} {verb} you: "
    return [[(head, "bold magenta"), (shown, ""), (how, "dim")]]


def goal_cells(goal: GoalView, at: float) -> Line:
    """Return the cells of a goal's row, as `overview` has them."""
    return [
        (clean(goal["id"]), ""),
        (
            clean(standing(goal)) + (" [!]" if goal["status"] == "failed" else ""),
            status_style(goal),
        ),
        (percent(goal["progress"]), ""),
        (roughly(goal.get("age_s") or 0.0), "dim"),
        (clean(goal.get("agent") or "-"), ""),
        (short(_now(goal, at), LISTED_CHARS) + _counts(goal), ""),
    ]


def _counts(goal: GoalView) -> str:
    """Return a goal's tokens, restarts and refused actions in brackets, "" where it has none."""
    tokens, restarts, refused = goal["tokens"], goal["restarts"], goal.get("blocked_total")
    counts = [f"{thousands(tokens)} tokens"] if tokens else []
    counts += [counted(restarts, "restart")] if restarts else []
    counts += [f"{refused} refused"] if refused else []
    return f" ({', '.join(counts)})" if counts else ""


def _now(goal: GoalView, at: float) -> str:
    """Return in a line what a goal does, what it waits for, or why it stopped."""
    if waiting := goal.get("waiting"):
        if standing(goal) == PAUSED:
            return "until `clew continue`"
        moment = its_time(waiting["for"])
        until = f" (until {local(waiting['until'])})" if waiting.get("until") else ""
        what = f"until {moment}" if moment else f"for {waited_for(waiting['for'])}{until}"
        return f"waits {what}"
    if standing(goal) == STOPPED:
        return "continues when the daemon runs"
    if goal["status"] in ("blocked", "failed"):
        return str(goal["reason"] or goal["description"])
    if goal["status"] == "in_progress" and (now := goal.get("now")):
        step = goal["subtask"] or goal["description"]
        idle = goal.get("since_gain") or 0
        vain = f", nothing new for {idle} steps" if idle >= IDLE_SHOWN else ""
        return f"{step}: {activity(now, at)}{vain}"
    return str((goal["status"] == "in_progress" and goal["subtask"]) or goal["description"])
