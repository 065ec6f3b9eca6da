"""One goal in full, drawn from its view (`GoalDetail`): what was said in words is shown whole, and only once."""

import time
from collections.abc import Iterable, Mapping
from typing import Any

from clew_daemon.reading import goal_list
from clew_daemon.reading.goal_list import ENDED, stands_for, status_style
from clew_daemon.reading.output import INDENT, STATUS_STYLE, Line, Span, paragraph
from clew_daemon.reading.sanitize import clean, counted, duration, short, thousands
from clew_daemon.record import goal_view
from clew_daemon.record.goal_view import GoalDetail, GoalView, Part, standing
from clew_shared.proof import label
from clew_shared.record.moment import local
from clew_shared.text import words
from clew_shared.text.plain import percent

BAR_CHARS = 20
LEGEND = {"[!]": "failed", "[#]": "blocked", "[-]": "skipped"}
HOW_TO_CHECK = "it has no checks; `checks:` in its file, or `clew submit --check CMD`, adds some"


def goal_lines(detail: GoalDetail, *, report: str = "", at: float | None = None) -> list[Line]:
    """Return a goal in full; `report` is its report's path, "" for none yet, `at` now, in seconds since 1970."""
    at, missing = time.time() if at is None else at, detail["snapshots"]["missing"]
    again, refused = map(words.rerun_text, detail["reruns"]), detail["blocked_actions"]
    head: Line = [
        ("refused actions: ", "bold magenta"),
        (f"`clew loops {detail['id']}` says why", "dim"),
    ]
    return [
        *head_lines(detail, at),
        *_fact_lines(detail, report, at),
        *_attempt_lines(detail),
        *([("again: ", "bold yellow"), (clean(one), "")] for one in again),
        *(paragraph("no snapshot: ", missing, "bold yellow") if missing else []),
        *_tree_lines(detail),
        *([head] if refused else []),
        *([(f"{INDENT}{clean(one)}", "magenta")] for one in refused),
        *_check_lines(detail),
        *closing_lines(detail, detail["summary"]),
    ]


def head_lines(detail: GoalDetail, at: float) -> list[Line]:
    """Return what the goal is, its status and progress, and what it does now."""
    progress, attempt = detail["progress"], detail["attempt"]
    bar = ("#" * int(progress * BAR_CHARS)).ljust(BAR_CHARS, ".")
    known = {"epoch": detail["epoch"], "pid": detail["pid"]}
    facts = [f"{name} {number}" for name, number in known.items() if number]
    limit = f" of {detail['attempt_limit']}" if (detail["attempt_limit"] or 0) >= attempt else ""
    facts += [f"attempt {attempt}{limit}"] if attempt > 1 else []
    facts += [counted(detail["actions_total"], "action")] if detail["actions_total"] else []
    facts += [f"worker died {words.times(detail['restarts'])}"] if detail["restarts"] else []
    facts += [f"{detail['blocked_total']} refused"] if detail["blocked_total"] else []
    lines: list[Line] = [
        [(clean(detail["id"]), "bold"), (f"  {clean(detail['description'])}", "")],
        [
            (f"[{bar}] {percent(progress):>4}  ", "cyan"),
            (clean(standing(detail)), status_style(detail)),
            (f"  {', '.join(facts)}" if facts else "", "dim"),
        ],
    ]
    if now := detail["now"]:
        lines.append([("now: ", "bold"), (goal_list.activity(now, at), "cyan")])
    if standing(detail) == goal_view.STOPPED:
        lines += paragraph("next: ", goal_list.now_text(detail, at))
    return lines


