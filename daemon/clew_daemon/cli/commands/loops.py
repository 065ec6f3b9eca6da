"""`clew loops`: when an agent was told that it repeats itself, or refused an action, why, and what came of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from clew_daemon.cli import parameters
from clew_daemon.reading.output import INDENT, Line, print_json, print_lines
from clew_daemon.reading.queries import goal_id, ledger_if_any
from clew_daemon.reading.sanitize import clean, counted, short

if TYPE_CHECKING:
    from clew_daemon.reading.instance import Instance
    from clew_daemon.record.findings import Step

ACTION_CHARS, ANSWER_CHARS, REASON_CHARS = 60, 80, 200
_NO_OUTPUT = "(no output)"
_CAME = {
    "open": "not known yet",
    "heeded": "something new came",
    "ignored": "nothing new came: it was told or refused again",
    "attempt_ended": "the attempt was ended",
}
_ESCALATED = {"person": "it was left to you", "task": "another plan", "goal": "another plan"}


@click.command()
@parameters.optional_goal
@parameters.limit
@click.option("--before", type=parameters.SEQ, metavar="SEQ", help="Only loops before this event.")
@parameters.as_json
@click.pass_obj
def loops(
    instance: Instance, goal: str | None, limit: int | None, before: int | None, as_json: bool
) -> None:
    """Show the last loops, oldest first: what was repeated, what the agent was told, and what came of it."""
    limit = parameters.limited(limit, as_json=as_json)
    found, more, steps = _found(instance, goal, limit, before)
    if as_json:
        print_json({"loops": found, "more": more})
    elif not found:
        print_lines([[("no loops", "dim")]])
    else:
        command = f"clew loops {goal + ' ' if goal else ''}--before {found[0]['seq']}"
        lines = [line for entry in found for line in loop_lines(entry, steps)]
        legend = "#N: event N on record (`clew show GOAL N`); 1.2: task 1, subtask 2"
        print_lines([*parameters.earlier_lines(more, "loops", command), *lines, [(legend, "dim")]])


def _found(
    instance: Instance, goal: str | None, limit: int | None, before: int | None
) -> tuple[list[dict[str, Any]], bool, dict[int, Step]]:
    """Return the last loops of one goal or of all, whether there are earlier ones, and the steps that they name."""
    name = None if goal is None else goal_id(instance, goal)
    with ledger_if_any(instance) as reader:
        if reader is None:
            return [], False, {}
        from clew_daemon.record import findings

        found, more = findings.findings(reader, name, limit, before)
        shown = {(one["goal"], seq) for one in found for seq in one["steps"]}
        shown |= {(one["goal"], one["last_gain"]["seq"]) for one in found if one["last_gain"]}
        steps = {seq: findings.step(reader, goal, seq) for goal, seq in shown}
        return found, more, {seq: step for seq, step in steps.items() if step}


def loop_lines(entry: dict[str, Any], steps: dict[int, Step]) -> list[Line]:
    """Return a loop as a person reads it: when and where, what was repeated, what was said, and what came of it."""
    lines = [_head(entry), *_repeated(entry, steps)]
    if gain := entry["last_gain"]:
        did = steps.get(gain["seq"])
        news = clean(gain["text"]) or _NO_OUTPUT
        what = f" {short(did.text, ACTION_CHARS)} → {_result(did)}:" if did else ""
        lines.append(_indented(f"The last new thing: #{gain['seq']}{what} {short(news)}"))
    if said := _said(entry):
        who = "The agent was told" if entry["message"] else "Why"
        lines.append(_indented(f"{who}{said}", "dim"))
    if came := _came(entry):
        lines.append(_indented(f"What came of it: {came}"))
    return [*lines, [("", "")]]


def _said(entry: dict[str, Any]) -> str:
    """Return what the agent was told, without facts that stand above and advice that is always the same; or why."""
    from clew_shared.gate.table import WHAT_ELSE
    from clew_shared.gate.words import BRING_NEWS

    told = entry["message"] or str(entry["evidence"] or "")
    _, bring, rest = told.rpartition(BRING_NEWS)
    if bring and entry["message"]:
        return f" these facts, and: {bring}{clean(rest)}"
    said = clean((told.rpartition(f" {WHAT_ELSE}")[0] or told).strip())
    return f": {said}" if said else ""


def _head(entry: dict[str, Any]) -> Line:
    from clew_shared.record.moment import local
    from clew_shared.text.words import SAME_ANSWER, loop, ordinal, warned

    times = f" (the {ordinal(entry['attempt_count'])} time)" if entry["attempt_count"] > 1 else ""
    what = "told again" if entry["again"] else "told" if entry["intervention"] else "refused"
    why = warned(entry["intervention"]) if entry["intervention"] else loop(entry["kind"])
    if entry["escalated_to"]:
        what, why, times = "given up", "the subtask failed", ""
    elif entry["stays"]:
        why = SAME_ANSWER
    return [
        (clean(local(entry["timestamp"])), "dim"),
        (f"  {clean(entry['goal'])} {entry['task_idx'] + 1}.{entry['subtask_idx'] + 1}  ", ""),
        (clean(f"{what}: {why}"), "bold magenta"),
        (times, ""),
    ]


def _repeated(entry: dict[str, Any], steps: dict[int, Step]) -> list[Line]:
    """Return the steps that brought nothing new, or were repeated, equal ones in one line, and what was refused."""
    known = [steps[seq] for seq in entry["steps"] if seq in steps]
    same: dict[str, list[str]] = {}
    for one in known:
        answer = f" → {_result(one)}{_answered(one)}" if one.result else ""
        same.setdefault(f"{short(one.text, ACTION_CHARS)}{answer}", []).append(f"#{one.seq}")
    lines: list[Line] = [_indented(_label(entry, known))] if known or entry["stays"] else []
    lines += [_indented(f"  {', '.join(seqs)} {text}") for text, seqs in same.items()]
    if entry["action"]:
        lines.append(_indented(f"It asked for this again: {clean(entry['action'])}"))
    return lines


def _label(entry: dict[str, Any], known: list[Step]) -> str:
    """Return what the steps below it are: all that were counted, or the last of them."""
    shown, count, stays = len(known), entry["attempt_count"], entry["stays"]
    if stays and shown <= stays["times"]:  # more: an older version recorded others
        varied = ", apart from times and ids," if len({one.answer for one in known}) > 1 else ""
        count = stays["times"]
        text = f"The same answer{varied} came {count} times"
    elif entry["intervention"] == "repetition":
        text = f"It did the very same {count} times"
    elif entry["action"]:
        count = count - 1 if entry["kind"] == "repetition" else shown
        text = "What it had done before"
    else:
        more = "more " if entry["again"] else ""
        little = ", and those before little" if not more and (entry["debt"] or 0) > shown else ""
        return f"{shown} {more}step{'s' if shown > 1 else ''} brought nothing new{little}:"
    return f"{text}{f', here the last {shown}' if shown < count else ''}:"


def _result(one: Step) -> str:
    from clew_shared.text.words import RESULTS

    return RESULTS.get(one.result, one.result)


def _answered(one: Step) -> str:
    """Return the answer in a line, of a failure the line that says why."""
    from clew_shared.text.shorten import both_ends, one_line
    from clew_shared.text.words import key_line

    if one.result == "success":
        return f": {clean(both_ends(one_line(one.answer), ANSWER_CHARS)) or _NO_OUTPUT}"
    return f": {clean(key_line(one.answer, REASON_CHARS))}" if one.answer.strip() else ""


def _came(entry: dict[str, Any]) -> str:
    from clew_shared.text.words import ending

    came, after, end = entry["came_of_it"], entry["came_after"], entry["ended"]
    text = _CAME.get(came or "", "")
    if entry["escalated_to"]:
        text = _ESCALATED.get(entry["escalated_to"], text)
    elif came == "attempt_ended" and end:
        which = f"attempt {end['attempt']} was ended" if end["attempt"] else "the attempt failed"
        text = f"{which}: {short(ending(end['reason']), REASON_CHARS)}"
    return f"{text} {counted(after, 'step')} later" if came == "heeded" and after else text


def _indented(text: str, style: str = "") -> Line:
    return [(f"{INDENT}{text}", style)]
