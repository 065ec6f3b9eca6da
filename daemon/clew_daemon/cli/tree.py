"""A goal as a person sees it: its tree with marks, per cent, and what is going on in it.

It draws the views of `clew_shared.publish` (`goal_detail`, `status_view`); it reads nothing itself.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from clew_daemon.cli.output import STATUS_STYLE, Line, columns, duration, percent
from clew_daemon.cli.printable import clean, short

if TYPE_CHECKING:
    from clew_shared.ledger.lock import Holder

MARKS = {
    "pending": "[ ]",
    "in_progress": "[>]",
    "completed": "[x]",
    "failed": "[!]",
    "blocked": "[#]",
    "skipped": "[-]",
}
BAR_CHARS = 20
SIGNATURE_CHARS = 120
QUESTION_CHARS = 2_000
CHECK_CHARS = 300

Detail = Mapping[str, Any]


def overview(goals: list[dict[str, Any]]) -> list[Line]:
    """List goals, one a line: id, status, progress, worker, and what it is at."""
    if not goals:
        return [[("no goals", "dim")]]
    head = ("GOAL", "STATUS", "DONE", "RESTARTS", "BLOCKED", "AT")
    rows: list[Line] = [[(word, "bold") for word in head]]
    for goal in goals:
        status = goal["status"]
        at = goal["reason"] if status in ("blocked", "waiting", "failed") else goal["subtask"]
        rows.append(
            [
                (clean(goal["id"]), ""),
                (clean(status), STATUS_STYLE.get(status, "")),
                (percent(goal["progress"]), ""),
                (str(goal["restarts"]), ""),
                (str(len(goal["blocked_actions"])), ""),
                (short(at or goal["description"], 60), ""),
            ]
        )
    return columns(rows)


def daemon_line(daemon: Mapping[str, Any] | None, holder: Holder | None = None) -> Line:
    """Say whether a daemon answers, and which; `holder` has the ledger's lock where none does."""
    if daemon is None:
        said = f"{holder.running} but does not answer" if holder else "no daemon is running"
        return [(clean(f"{said}; showing the last recorded state"), "yellow")]
    ready = "" if daemon.get("ready", True) else ", not ready yet"
    text = f"daemon {daemon['version']}, pid {daemon['pid']}, up {duration(daemon['uptime_s'])}"
    said = short(str(daemon.get("status") or ""))
    return [(f"{text}{ready}{': ' if said else ''}{said}", "dim")]


def goal_lines(detail: Detail) -> list[Line]:
    """Draw one goal whole: head, tree, blocks, checks, and the question a person must answer."""
    return [
        *head_lines(detail),
        *_cost_lines(detail),
        *tree_lines(detail),
        *_set_aside(detail),
        *_blocks(detail),
        *_checks(detail),
        *closing_lines(detail),
    ]


def head_lines(detail: Detail) -> list[Line]:
    """Say what the goal is, where it stands, and what goes on in it now."""
    status, progress = detail["status"], detail["progress"]
    full = round(progress * BAR_CHARS)
    bar = "#" * full + "." * (BAR_CHARS - full)
    facts = [f"epoch {detail['epoch']}", f"restarts {detail['restarts']}"]
    facts += [
        f"actions {detail.get('actions_total', 0)}",
        f"refused {detail.get('blocked_total', 0)}",
    ]
    facts += [f"pid {detail['pid']}"] if detail.get("pid") else []
    return [
        [(clean(detail["id"]), "bold"), (f"  {short(detail['description'])}", "")],
        [
            (f"[{bar}] {percent(progress):>4}  ", "cyan"),
            (clean(status), STATUS_STYLE.get(status, "")),
            (f"  {', '.join(facts)}", "dim"),
        ],
    ]


def tree_lines(detail: Detail) -> list[Line]:
    """Draw tasks and subtasks with their marks; the running action stands under its subtask."""
    lines: list[Line] = []
    here = (detail["current_task_idx"], detail["current_subtask_idx"])
    costs = {
        (one["task_idx"], one["subtask_idx"]): one["cost"]
        for one in detail.get("subtask_details", ())
    }
    for t, task in enumerate(detail["goal"]["tasks"]):
        lines.append([_mark(task["status"]), (f" {short(task['description'])}", "bold")])
        for s, subtask in enumerate(task["subtasks"]):
            lines.append([*_subtask(subtask), *_spent(costs.get((t, s)))])
            if (t, s) == here and detail["status"] == "in_progress":
                lines += [[("          ", ""), (_action(f), "cyan")] for f in detail["in_flight"]]
    return lines


