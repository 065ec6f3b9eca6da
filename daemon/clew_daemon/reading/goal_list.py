"""Goals and the daemon in short, as every view lists them, drawn from their views (`record/goal_view.py`)."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from clew_daemon.reading.errors import TO_START
from clew_daemon.reading.output import INDENT, STATUS_STYLE, Line, columns, paragraph
from clew_daemon.reading.sanitize import clean, short
from clew_daemon.record.goal_view import STOPPED, GoalList, GoalView, Part, standing, stands_for
from clew_shared.record.moment import roughly
from clew_shared.text.plain import percent
from clew_shared.text.words import counted, duration, thousands, times

if TYPE_CHECKING:
    from clew_daemon.ledger.lock import Holder

ENDED = ("completed", "failed", "cancelled")
TITLE_CHARS, LISTED_CHARS = 60, 160
WHY_CHARS = 600  # of a reason: that of a step has its command, and ends with what came of it
STATUS_CHARS = len("completed, unverified")
NEEDS_SHOWN = 5
IDLE_SHOWN = 3  # the number of steps without anything new from which a list says so
_VERBS = {"tool": "running", "checks": "running"}  # thinking and starting are words already
KEEPS_CONFIG = f"{INDENT}the daemon keeps the config that it has; `clew config` names every error"


def doing(now: Part, for_s: str = "") -> str:
    """Return what an agent does, as in `thinking (LLM call)` or `running: #7 make`; `now` is of its goal's view."""
    verb, what = _VERBS.get(now["doing"], now["doing"]), clean(now["what"])
    on = f" ({what})" if now["doing"] == "thinking" else f": {what}"
    return f"{verb}{for_s}{on if what else ''}"


def activity(now: Part, at: float) -> str:
    """Return what an agent does, since when and on what, as in `running for 3 s: #7 make`; `at` is now."""
    began = datetime.fromisoformat(now["since"]).timestamp()
    return doing(now, f" for {duration(max(0.0, at - began), whole=True)}")


def status_style(goal: GoalView) -> str:
    """Return the style of a goal's status."""
    is_lacking = goal["status"] == "completed" and (goal["verified"] is False or goal.get("undone"))
    return "yellow" if is_lacking else STATUS_STYLE.get(goal["status"], "")


def now_text(goal: GoalView, at: float) -> str:
    """Return in a line what a goal does, what it waits for, or why it stopped; `at` is now, in seconds since 1970."""
    why, now, step = stands_for(goal), goal["now"], goal["subtask"] or goal["description"]
    if goal["waiting"]:
        waits = f"waits {why}" if why.startswith("until") else f"waits for {why}"
        return f"{step}: {activity(now, at)}, then {waits}" if goal["paused"] and now else waits
    if standing(goal) == STOPPED:
        return why
    if goal["status"] == "in_progress" and now:
        idle = goal["since_gain"] or 0
        vain = f", nothing new for {idle} steps" if idle >= IDLE_SHOWN else ""
        return f"{step}: {activity(now, at)}{vain}"
    if label := _status(goal)[1]:
        return f"{goal['description']} ({label})"
    return why or str((goal["status"] == "in_progress" and goal["subtask"]) or goal["description"])


def _status(goal: GoalView) -> tuple[str, str]:
    """Return a goal's status in a word or two, and what more its label says."""
    told = standing(goal)
    if goal.get("undone"):
        return told.rpartition(", then ")[2], told
    head, _, label = told.partition(", ") if len(told) > STATUS_CHARS else (told, "", "")
    return head, label


def counts(goal: GoalView) -> list[str]:
    """Return a goal's tokens, deaths of its worker, and refused actions, each where there are some."""
    tokens, restarts, refused = goal["tokens"], goal["restarts"], goal["blocked_total"]
    found = [f"{thousands(tokens)} tokens"] if tokens else []
    found += [f"worker died {times(restarts)}"] if restarts else []
    found += [f"{refused} refused"] if refused else []
    return found


def status_cells(goal: GoalView) -> Line:
    """Return the cells of a goal's row but the last one: its id, status, progress, age and agent."""
    return [
        (clean(goal["id"]), ""),
        (clean(_status(goal)[0]), status_style(goal)),
        (percent(goal["progress"]), ""),
        (roughly(goal["age_s"] or 0.0), "dim"),
        (clean(goal["agent"] or "-"), ""),
    ]