def _fact_lines(detail: GoalDetail, report: str, at: float) -> list[Line]:
    """Return the goal's names and places, its times and costs, what it changed, and whether that was verified."""
    age_s, cost, known = detail["age_s"] or 0.0, detail["cost"], detail["snapshots"]
    sent, used = cost["tokens_in"], f"{thousands(cost['tokens_out'])} out, {cost['llm_s']:.1f} s"
    cached = f" ({round(100 * cost['tokens_cached'] / sent)} % cached)" if sent else ""
    llm = f"{counted(cost['calls'], 'call')}, {thousands(sent)} tokens in{cached}, {used}"
    accepted = f"{local(detail['accepted_at'])}, {duration(age_s, whole=True)} ago"
    made = detail["proof"]
    proof = label.words(made["label"], made["why"], made["accepted"]) if made else ""
    facts = {
        "name": detail["name"],
        "workspace": detail["workspace"],
        "agent": detail["agent"],
        "accepted": accepted if age_s else "",
        "ended": local(detail["ended_at"] or at) if detail["status"] in ENDED else "",
        "working time": duration(cost["active_s"]) if cost["active_s"] else "",
        "LLM": llm if cost["calls"] else "",
        "changed": changed_text(known),
        "undo": known["undo"],
        "proof": f"{proof}; more: clew proof {detail['id']}" if made else "",
        "report": report,
    }
    lines: list[Line] = [
        [(f"{name}: ", "bold"), (clean(value), "")] for name, value in facts.items() if value
    ]
    verified, before = detail["verified"], detail["passed_before"]
    if detail["status"] == "completed" and verified is not None:
        name, how = ("verified", "all checks passed") if verified else ("unverified", HOW_TO_CHECK)
        how += f"; {words.passed_before(before)}" if verified and before else ""
        style = "green" if verified and not before else "yellow"
        lines.append([(f"{name}: ", f"bold {style}"), (how, "")])
    return lines


def _attempt_lines(detail: GoalDetail) -> list[Line]:
    """Return why the attempt before the present one ended, how this one differs, and what was not restored."""
    begun = detail["attempts"]
    if detail["attempt"] == 1 or not begun:
        return []
    last = begun[-1]
    number, restored = last["attempt"], goal_view.ground_facts(last["restored"], "", ())
    lines = paragraph(f"attempt {number - 1} ended: ", words.ending(last["reason"]), "bold yellow")
    if shown := ", ".join(clean(fact) for fact in (last["rung"], *restored) if fact):
        lines.append([(f"{INDENT}attempt {number}: {shown}", "dim")])
    for fact in goal_view.ground_facts(0, last["kept"], last["left"]):
        lines += paragraph(INDENT, fact)
    return lines


def changed_text(known: Part) -> str:
    """Return what differs from the first snapshot, as in `3 files, +10 -2`; "" for nothing."""
    if not (files := known.get("files_changed")):
        return ""
    return f"{counted(files, 'file')}, +{known['lines_added']} -{known['lines_removed']}"


def _tree_lines(detail: GoalDetail) -> list[Line]:
    """Return tasks and subtasks with their marks; the running action is below its subtask."""
    lines: list[Line] = []
    here = (detail["current_task_idx"], detail["current_subtask_idx"])
    for t, task in enumerate(detail["goal"]["tasks"]):
        done = [one["status"] in ("completed", "skipped") for one in task["subtasks"]]
        share = f"  {percent(sum(done) / len(done))}" if done else ""
        title = (f" {clean(task['description'])}", "bold")
        lines.append([_mark(task, detail), title, (share, "cyan")])
        for s, subtask in enumerate(task["subtasks"]):
            number = (f" {t + 1}.{s + 1}", "dim")
            name = (f" {clean(subtask['description'])}", "")
            lines.append([(INDENT, ""), _mark(subtask, detail), number, name])
            lines += _failure_lines(subtask, detail)
            if (t, s) == here and detail["status"] == "in_progress":
                for flight in detail["in_flight"]:
                    shown = f"#{flight['seq']} {short(shown_action(flight), words.ACTION_CHARS)}"
                    lines.append([("          ", ""), (shown, "cyan")])
    return [*lines, *_legend(lines)]