def closing_lines(detail: Detail) -> list[Line]:
    """Say how the goal ended or why it stands still, and what a person can do."""
    lines: list[Line] = []
    status = detail["status"]
    if detail.get("reason") and status not in ("completed", "in_progress"):
        lines.append([("reason: ", "bold"), (short(detail["reason"], 300), "")])
    if detail.get("wait_until") and status == "waiting":
        again = f"{detail['wait_until']}, or now: clew resume {detail['id']}"
        lines.append([("tried again at: ", "dim"), (clean(again), "dim")])
    if detail.get("summary") and detail["summary"] != detail.get("reason"):
        lines.append([("summary: ", "bold"), (short(detail["summary"], 300), "")])
    if detail.get("question") and status == "blocked":
        asked = clean(detail["question"][:QUESTION_CHARS], lines=True).strip()
        lines.append([("question: ", "bold magenta"), (asked, "")])
        answer = f'clew feedback {detail["id"]} "your answer"'
        lines.append([("answer with: ", "dim"), (clean(answer), "dim")])
    return lines


def _mark(status: str) -> tuple[str, str]:
    return MARKS.get(status, "[?]"), STATUS_STYLE.get(status, "")


def _subtask(subtask: Mapping[str, Any]) -> Line:
    line = [("    ", ""), _mark(subtask["status"]), (f" {short(subtask['description'])}", "")]
    attempts = subtask.get("attempts") or 0
    if attempts and subtask["status"] != "completed":
        line.append((f"  failed {attempts}x: {short(subtask['last_failure'] or '', 60)}", "red"))
    return line


def _spent(cost: Mapping[str, Any] | None) -> Line:
    return [(f"  {cost_text(cost)}", "dim")] if cost and cost["calls"] else []


def cost_text(cost: Mapping[str, Any]) -> str:
    """Say in short what LLM calls have cost: `12 calls, 34k tokens (81 % cached)`."""
    calls = f"{cost['calls']} {'call' if cost['calls'] == 1 else 'calls'}"
    return f"{calls}, {thousands(cost['tokens'])} tokens{_cached(cost)}"


def thousands(count: int) -> str:
    """Write a number of tokens in three digits or so: `812`, `3.4k`, `34k`."""
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
    head: list[Line] = [[("put aside by replans:", "bold")]] if put_aside else []
    return [*head, *([(f"    {short(text, SIGNATURE_CHARS)}", "dim")] for text in put_aside)]


def _action(flight: Mapping[str, Any]) -> str:
    return f"#{flight['seq']} {short(action_text(flight), SIGNATURE_CHARS)}"


def action_text(action: Mapping[str, Any]) -> str:
    """Name an action by its signature, or by its name and args."""
    if signature := action.get("signature"):
        return str(signature).replace("::", " ", 1)
    args = action.get("args") or {}
    return f"{action['name']} {json.dumps(args, ensure_ascii=False, sort_keys=True)}"


def _blocks(detail: Detail) -> list[Line]:
    blocked = detail["blocked_actions"]
    if not blocked:
        return []
    head: Line = [("refused from now on:", "bold magenta")]
    return [head, *([(f"    {short(name, SIGNATURE_CHARS)}", "magenta")] for name in blocked)]


def _ends(output: str) -> str:
    from clew_shared.progress import both_ends  # its patterns cost 20 ms, and most checks pass

    return short(both_ends(output, CHECK_CHARS), CHECK_CHARS)


def _checks(detail: Detail) -> list[Line]:
    lines: list[Line] = []
    for name, check in detail.get("checks", {}).items():
        said = "passed" if check["passed"] else f"failed: {_ends(check['output'])}"
        style = "green" if check["passed"] else "red"
        lines.append([("check ", "bold"), (f"{short(name)}: ", ""), (said, style)])
    return lines