def overview(goals: Sequence[GoalView], at: float | None = None, width: int = 0) -> list[Line]:
    """Return a list of goals, [] without goals; `at` is now, in seconds since 1970, `width` the terminal's, or 0."""
    at = time.time() if at is None else at
    head = ("GOAL", "STATUS", "DONE", "AGE", "AGENT", "NOW")
    rows = [[*status_cells(goal), (_row_text(goal, at), "")] for goal in goals]
    return columns([[(title, "bold") for title in head], *rows], width=width) if rows else []


def _row_text(goal: GoalView, at: float) -> str:
    """Return what a goal's row says last: its `now_text`, with the title before why it stopped, and its counts."""
    more = f" ({', '.join(found)})" if (found := counts(goal)) else ""
    if goal["status"] in ("blocked", *ENDED) and (why := stands_for(goal)):
        return f"{short(goal['description'], TITLE_CHARS)}: {short(why, WHY_CHARS)}{more}"
    return short(now_text(goal, at), LISTED_CHARS) + more


def listed(found: GoalList, holder: Holder | None = None) -> list[GoalView]:
    """Return the goals of an answer in the order of a list; without a daemon, or a `holder` of its lock, `stopped`."""
    stopped = found["daemon"] is None and holder is None
    return in_view({**goal, "stopped": stopped} for goal in found["goals"])


def in_view(goals: Iterable[GoalView]) -> list[GoalView]:
    """Return goals in the order of a list: what needs a person, what has not ended, then the last that has ended."""
    given = list(goals)
    ended = [goal for goal in given if goal["status"] in ENDED]
    rest = [goal for goal in given if goal["status"] not in ENDED]
    return [*sorted(rest, key=lambda goal: not goal["needs_person"]), *reversed(ended)]


def left_out_lines(found: GoalList) -> list[Line]:
    """Return a line on the ended goals that a list leaves out, and how many of them failed; [] for none."""
    if not (count := found.get("left_out")):
        return []
    failed = found["left_out_failed"] or 0
    some = f", {failed} of them failed" if 0 < failed < count else ""
    how = f"{'failed' if failed == count else 'ended'}{some}: clew status --all"
    return [[(f"… {counted(count, 'more goal')} that {how}", "dim")]]


def needs_lines(goals: Sequence[GoalView], failed_more: int = 0) -> list[Line]:
    """Return a line that names the goals that need a person, and one for the failed; `failed_more` are elsewhere."""
    asking = [clean(goal["id"]) for goal in goals if goal["needs_person"]]
    failed = [clean(goal["id"]) for goal in goals if goal["status"] == "failed"]
    verb = "needs you" if len(asking) == 1 else "need you"
    return [
        *_names_line(asking, verb, "bold magenta", "what to answer", 0),
        *_names_line(failed, "failed", "bold red", "why, and how to continue", failed_more),
    ]


def _names_line(goals: Sequence[str], verb: str, style: str, shows: str, more: int) -> list[Line]:
    if not goals:
        return []
    count = len(goals) + more
    shown = ", ".join(goals[:NEEDS_SHOWN]) + (", …" if count > len(goals[:NEEDS_SHOWN]) else "")
    how = f"; `clew status {goals[0]}` shows {shows}"
    return [[(f"{counted(count, 'goal')} {verb}: ", style), (shown, ""), (how, "dim")]]


def daemon_lines(daemon: Mapping[str, Any]) -> list[Line]:
    """Return lines on the daemon that answered, and on its config file where that has an error."""
    ready = "" if daemon.get("ready", True) else ", not ready yet"
    up = duration(daemon["uptime_s"], whole=True)
    text = f"daemon {daemon['version']}, pid {daemon['pid']}, running for {up}{ready}"
    status = clean(str(daemon.get("status") or ""))
    lines: list[Line] = [[(f"{text}{': ' if status else ''}{status}", "dim")]]
    if error := daemon.get("config_error"):
        lines += paragraph("the config file has an error: ", str(error), "yellow")
        lines.append([(KEEPS_CONFIG, "dim")])
    return lines


def no_daemon_line(holder: Holder | None) -> Line:
    """Return a line on the `holder` of the lock that did not answer, or on how to start a daemon, where none runs."""
    none = f"no daemon is running (start it with {TO_START})"
    state = f"{holder.running} but does not answer" if holder else none
    return [(clean(f"{state}; showing the last recorded state"), "yellow")]


def inbox_lines(inbox: Iterable[Part]) -> list[Line]:
    """Return lines on the files of the inbox that are no goals, with the reasons."""
    lines: list[Line] = []
    for file in inbox:
        state = "rejected" if file["rejected"] else "left in the inbox"
        lines += paragraph(f"{state}: {clean(file['name'])}: ", file["reason"] or "", "yellow")
    return lines
