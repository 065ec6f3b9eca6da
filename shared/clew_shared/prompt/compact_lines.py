"""The lines of the need-to-know text, each with its priority. Pure functions of the state; `compact` makes them fit."""

from __future__ import annotations

import json
from enum import IntEnum
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from clew_shared.record.model import StepStatus
from clew_shared.record.state import EVERYWHERE
from clew_shared.text.percent import percent
from clew_shared.text.shorten import beginning, both_ends, one_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from clew_shared.record.model import Action, Subtask
    from clew_shared.record.state import State, Tally

RECENT_ACTIONS = 3
OUTPUT_CHARS = 300
ARGS_CHARS = 120
OVER_CHARS = 160
TRIED_SHOWN = 5
TRIED_CHARS = 200
BLOCKS_SHOWN = 20
REPEATS_SHOWN = 5
REPEATED_FROM = 2
CHANGES_SHOWN = 3
FEEDBACK_SHOWN = 2

BLOCK_ADVICE = "⚠ Action blocked due to loops. Try different approach."

_WARNINGS = {
    "theme": "your thoughts stay on one theme: act",
    "repeated_planning": "you are planning without acting: call a tool",
    "repetition": "these answers hold nothing new: ask for something else",
    "no_progress": "nothing new came of the last turns: do something else",
    "stuck": "you are stuck: take a different approach",
}
_FAILED = ("failure", "error", "timeout")


class Keep(IntEnum):
    """The priority of a line: the lowest is dropped first."""

    RECENT = 0
    NOTES = 1
    OVER = 2
    TRIED = 3
    USEFUL = 4
    ALWAYS = 5


class Line(NamedTuple):
    """One line of the text; lines of one kind are ordered by age, oldest first.

    An empty line stands between two sections; `heading` is shown once, above the first of its lines.
    """

    text: str
    keep: Keep
    section: int = 0
    heading: str = ""


def lines_of(state: State, recent_actions: int = RECENT_ACTIONS) -> list[Line]:
    """Return all that a worker needs to know now."""
    shown = state.subtask.actions[-recent_actions:] if state.subtask and recent_actions > 0 else []
    sections = (
        _goal(state),
        _task(state),
        _over(state),
        [*_subtask(state), *_tried(state, {a.seq for a in shown})],
        _recent(state, shown),
        _next(state),
        _probes(state),
        _warnings(state),
    )
    return [line._replace(section=n) for n, lines in enumerate(sections) for line in lines]


def _goal(state: State) -> list[Line]:
    lines = [
        Line(f"GOAL: {one_line(state.goal.description)}", Keep.ALWAYS),
        Line(f"Status: {state.goal.status} ({percent(state.goal.progress())})", Keep.USEFUL),
    ]
    notes = one_line(state.spec.notes)
    if notes and notes != one_line(state.goal.description):
        lines.append(Line(f"NOTES: {notes}", Keep.NOTES))
    feedback = state.feedback[-FEEDBACK_SHOWN:]
    lines += [Line(f"A PERSON SAYS: {one_line(text)}", Keep.USEFUL) for text in feedback]
    return lines


def _task(state: State) -> list[Line]:
    if state.task is None:
        return []
    texts = (
        f"CURRENT TASK: {one_line(state.task.description)}",
        f"Status: {state.task.status}",
    )
    return [Line(text, Keep.USEFUL) for text in texts]


def _over(state: State) -> list[Line]:
    """Return a line for each subtask that is over, so that its work is not repeated."""
    subtasks = [s for t in state.goal.tasks for s in t.subtasks if s is not state.subtask]
    here = tuple(f"{s.description} (" for s in subtasks if s.status == StepStatus.BLOCKED)
    replaced = [text for text in state.set_aside if not text.startswith(here)]
    lines = [f"GIVEN UP: {one_line(text)}" for text in replaced]
    for subtask in subtasks:
        if subtask.status in ("completed", "skipped"):
            mark = "DONE" if subtask.status == "completed" else "SKIPPED"
            result = one_line(subtask.summary) or _changes(subtask)
        elif subtask.status in ("failed", "blocked"):
            mark, result = "GIVEN UP", one_line(subtask.last_failure)
        else:
            continue
        tail = f": {result}" if result else ""
        lines.append(f"{mark}: {one_line(subtask.description)}{tail}")
    return [Line(beginning(line, OVER_CHARS), Keep.OVER) for line in lines]


def _changes(subtask: Subtask) -> str:
    """Return the last actions that changed something, in the place of a missing summary."""
    changes = [f"{a.name} {_target(a)}".rstrip() for a in subtask.actions if a.changed]
    return ", ".join([*dict.fromkeys(changes)][-CHANGES_SHOWN:])


def _target(action: Action) -> str:
    value = action.args.get("path") or next(iter(action.args.values()), "")
    return beginning(one_line(value if isinstance(value, str) else json.dumps(value)), 40)


