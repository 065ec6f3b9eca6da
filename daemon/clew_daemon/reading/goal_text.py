"""One goal in full, drawn from its view (`GoalDetail`): what was said in words is shown whole, and only once."""

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from clew_daemon.reading import goal_list
from clew_daemon.reading.goal_list import status_style
from clew_daemon.reading.output import INDENT, STATUS_STYLE, Line, Span, paragraph
from clew_daemon.reading.sanitize import clean, short
from clew_daemon.record import goal_view
from clew_daemon.record.goal_view import PAUSED, GoalDetail, GoalView, Part, standing
from clew_daemon.record.goal_words import Step, checks, facts, fresh_start, tree, unchecked
from clew_shared.text import words
from clew_shared.text.plain import percent
from clew_shared.text.shorten import is_told

BAR_CHARS = 20
LEGEND = {"[!]": "failed", "[#]": "blocked", "[-]": "skipped"}
NOTE_STYLE = {"failed": "red", "found:": "bold", "running:": "cyan"}


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
        *_fact_lines(detail, report),
        *_attempt_lines(detail),
        *([("again: ", "bold yellow"), (clean(one), "")] for one in again),
        *(paragraph("no snapshot: ", missing, "bold yellow") if missing else []),
        *_tree_lines(detail),
        *([head] if refused else []),
        *([(f"{INDENT}{clean(one)}", "magenta")] for one in _told_apart(refused)),
        *_check_lines(detail),
        *closing_lines(detail, detail["summary"]),
    ]


def _told_apart(signatures: Sequence[str]) -> list[str]:
    """Return actions as people read them, or their whole signatures where several read the same."""
    shown = [words.signature_text(one) for one in signatures]
    count = Counter(shown)
    return [text if count[text] == 1 else one for one, text in zip(signatures, shown, strict=True)]


def head_lines(detail: GoalDetail, at: float) -> list[Line]:
    """Return what the goal is, its status and progress, and what it does now."""
    progress, attempt = detail["progress"], detail["attempt"]
    bar = ("#" * int(progress * BAR_CHARS)).ljust(BAR_CHARS, ".")
    known = {"epoch": detail["epoch"], "pid": detail["pid"]}
    counts = [f"{name} {number}" for name, number in known.items() if number]
    limit = f" of {detail['attempt_limit']}" if (detail["attempt_limit"] or 0) >= attempt else ""
    counts += [f"attempt {attempt}{limit}"] if attempt > 1 else []
    counts += [words.counted(detail["actions_total"], "action")] if detail["actions_total"] else []
    counts += goal_list.counts(detail)
    lines: list[Line] = [
        [(clean(detail["id"]), "bold"), (f"  {clean(detail['description'])}", "")],
        [
            (f"[{bar}] {percent(progress):>4}  ", "cyan"),
            (clean(standing(detail)), status_style(detail)),
            (f"  {', '.join(counts)}" if counts else "", "dim"),
        ],
    ]
    if now := detail["now"]:
        lines.append([("now: ", "bold"), (goal_list.activity(now, at), "cyan")])
    if standing(detail) == goal_view.STOPPED:
        lines += paragraph("next: ", goal_list.now_text(detail, at))
    return lines


def _fact_lines(detail: GoalDetail, report: str) -> Iterator[Line]:
    changed = changed_text(detail["snapshots"])
    for name, text in {**facts(detail), "changed": changed, "report": report}.items():
        if text:
            yield [(f"{name}: ", "bold"), (clean(text), "")]


def _attempt_lines(detail: GoalDetail) -> Iterator[Line]:
    if detail["attempt"] > 1 and (begun := detail["attempts"]):
        for word, text in fresh_start(begun[-1]):
            yield from paragraph(word, text, "bold yellow")


def changed_text(known: Part) -> str:
    """Return what differs from the first snapshot, as in `3 files, +10 -2`; "" for nothing."""
    if not (files := known.get("files_changed")):
        return ""
    return words.changes(files, known["lines_added"], known["lines_removed"])


def _tree_lines(detail: GoalDetail) -> Iterator[Line]:
    """Yield tasks and subtasks with their marks, below each what came of it, and what the less common marks mean."""
    marks = set[str]()
    for task in tree(detail):
        yield [_mark(task), (f" {clean(task.text)}", "bold"), (f"  {task.done}", "cyan")]
        marks |= {task.mark, *(one.mark for one in task.steps)}
        for one in task.steps:
            number, name = (f" {one.number} ", "dim"), (clean(one.text), "")
            yield [(INDENT, ""), _mark(one), number, name, (f"  {one.done}", "dim")]
            for word, text in one.notes:
                style = NOTE_STYLE.get(word.partition(" ")[0], "")
                yield from paragraph(f"{INDENT * 2}{word}", text, style)
    if told := [f"{mark} {what}" for mark, what in LEGEND.items() if mark in marks]:
        yield [(f"marks: {', '.join(told)}", "dim")]


def _mark(step: Step) -> Span:
    return step.mark, STATUS_STYLE.get(step.status, "")


def shown_action(action: Mapping[str, Any]) -> str:
    """Return an action as people read it: the command itself, or the tool and what it is about."""
    return str(action.get("text") or words.action_text(action["name"], action.get("args") or {}))


def _check_lines(detail: GoalDetail) -> Iterator[Line]:
    for one in checks(detail):
        style = {None: "", True: "green", False: "red"}[one.passed]
        command = f" ({short(one.command)})" if one.command else ""
        named = ("check ", "bold"), (f"{clean(one.name)}{command}: ", "")
        proves_nothing = one.passed and one.name in detail["passed_before"]
        yield [*named, (one.how, "yellow" if proves_nothing else style)]
        output = clean(one.output, lines=True).strip()
        yield from ([(f"{INDENT}{line}", "red")] for line in output.splitlines())
    yield from ([(word, "yellow"), (clean(cmd), "")] for word, cmd in unchecked(detail))


def closing_lines(goal: GoalView, summary: str | None = None) -> list[Line]:
    """Return how the goal ended, what it waits for or why it is blocked, and what a person can do."""
    (head, why), said = goal_view.because(goal), goal["reason"] or PAUSED
    lines = paragraph(f"{head}: ", why) if why else []
    if standing(goal) == PAUSED and said != PAUSED:  # why, as a person said
        lines += paragraph(INDENT, said)
    if goal["status"] == "waiting":
        lines.append([(f"{INDENT}continue now: clew continue {clean(goal['id'])}", "dim")])
    if summary and not is_told(summary, why):
        lines += paragraph("summary: ", summary)
    if goal["status"] == "failed":
        lines += [[(clean(one), "")] for one in goal_view.after_failure(goal["id"], goal["agent"])]
    if goal["question"] and goal["status"] == "blocked":
        lines += paragraph("question: ", goal["question"], "bold magenta")
    return [*lines, *answer_lines(goal)]


def question_lines(goal: GoalView) -> list[Line]:
    """Return what a goal that needs a person asks, and what one can do."""
    return closing_lines(goal) if goal["needs_person"] else []


def answer_lines(goal: GoalView) -> list[Line]:
    """Return how to answer a blocked goal's question, unless the question names a command itself."""
    question = goal["question"] if goal["status"] == "blocked" else ""
    if not question or "`clew " in question:
        return []
    return [[(clean(f"answer with: {goal['answer']}"), "dim")]]
