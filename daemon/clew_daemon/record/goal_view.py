"""A goal's view: the keys of its JSON (`clew status --json`, the control socket), and the words for how it stands.

`goal_status` makes them of goals' states. It imports nothing expensive: the command line shows them without the models.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NotRequired, TypedDict, final

from clew_shared.proof.label import words
from clew_shared.record.moment import local
from clew_shared.text.shorten import is_told
from clew_shared.text.words import put_back

Part = Mapping[str, Any]  # of a view; its keys are in `goal_status`


class GoalView(TypedDict):
    """A goal in the list; readers add `stopped`: that no daemon runs."""

    id: str
    description: str
    status: str
    progress: float
    task: str | None
    subtask: str | None
    epoch: int
    pid: int | None
    restarts: int
    iteration: int
    verified: bool | None
    paused: bool
    blocked_actions: list[str]
    blocked_total: int
    reason: str | None
    updated_at: str
    name: str | None
    agent: str
    attempt: int
    undone: bool  # after it was completed
    undone_in_part: NotRequired[bool]  # only subtasks; not of a daemon of an earlier version
    passed_before: list[str]
    proof: Part | None
    tokens: int
    age_s: float
    accepted_at: str
    needs_person: bool
    question: str | None
    answer: str | None
    now: Part | None
    waiting: Part | None
    since_gain: int | None
    debt: float | None
    stopped: NotRequired[bool]


class GoalDetail(GoalView):
    """One goal in full; `attempt_limit` follows from the settings."""

    goal: Part
    current_task_idx: int
    current_subtask_idx: int
    in_flight: list[Part]
    summary: str | None
    checks: Mapping[str, Part]
    check_commands: Mapping[str, str]
    checked_before: Mapping[str, Part]
    suggested_checks: list[Part]
    workspace: str
    ended_at: str | None
    actions_total: int
    loops_total: int
    wait_until: str | None
    snapshots: Part
    replan_required: str | None
    set_aside: list[str]
    attempts: list[Part]
    continued: bool  # by a person: failures count from then
    reruns: list[Part]
    cost: Part
    subtask_details: list[Part]
    attempt_limit: int | None


class Left(TypedDict):
    """What is left in the inbox: the newest entries, and how many there are in all."""

    inbox: Sequence[Part]
    inbox_total: int


class LeftOut(TypedDict):
    """Whether and how many ended goals a list leaves out, and how many of them failed."""

    more: bool
    left_out: int
    left_out_failed: int | None  # None: a daemon of an earlier version


@final
class GoalList(Left, LeftOut):
    """The answer to `status` on all goals; `daemon` is None where none answered."""

    daemon: Part | None
    goals: list[GoalView]


@final
class OneGoal(TypedDict):
    """The answer to `status` on one goal."""

    daemon: Part | None
    goal: GoalDetail


PAUSED = "paused"  # the status of a waiting goal that a person has paused
STOPPED = "stopped"  # of one in progress while no daemon runs, whose views say so
# The mark in brackets before a task or a subtask, by its status.
MARKS = {
    "pending": " ",
    "in_progress": ">",
    "completed": "x",
    "failed": "!",
    "blocked": "#",
    "skipped": "-",
}
# How a step in progress is shown in a goal with this status, on which no worker is working.
AT_REST = {"blocked": "blocked", "failed": "pending", "cancelled": "pending"}


def after_failure(goal: str, agent: str | None) -> list[str]:
    """Return what a person can do about a failed goal, a line each; a runbook takes no advice."""
    lines = [
        f"- when you have fixed the cause, continue: `clew continue {goal}`",
        f"- correct its text, agent, checks or limits, then continue: `clew edit {goal}`",
    ]
    advice = f'- say what to do differently, then continue: `clew feedback {goal} "…"`'
    return ["You can:", *lines, *([] if agent == "runbook" else [advice])]


def ground_facts(restored: int, kept: str | None, left: Sequence[str]) -> list[str]:
    """Return what became of the workspace before an attempt: files put back, why not others, those that were left."""
    facts = {
        put_back(restored): restored,
        f"not put back: {kept}": kept,
        f"left as they are: {', '.join(left)}": left,
    }
    return [text for text, applies in facts.items() if applies]


def standing(goal: GoalView) -> str:
    """Return the status of a goal's view as people read it: `paused`, `completed, proven, then undone`."""
    status, made = goal["status"], goal["proof"]
    if status == "waiting" and goal["paused"]:
        return PAUSED
    if status == "in_progress" and goal.get("stopped"):
        return STOPPED
    if status != "completed":
        return status
    if goal["verified"] is False:
        status += ", unverified"
    elif made:
        status += f", {words(made['label'], made['why'], made['accepted'])}"
    part = "partly " if goal.get("undone_in_part") else ""
    return f"{status}, then {part}undone" if goal.get("undone") else status


def stands_for(goal: GoalView) -> str:
    """Return what a goal waits for, or why it stopped; "" while it is at work, and once it is completed."""
    if standing(goal) == PAUSED:
        return "until `clew continue`"
    if standing(goal) == STOPPED:
        return goal["reason"] or "continues when the daemon runs"
    if waiting := goal["waiting"]:
        what = waiting["for"].removeprefix("waits for ").removeprefix("waits ")
        if what.startswith("until "):  # it waits for nothing else
            return f"until {local(what.removeprefix('until '))}"
        until = waiting["until"] if "until" not in what else None
        return f"{what} (until {local(until)})" if until else what
    return str(goal["reason"] or "") if goal["status"] in ("blocked", "failed", "cancelled") else ""


def because(goal: GoalView) -> tuple[str, str]:
    """Return `waits` or `reason`, and what a goal waits for, or why it stopped; "" twice where its question says it."""
    if waiting := goal["waiting"]:
        return "waits", f"{stands_for(goal)}, since {local(waiting['since'])}"
    reason = stands_for(goal) if goal["status"] in ("blocked", "failed", "cancelled") else ""
    asked = goal["question"] if goal["status"] == "blocked" else ""
    is_said = not reason or is_told(reason.removeprefix("budget: "), asked)
    return ("", "") if is_said else ("reason", reason)
