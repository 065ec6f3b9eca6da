"""A goal as a person sees it: its tree with marks, percentages, and what is going on in it.

It draws the views of `views/publish.py` (`goal_detail`, `status_view`); it reads nothing itself. What is
recorded for a person (reasons, questions, failures, summaries, outputs of checks) is shown whole, and only once.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from clew_daemon.cli.display.output import (
    STATUS_STYLE,
    Line,
    Span,
    columns,
    counted_as,
    duration,
    percent,
    roughly,
)
from clew_daemon.cli.display.sanitize import clean, short
from clew_daemon.publish.standing import MARKS as SIGNS
from clew_daemon.publish.standing import PAUSED, standing
from clew_shared.record.moment import local

if TYPE_CHECKING:
    from clew_shared.ledger.lock import Holder

MARKS = {status: f"[{mark}]" for status, mark in SIGNS.items()}
BAR_CHARS = 20
SIGNATURE_CHARS = 120
OVER = ("completed", "failed", "cancelled")
LISTED_CHARS = 160
"""How much of a reason stands in the list of all goals; `clew status GOAL` has it whole."""

INDENT = "    "
REASONS = {"daemon_died": "the daemon died"}
"""Reasons on record that are names, in words."""

DOING = {"thinking": "thinking", "tool": "running a tool", "checks": "running the checks"}
HOW_TO_CHECK = (
    "it has no checks; `checks:` in the front matter, or `clew submit --check CMD`, adds some"
)

Detail = Mapping[str, Any]


def overview(goals: list[dict[str, Any]], at: float | None = None) -> list[Line]:
    """Return a list of goals: id, status, progress, age, agent, and what each does, waits for or ended with.

    With its tokens, restarts and blocked actions, where it has any. `at` is now, in seconds since 1970.
    """
    at = time.time() if at is None else at
    if not goals:
        return []
    head = ("GOAL", "STATUS", "DONE", "AGE", "AGENT", "NOW")
    rows: list[Line] = [[(word, "bold") for word in head]]
    rows += [_cells(goal, at) for goal in goals]
    return columns(rows)


def _cells(goal: Detail, at: float) -> Line:
    return [
        (clean(goal["id"]), ""),
        (clean(standing(goal)), _style(goal)),
        (percent(goal["progress"]), ""),
        (roughly(goal.get("age_s") or 0.0), "dim"),
        (clean(goal.get("agent") or "-"), ""),
        (short(_at(goal, at), LISTED_CHARS) + _counts(goal), ""),
    ]


def _counts(goal: Detail) -> str:
    """Return in brackets how many tokens, restarts and blocked actions a goal has, "" where there are none."""
    tokens, restarts, blocked = goal["tokens"], goal["restarts"], len(goal["blocked_actions"])
    told = [f"{thousands(tokens)} tokens"] if tokens else []
    told += [counted_as(restarts, "restart")] if restarts else []
    told += [counted_as(blocked, "blocked action")] if blocked else []
    return f" ({', '.join(told)})" if told else ""


def _at(goal: Detail, at: float) -> str:
    """Say in a line what a goal does, what it waits for, or why it stands where it is."""
    if waiting := goal.get("waiting"):
        return _waits_for(goal, waiting)
    if goal["status"] in ("blocked", "failed"):
        return str(goal["reason"] or goal["description"])
    if now := goal.get("now"):
        step = goal["subtask"] or goal["description"]
        return f"{step}: {doing(now, at)}"
    return str((goal["status"] == "in_progress" and goal["subtask"]) or goal["description"])


def why(reason: str) -> str:
    """Return in words why a worker or an action was stopped."""
    return REASONS.get(reason, reason)


def doing(now: Mapping[str, Any], at: float) -> str:
    """Say what an agent does and for how long: `thinking for 12 s`; `now` is the key of a running daemon's view."""
    what = clean(str(now.get("what") or DOING.get(now["doing"], now["doing"])))
    began = datetime.fromisoformat(now["since"]).timestamp()
    return f"{what} for {duration(max(0.0, at - began), whole=True)}"


def daemon_line(daemon: Mapping[str, Any] | None, holder: Holder | None = None) -> Line:
    """Say whether a daemon answers, and which; `holder` has the ledger's lock where none does."""
    if daemon is None:
        said = f"{holder.running} but does not answer" if holder else "no daemon is running"
        return [(clean(f"{said}; showing the last recorded state"), "yellow")]
    ready = "" if daemon.get("ready", True) else ", not ready yet"
    up = duration(daemon["uptime_s"], whole=True)
    text = f"daemon {daemon['version']}, pid {daemon['pid']}, running for {up}{ready}"
    said = clean(str(daemon.get("status") or ""))
    return [(f"{text}{': ' if said else ''}{said}", "dim")]