def _legend(tree: Iterable[Line]) -> list[Line]:
    """Return what the marks of a tree mean, the less common ones that are in it."""
    seen = {text for line in tree for text, _ in line[:2]}
    told = [f"{mark} {what}" for mark, what in LEGEND.items() if mark in seen]
    return [[(f"marks: {', '.join(told)}", "dim")]] if told else []


def _mark(step: Part, detail: GoalDetail) -> Span:
    status = goal_view.step_status(step["status"], detail["status"])
    return f"[{goal_view.MARKS.get(status, '?')}]", STATUS_STYLE.get(status, "")


def shown_action(action: Mapping[str, Any]) -> str:
    """Return an action as people read it: the command itself, or the tool and what it is about."""
    return str(action.get("text") or words.action_text(action["name"], action.get("args") or {}))


def _failure_lines(subtask: Part, detail: GoalDetail) -> list[Line]:
    times = subtask["attempts"] or 0
    if not times or subtask["status"] == "completed":
        return []
    failure = subtask["last_failure"] or ""
    continued = detail.get("continued", False)  # not by a daemon of an earlier version
    failed = f"{INDENT * 2}{words.failed_times(times, continued=continued)}"
    if not failure or goal_view.is_told(failure, detail["question"], detail["reason"]):
        return [[(failed, "red")]]
    return paragraph(f"{failed}: ", failure, "red")


def _check_lines(detail: GoalDetail) -> list[Line]:
    lines: list[Line] = []
    before, checks = detail["passed_before"], detail["checks"]
    if not checks:
        lines += [[(clean(words.passed_before([name])), "yellow")] for name in before]
    for name, check in checks.items():
        proves = ", as before any work: it proves nothing" if name in before else ""
        verdict = ("passed", "green") if check["passed"] else ("failed", "red")
        lines.append([("check ", "bold"), (f"{clean(name)}: ", ""), verdict, (proves, "yellow")])
        if not check["passed"]:
            output = clean(check["output"], lines=True).strip()
            lines += [[(f"{INDENT}{line}", "red")] for line in output.splitlines()]
    return lines


def closing_lines(goal: GoalView, summary: str | None = None) -> list[Line]:
    """Return how the goal ended, what it waits for or why it is blocked, and what a person can do."""
    lines: list[Line] = []
    status, reason, question = goal["status"], goal["reason"] or "", _question(goal)
    is_said = status in ("completed", "in_progress")
    is_said = is_said or goal_view.is_told(reason.removeprefix("budget: "), question)
    if waiting := goal["waiting"]:
        lines += _waiting_lines(goal, waiting["since"])
    elif reason and not is_said:
        lines += paragraph("reason: ", reason)
    if summary and not goal_view.is_told(summary, reason):
        lines += paragraph("summary: ", summary)
    if status == "failed":
        lines += [[(clean(one), "")] for one in goal_view.after_failure(goal["id"], goal["agent"])]
    if question:
        lines += paragraph("question: ", question, "bold magenta")
    return [*lines, *answer_lines(goal)]


def question_lines(goal: GoalView) -> list[Line]:
    """Return what a goal that needs a person asks, and what one can do."""
    return closing_lines(goal) if goal["needs_person"] else []


def answer_lines(goal: GoalView) -> list[Line]:
    """Return how to answer a blocked goal's question, unless the question names a command itself."""
    question = _question(goal)
    if not question or "`clew " in question:
        return []
    return [[(clean(f"answer with: {goal['answer']}"), "dim")]]


def _question(goal: GoalView) -> str:
    return (goal["question"] or "") if goal["status"] == "blocked" else ""


def _waiting_lines(goal: GoalView, since: str) -> list[Line]:
    lines = paragraph("waits: ", f"{stands_for(goal)}, since {local(since)}")
    reason = goal["reason"] or goal_view.PAUSED
    if standing(goal) == goal_view.PAUSED and reason != goal_view.PAUSED:
        lines += paragraph(INDENT, reason)
    if goal["status"] == "waiting":
        lines.append([(f"{INDENT}continue now: clew continue {clean(goal['id'])}", "dim")])
    return lines
