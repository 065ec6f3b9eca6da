"""`clew loops`: when an agent was told that it repeats itself, or refused an action, why, and what came of it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from clew_daemon.cli import parameters
from clew_daemon.reading.instance import Instance
from clew_daemon.reading.output import INDENT, Line, show
from clew_daemon.reading.queries import ledger_if_any
from clew_daemon.reading.sanitize import clean, counted, short
from clew_daemon.record import findings
from clew_daemon.record.findings import Step
from clew_shared.gate.table import WHAT_ELSE
from clew_shared.gate.words import BRING_NEWS
from clew_shared.record.moment import local
from clew_shared.text import words
from clew_shared.text.shorten import both_ends, one_line

ACTION_CHARS, ANSWER_CHARS, REASON_CHARS = 60, 80, 200
LEGEND = "#N: event N on record (`clew show GOAL N`); 1.2: task 1, subtask 2"
_NO_OUTPUT = "(no output)"
_CAME = {
    "open": "not known yet",
    "heeded": "something new came",
    "ignored": "nothing new came: it was told or refused again",
    "attempt_ended": "the attempt was ended",
}
_ESCALATED = {"person": "it was left to you", "task": "another plan", "goal": "another plan"}

Loop = Mapping[str, Any]
"""An entry of `clew loops --json` (`record.findings`)."""


@click.command()
@parameters.optional_goal
@parameters.limit()
@parameters.before("loops before this event")
@parameters.as_json
@click.pass_obj
def loops(instance: Instance, goal: str | None, limit: int, before: int, as_json: bool) -> None:
    """Show the last loops, oldest first: what was repeated, what the agent was told, and what came of it."""
    found: Sequence[Loop] = ()
    more, steps = False, dict[int, Step]()
    with ledger_if_any(instance) as reader:
        if reader is not None:
            found, more = findings.findings(reader, goal, limit, before)
            shown = {(one["goal"], seq) for one in found for seq in one["steps"]}
            shown |= {(one["goal"], one["last_gain"]["seq"]) for one in found if one["last_gain"]}
            known = {seq: findings.step(reader, of, seq) for of, seq in shown}
            steps = {seq: step for seq, step in known.items() if step}
    first = found[0]["seq"] if found else 0
    command = f"clew loops {goal + ' ' if goal else ''}--before {first}"
    lines = [line for entry in found for line in loop_lines(entry, steps)]
    ends: list[Line] = [[(LEGEND if found else "no loops", "dim")]]
    text = [*parameters.earlier_lines(more, "loops", command), *lines, *ends]
    show({"loops": found, "more": more}, text, as_json=as_json)


def loop_lines(entry: Loop, steps: Mapping[int, Step]) -> Iterator[Line]:
    """Yield a loop as a person reads it: when and where, what was repeated, what was said, and what came of it."""
    yield _head(entry)
    yield from _repeated(entry, steps)
    if gain := entry["last_gain"]:
        did = steps.get(gain["seq"])
        what = f" {short(did.text, ACTION_CHARS)} → {_result(did)}:" if did else ""
        news = short(clean(gain["text"]) or _NO_OUTPUT)
        yield _indented(f"The last new thing: #{gain['seq']}{what} {news}")
    if said := _said(entry):
        who = "The agent was told" if entry["message"] else "Why"
        yield _indented(f"{who}{said}", "dim")
    if came := _came(entry):
        yield _indented(f"What came of it: {came}")
    yield [("", "")]


def _said(entry: Loop) -> str:
    """Return what the agent was told, without facts that stand above and advice that is always the same; or why."""
    told = entry["message"] or str(entry["evidence"] or "")
    _, bring, rest = told.rpartition(BRING_NEWS)
    if bring and entry["message"]:
        return f" these facts, and: {bring}{clean(rest)}"
    said = clean((told.rpartition(f" {WHAT_ELSE}")[0] or told).strip())
    return f": {said}" if said else ""


def _head(entry: Loop) -> Line:
    count, warning = entry["attempt_count"], entry["intervention"]
    times = f" (the {words.ordinal(count)} time)" if count > 1 else ""
    what = "told again" if entry["again"] else "told" if warning else "refused"
    why = words.warned(warning) if warning else words.loop(entry["kind"])
    if entry["escalated_to"]:
        what, why, times = "given up", "the subtask failed", ""
    elif entry["stays"]:
        why = words.SAME_ANSWER
    return [
        (clean(local(entry["timestamp"])), "dim"),
        (f"  {clean(entry['goal'])} {entry['task_idx'] + 1}.{entry['subtask_idx'] + 1}  ", ""),
        (clean(f"{what}: {why}"), "bold magenta"),
        (times, ""),
    ]


def _repeated(entry: Loop, steps: Mapping[int, Step]) -> Iterator[Line]:
    """Yield the steps that brought nothing new, or were repeated, equal ones in one line, and what was refused."""
    known = [steps[seq] for seq in entry["steps"] if seq in steps]
    same: dict[str, list[str]] = {}
    for one in known:
        answer = f" → {_result(one)}{_answered(one)}" if one.result else ""
        same.setdefault(f"{short(one.text, ACTION_CHARS)}{answer}", []).append(f"#{one.seq}")
    if known or entry["stays"]:
        yield _indented(_label(entry, known))
    for text, seqs in same.items():
        yield _indented(f"  {', '.join(seqs)} {text}")
    if entry["action"]:
        yield _indented(f"It asked for this again: {clean(entry['action'])}")


def _label(entry: Loop, known: Sequence[Step]) -> str:
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
        return f"{counted(shown, f'{more}step')} brought nothing new{little}:"
    return f"{text}{f', here the last {shown}' if shown < count else ''}:"


def _result(one: Step) -> str:
    return words.RESULTS.get(one.result, one.result)


def _answered(one: Step) -> str:
    """Return the answer in a line, of a failure the line that says why."""
    if one.result == "success":
        return f": {clean(both_ends(one_line(one.answer), ANSWER_CHARS)) or _NO_OUTPUT}"
    return f": {clean(words.key_line(one.answer, REASON_CHARS))}" if one.answer.strip() else ""


def _came(entry: Loop) -> str:
    came, after, end = entry["came_of_it"], entry["came_after"], entry["ended"]
    text = _CAME.get(came or "", "")
    if entry["escalated_to"]:
        text = _ESCALATED.get(entry["escalated_to"], text)
    elif came == "attempt_ended" and end:
        which = f"attempt {end['attempt']} was ended" if end["attempt"] else "the attempt failed"
        text = f"{which}: {short(words.ending(end['reason']), REASON_CHARS)}"
    return f"{text} {counted(after, 'step')} later" if came == "heeded" and after else text


def _indented(text: str, style: str = "") -> Line:
    return [(f"{INDENT}{text}", style)]