def daemon_lines(daemon: Mapping[str, Any] | None, holder: Holder | None = None) -> list[Line]:
    """Say whether a daemon answers, and what is wrong with the config file that it would read next."""
    error = (daemon or {}).get("config_error")
    lines = [daemon_line(daemon, holder)]
    if error:
        lines += _paragraph("the config file has an error: ", str(error), "yellow")
        lines.append(
            [
                (
                    f"{INDENT}the daemon keeps the config that it has; `clew config` names every error",
                    "dim",
                )
            ]
        )
    return lines


def inbox_lines(inbox: Iterable[Mapping[str, Any]]) -> list[Line]:
    """Name the files of the inbox that are not goals, and why."""
    lines: list[Line] = []
    for file in inbox:
        word = "rejected" if file["rejected"] else "left in the inbox"
        lines += _paragraph(f"{word}: {clean(file['name'])}: ", file["reason"] or "", "yellow")
    return lines


def goal_lines(detail: Detail, *, report: str = "", at: float | None = None) -> list[Line]:
    """Draw one goal whole: head, tree, blocks, checks, and the question that waits for an answer.

    `report` is the path of its report, "" where there is none yet; `at` is now, in seconds since 1970.
    """
    return [
        *head_lines(detail, at),
        *_fact_lines(detail, report, at),
        *_cost_lines(detail),
        *tree_lines(detail),
        *_set_aside(detail),
        *_blocks(detail),
        *_checks(detail),
        *_suggested(detail),
        *closing_lines(detail),
    ]


def head_lines(detail: Detail, at: float | None = None) -> list[Line]:
    """Say what the goal is, where it stands, and what goes on in it now."""
    progress = detail["progress"]
    full = round(progress * BAR_CHARS)
    bar = "#" * full + "." * (BAR_CHARS - full)
    told = ("epoch", "pid")
    facts = [f"{word} {detail[word]}" for word in told if detail.get(word)]
    facts += [f"attempt {detail['attempt']}"] if detail.get("attempt", 1) > 1 else []
    counts = (("action", "actions_total"), ("restart", "restarts"))
    facts += [counted_as(detail[key], word) for word, key in counts if detail.get(key)]
    facts += [f"{detail['blocked_total']} refused"] if detail.get("blocked_total") else []
    lines: list[Line] = [
        [(clean(detail["id"]), "bold"), (f"  {clean(detail['description'])}", "")],
        [
            (f"[{bar}] {percent(progress):>4}  ", "cyan"),
            (clean(standing(detail)), _style(detail)),
            (f"  {', '.join(facts)}" if facts else "", "dim"),
        ],
    ]
    if now := detail.get("now"):
        lines.append([("now: ", "bold"), (doing(now, time.time() if at is None else at), "cyan")])
    return lines


def _fact_lines(detail: Detail, report: str, at: float | None) -> list[Line]:
    """Say who works on the goal and where, since when, and what its end was worth."""
    accepted = (time.time() if at is None else at) - (detail.get("age_s") or 0.0)
    worked = (detail.get("cost") or {}).get("active_s") or 0.0
    age = duration(detail.get("age_s") or 0.0, whole=True)
    ended = detail.get("ended_at") or detail["updated_at"]
    facts = {
        "name": detail.get("name"),
        "workspace": detail.get("workspace"),
        "agent": detail.get("agent"),
        "accepted": f"{local(accepted)}, {age} ago" if detail.get("age_s") else "",
        "ended": local(ended) if detail["status"] in OVER else "",
        "working time": duration(worked) if worked else "",
        "report": report,
    }
    lines: list[Line] = [
        [(f"{name}: ", "bold"), (clean(value), "")] for name, value in facts.items() if value
    ]
    if detail["status"] == "completed" and detail.get("verified") is not None:
        said = "all checks passed" if detail["verified"] else HOW_TO_CHECK
        word, style = ("verified", "green") if detail["verified"] else ("unverified", "yellow")
        lines.append([(f"{word}: ", f"bold {style}"), (said, "")])
    return lines