def _subtask(state: State) -> list[Line]:
    subtask = state.subtask
    if subtask is None:
        return []
    is_open = StepStatus(subtask.status).open
    lines = [
        Line(f"ACTIVE SUBTASK: {one_line(subtask.description)}", Keep.ALWAYS),
        Line(f"Status: {subtask.status}", Keep.USEFUL),
        Line(f"Attempt: {subtask.attempts + is_open}", Keep.USEFUL),
    ]
    if subtask.last_failure:
        failure = f"Last failure: {one_line(subtask.last_failure)}"
        lines.append(Line(failure, Keep.ALWAYS))
    return lines


def _tried(state: State, shown: set[int]) -> list[Line]:
    """Return the actions whose last attempt in this subtask failed, except those shown as recent."""
    last = sorted(_last_tallies(state), key=lambda named: named[1].seq)
    failed = [(n, t) for n, t in last if t.result in _FAILED and t.seq not in shown]
    return [
        Line(both_ends(f"FAILED BEFORE: {one_line(n)}{_output(t.head)}", TRIED_CHARS), Keep.TRIED)
        for n, t in failed[-TRIED_SHOWN:]
    ]


def _last_tallies(state: State) -> Iterator[tuple[str, Tally]]:
    for signature, worlds in state.scope.tallies.items():
        yield signature, max(worlds.values(), key=lambda tally: tally.seq)


def _recent(state: State, actions: list[Action]) -> list[Line]:
    """Return the last actions with their outputs, oldest first; equal ones in a row are one line."""
    worlds = state.scope.tallies.values() if actions else ()
    heads = {tally.seq: tally.head for world in worlds for tally in world.values()}
    rows = groupby(actions, key=lambda a: (a.signature(), a.result))
    texts = [_actions([*row], heads) for _, row in rows]
    return [Line(f"  - {text}", Keep.RECENT, heading="Recent actions:") for text in texts]


def _actions(same: list[Action], heads: dict[int, str]) -> str:
    action = same[-1]
    args = beginning(
        one_line(json.dumps(action.args, ensure_ascii=False, sort_keys=True)), ARGS_CHARS
    )
    times = f" {len(same)} times" if len(same) > 1 else ""
    result = action.result or "running"
    if result == "interrupted":
        result = "interrupted; its effect is unknown"
    output = both_ends(_output(heads.get(action.seq, "")), OUTPUT_CHARS)
    return f"{action.name}({args}){times} → {result}{output}"


def _output(head: str) -> str:
    return f": {one_line(head)}" if head else ""


def _next(state: State) -> list[Line]:
    following = state.next_pending()
    if following is None:
        return []
    task, subtask = following
    description = state.goal.tasks[task].subtasks[subtask].description
    return [Line(f"NEXT: {one_line(description)}", Keep.USEFUL)]


def _probes(state: State) -> list[Line]:
    """Return what probes have found: what still holds first, then what may have changed since."""
    current, before = [], []
    for name in sorted(state.last_probe_state):
        seen = state.probe_seen(name)
        text = f"  {name}: {'✓' if seen.passed else '✗'}"
        if state.still_holds(seen):
            current.append(Line(text, Keep.USEFUL, heading="CURRENT STATE:"))
        else:
            after = f"after action {seen.after}" if seen.after else "at the start"
            text += f" ({after}; changed since)"
            before.append(Line(text, Keep.USEFUL, heading="EARLIER STATE:"))
    return [*current, *before]


def _warnings(state: State) -> list[Line]:
    raised = [_WARNINGS.get(kind, kind) for kind in state.attention.raised]
    raised += ["nothing new came of the last steps: do something else"] * state.scope.memory.warned
    if state.replan_required == "person":
        raised.append("this way is blocked; a person must say what to do")
    elif state.replan_required:
        raised.append(f"this way is blocked; replan the {state.replan_required}")
    blocks = [Line(text, Keep.ALWAYS) for text in _blocks(state)]
    if any(_holds(state, worlds) for worlds in state.scope.blocks.values()):
        blocks.append(Line(BLOCK_ADVICE, Keep.USEFUL))
    warnings = [f"WARNING: {text}" for text in (*_repeats(state), *raised)]
    return [*blocks, *(Line(text, Keep.ALWAYS) for text in warnings)]


def _blocks(state: State) -> list[str]:
    """Return the blocked actions; a change of the world frees an action, which its line then says."""
    names = [
        f"BLOCKED: {one_line(signature)}"
        if _holds(state, worlds)
        else f"BLOCKED before the last change, free now: {one_line(signature)}"
        for signature, worlds in state.scope.blocks.items()
    ]
    more = len(names) - BLOCKS_SHOWN
    return [f"BLOCKED: {more} more", *names[more:]] if more > 0 else names


def _holds(state: State, worlds: Mapping[str, str]) -> bool:
    return state.world in worlds or EVERYWHERE in worlds


def _repeats(state: State) -> list[str]:
    """Return what was repeated in the same world and so brought nothing new; testing after edits is work."""
    found = []
    for signature, count in state.scope.loop_counts.items():
        if count < REPEATED_FROM or signature in state.scope.blocks:
            continue
        here = state.scope.tallies.get(signature, {}).get(state.world) if state.world else None
        times = max(here.counts.values(), default=0) if here else 0 if state.world else count
        if times >= REPEATED_FROM:
            found.append(f"tried {times} times: {one_line(signature)}")
    return found[-REPEATS_SHOWN:]