def tree_lines(detail: Detail) -> list[Line]:
    """Draw tasks and subtasks with their marks; the running action stands under its subtask."""
    lines: list[Line] = []
    here = (detail["current_task_idx"], detail["current_subtask_idx"])
    costs = {
        (one["task_idx"], one["subtask_idx"]): one["cost"]
        for one in detail.get("subtask_details", ())
    }
    said = [detail.get("question"), detail.get("reason")]
    for t, task in enumerate(detail["goal"]["tasks"]):
        lines.append([_mark(task["status"]), (f" {clean(task['description'])}", "bold")])
        for s, subtask in enumerate(task["subtasks"]):
            name = clean(subtask["description"])
            lines.append([(INDENT, ""), _mark(subtask["status"]), (f" {name}", "")])
            lines[-1] = [*lines[-1], *_spent(costs.get((t, s)))]
            lines += _failures(subtask, said)
            if (t, s) == here and detail["status"] == "in_progress":
                lines += [[("          ", ""), (_action(f), "cyan")] for f in detail["in_flight"]]
    return lines


def closing_lines(detail: Detail) -> list[Line]:
    """Say how the goal ended, what it waits for or why it stands still, and what a person can do."""
    lines: list[Line] = []
    status, reason = detail["status"], detail.get("reason") or ""
    question = (detail.get("question") or "") if status == "blocked" else ""
    if waiting := detail.get("waiting"):
        lines += _waiting_lines(detail, waiting)
    elif reason and status not in ("completed", "in_progress") and not is_in(reason, question):
        lines += _paragraph("reason: ", reason)
    summary = detail.get("summary") or ""
    if summary and not is_in(summary, reason):
        lines += _paragraph("summary: ", summary)
    if question:
        lines += _paragraph("question: ", question, "bold magenta")
    return [*lines, *answer_lines(detail)]


def answer_lines(detail: Detail) -> list[Line]:
    """Say how a blocked goal's question is answered, where the question does not say it itself."""
    question = (detail.get("question") or "") if detail["status"] == "blocked" else ""
    if not question or "`clew " in question:
        return []
    answer = f'clew feedback {detail["id"]} "your answer"'
    return [[("answer with: ", "dim"), (clean(answer), "dim")]]


def _waiting_lines(detail: Detail, waiting: Mapping[str, Any]) -> list[Line]:
    said = f"since {local(waiting['since'])}" if waiting.get("since") else ""
    if standing(detail) == PAUSED:
        return [
            [
                ("paused ", "bold"),
                (said, ""),
                (f"; continue: clew resume {clean(detail['id'])}", "dim"),
            ]
        ]
    lines = _paragraph("waits for: ", _waited_for(waiting))
    lines[-1] = [*lines[-1], (f", {said}", "")]
    if waiting.get("until"):
        again = f"until {local(waiting['until'])}"
        now = f"; now: clew resume {detail['id']}" if detail["status"] == "waiting" else ""
        lines.append([(f"{INDENT}{again}{clean(now)}", "dim")])
    elif detail["status"] == "waiting":
        lines.append([(f"{INDENT}continue: clew resume {clean(detail['id'])}", "dim")])
    return lines


def _waits_for(goal: Detail, waiting: Mapping[str, Any]) -> str:
    if standing(goal) == PAUSED:
        return "until `clew resume`"
    until = f" (until {local(waiting['until'])})" if waiting.get("until") else ""
    return f"waits for {_waited_for(waiting)}{until}"


def _waited_for(waiting: Mapping[str, Any]) -> str:
    return str(waiting["for"]).removeprefix("waits for ").removeprefix("waits ")


def _failures(subtask: Mapping[str, Any], said: Iterable[str | None]) -> list[Line]:
    """Say how often a subtask failed, and why the last time, where that is not said elsewhere."""
    times = subtask.get("attempts") or 0
    if not times or subtask["status"] == "completed":
        return []
    failure = subtask.get("last_failure") or ""
    failed = f"{INDENT * 2}failed {counted_as(times, 'time')}"
    if not failure or any(is_in(failure, text or "") for text in said):
        return [[(failed, "red")]]
    return _paragraph(f"{failed}: ", failure, "red")


def is_in(text: str, other: str) -> bool:
    """Tell whether all that a text says, part by part, stands in another one."""
    whole = " ".join(other.split())
    parts = (" ".join(part.split()).rstrip(".") for part in text.split(": "))
    return bool(whole) and all(part in whole for part in parts)


def _paragraph(label: str, text: str, style: str = "bold") -> list[Line]:
    """Return a text whole after its label, its further lines indented."""
    first, *rest = clean(text, lines=True).strip().splitlines() or [""]
    indent = " " * (len(label) - len(label.lstrip())) + INDENT
    return [[(label, style), (first, "")], *([(f"{indent}{line}", "")] for line in rest)]


def _style(goal: Detail) -> str:
    is_unverified = goal["status"] == "completed" and goal.get("verified") is False
    return "yellow" if is_unverified else STATUS_STYLE.get(goal["status"], "")


def _mark(status: str) -> Span:
    return MARKS.get(status, "[?]"), STATUS_STYLE.get(status, "")


def _spent(cost: Mapping[str, Any] | None) -> Line:
    return [(f"  {cost_text(cost)}", "dim")] if cost and cost["calls"] else []


def cost_text(cost: Mapping[str, Any]) -> str:
    """Return in short what LLM calls have cost: `12 calls, 34k tokens (81 % cached)`."""
    calls = f"{cost['calls']} {'call' if cost['calls'] == 1 else 'calls'}"
    return f"{calls}, {thousands(cost['tokens'])} tokens{_cached(cost)}"


def thousands(count: int) -> str:
    """Return a number of tokens in about three digits: `812`, `3.4k`, `34k`."""
    if count < 1_000:
        return str(count)
    return f"{count / 1000:.1f}k" if count < 9_950 else f"{count / 1000:.0f}k"


def _cached(cost: Mapping[str, Any]) -> str:
    """Say how much of what was sent the server had in its cache."""
    sent = cost["tokens_in"]
    return f" ({round(100 * cost['tokens_cached'] / sent)} % cached)" if sent else ""


def _cost_lines(detail: Detail) -> list[Line]:
    """Say what the goal's LLM calls have cost, and the last one of them."""
    cost = detail.get("cost") or {}
    if not cost.get("calls"):
        return []
    count = f"{cost['calls']} {'call' if cost['calls'] == 1 else 'calls'}"
    last = [(f"; the last {_used(call)}", "dim") for call in (detail.get("calls") or [])[-1:]]
    return [[("LLM: ", "bold"), (f"{count}, {_used(cost)}", ""), *last]]


def _used(cost: Mapping[str, Any]) -> str:
    tokens = f"{thousands(cost['tokens_in'])} tokens in{_cached(cost)}"
    return f"{tokens}, {thousands(cost['tokens_out'])} out, {cost['llm_s']:.1f} s"


def _set_aside(detail: Detail) -> list[Line]:
    put_aside = detail.get("set_aside") or []
    head: list[Line] = [[("dropped when the agent planned again:", "bold")]] if put_aside else []
    return [*head, *(line for text in put_aside for line in _paragraph(INDENT, text, "dim"))]


def _action(flight: Mapping[str, Any]) -> str:
    return f"#{flight['seq']} {short(action_text(flight), SIGNATURE_CHARS)}"


def action_text(action: Mapping[str, Any]) -> str:
    """Name an action by its signature, or by its name and args."""
    if signature := action.get("signature"):
        return str(signature).replace("::", " ", 1)
    args = action.get("args") or {}
    return f"{action['name']} {json.dumps(args, ensure_ascii=False, sort_keys=True)}"


def _blocks(detail: Detail) -> list[Line]:
    """List the actions that are refused, by the signatures that `clew unblock` takes."""
    blocked = detail["blocked_actions"]
    head: list[Line] = [[("refused actions:", "bold magenta")]] if blocked else []
    return [*head, *([(f"{INDENT}{clean(name)}", "magenta")] for name in blocked)]


def _checks(detail: Detail) -> list[Line]:
    lines: list[Line] = []
    for name, check in detail.get("checks", {}).items():
        style = "green" if check["passed"] else "red"
        lines.append([("check ", "bold"), (f"{clean(name)}: ", ""), _verdict(check["passed"])])
        if not check["passed"]:
            output = clean(check["output"], lines=True).strip()
            lines += [[(f"{INDENT}{line}", style)] for line in output.splitlines()]
    return lines


def _suggested(detail: Detail) -> list[Line]:
    """List the checks that the agent suggests, as front matter to copy, with how each went."""
    found = detail.get("suggested_checks") or []
    if not found:
        return []
    lines: list[Line] = [
        [
            ("suggested checks", "bold"),
            (" (to require them, copy them into the front matter):", ""),
        ],
        [(f"{INDENT}checks:", "")],
    ]
    for one in found:
        text = f"{clean(one['name'])}: {clean(json.dumps(one['cmd'], ensure_ascii=False))}"
        lines.append([(f"{INDENT}  {text}  ", ""), ("# ", "dim"), _verdict(one["passed"])])
    return lines


def _verdict(passed: bool | None) -> Span:
    if passed is None:
        return "not run yet", "dim"
    return ("passed", "green") if passed else ("failed", "red")
