"""The need-to-know text of a goal (contract, section 9): `get_compact_context`.

A pure function of the state. Goal, active subtask, blocked actions and warnings are never dropped,
at most shortened each; recent actions go first, then notes, then what else helps.
"""

import json
from dataclasses import dataclass
from enum import IntEnum

from clew_shared.model import Action
from clew_shared.state import State

RECENT_ACTIONS = 3
OUTPUT_HEAD_CHARS = 160
ARGS_CHARS = 120
REPEATED_FROM = 2

_WARNINGS = {
    "theme": "your thoughts go round in one theme: act",
    "repeated_planning": "you plan without acting: call a tool",
    "no_progress": "nothing new came of the last steps: do something else",
    "same_error": "the same error again and again: find its cause",
    "stuck": "you are stuck: take a different approach",
}


class _Keep(IntEnum):
    """How dear a line is: the lowest goes first."""

    RECENT = 0
    NOTES = 1
    USEFUL = 2
    ALWAYS = 3


@dataclass(frozen=True, slots=True)
class _Line:
    text: str
    keep: _Keep


def compact_context(
    state: State, max_chars: int = 2000, *, recent_actions: int = RECENT_ACTIONS
) -> str:
    """Say where the work stands, in at most `max_chars` characters."""
    lines = [
        *_goal(state),
        *_subtask(state),
        *_recent(state, recent_actions),
        *_ahead(state),
        *_warnings(state),
    ]
    while _length(lines) > max_chars:
        dearest = [line for line in lines if line.keep is _Keep.ALWAYS]
        if len(dearest) == len(lines):
            return _squeezed([line.text for line in lines], max_chars)
        lines.remove(min(lines, key=lambda line: line.keep))
    return "\n".join(line.text for line in lines)


def _goal(state: State) -> list[_Line]:
    lines = [
        _Line(f"GOAL: {_one_line(state.goal.description)}", _Keep.ALWAYS),
        _Line(f"Status: {state.goal.status} ({state.goal.progress():.0%})", _Keep.USEFUL),
    ]
    notes = _one_line(state.spec.notes)
    if notes and notes != _one_line(state.goal.description):
        lines.append(_Line(f"NOTES: {notes}", _Keep.NOTES))
    if state.task:
        lines.append(_Line(f"CURRENT TASK: {_one_line(state.task.description)}", _Keep.USEFUL))
    return lines


def _subtask(state: State) -> list[_Line]:
    subtask = state.subtask
    if subtask is None:
        return []
    attempt = f" (attempt {subtask.attempts + 1})" if subtask.attempts else ""
    text = f"ACTIVE SUBTASK: {_one_line(subtask.description)} [{subtask.status}]{attempt}"
    lines = [_Line(text, _Keep.ALWAYS)]
    if subtask.last_failure:
        failure = f"Last failure: {_one_line(subtask.last_failure)}"
        lines.append(_Line(failure, _Keep.ALWAYS))
    return lines


def _recent(state: State, count: int) -> list[_Line]:
    """Write the last actions, oldest first; the oldest is also the first to be dropped."""
    actions = state.subtask.actions[-count:] if state.subtask and count > 0 else []
    if not actions:
        return []
    heads = _heads(state)
    return [_Line("RECENT: " + _action(a, heads.get(a.seq, "")), _Keep.RECENT) for a in actions]


def _heads(state: State) -> dict[int, str]:
    worlds = state.scope.tallies.values()
    return {tally.seq: tally.head for world in worlds for tally in world.values()}


def _action(action: Action, head: str) -> str:
    args = json.dumps(action.args, ensure_ascii=False, sort_keys=True)
    said = f": {_cut(_one_line(head), OUTPUT_HEAD_CHARS)}" if head else ""
    return f"{action.name}({_cut(args, ARGS_CHARS)}) → {action.result or 'running'}{said}"


def _ahead(state: State) -> list[_Line]:
    lines = []
    following = state.next_pending()
    if following:
        task, subtask = following
        description = state.goal.tasks[task].subtasks[subtask].description
        lines.append(_Line(f"NEXT: {_one_line(description)}", _Keep.USEFUL))
    if state.last_probe_state:
        probes = sorted(state.last_probe_state.items())
        marks = " ".join(f"{name}: {'✓' if ok else '✗'}" for name, ok in probes)
        lines.append(_Line(f"CURRENT STATE: {marks}", _Keep.USEFUL))
    return lines


def _warnings(state: State) -> list[_Line]:
    lines = [_Line(f"BLOCKED: {_one_line(name)}", _Keep.ALWAYS) for name in state.blocked_actions]
    for signature, count in state.loop_counts.items():
        if count >= REPEATED_FROM and signature not in state.scope.blocks:
            text = f"WARNING: tried {count} times: {_one_line(signature)}"
            lines.append(_Line(text, _Keep.ALWAYS))
    raised = (_WARNINGS.get(kind, kind) for kind in state.attention.raised)
    lines += [_Line(f"WARNING: {warning}", _Keep.ALWAYS) for warning in raised]
    if state.replan_required:
        text = f"WARNING: this way is blocked; replan the {state.replan_required}"
        lines.append(_Line(text, _Keep.ALWAYS))
    return lines


def _squeezed(lines: list[str], max_chars: int) -> str:
    """Shorten the longest lines until all fit: each keeps its beginning, none is dropped."""
    room = max_chars - (len(lines) - 1)
    low, high = 1, max(map(len, lines))
    while low < high:
        middle = (low + high + 1) // 2
        if sum(min(len(line), middle) for line in lines) <= room:
            low = middle
        else:
            high = middle - 1
    return "\n".join(_cut(line, low) for line in lines)[: max(max_chars, 0)]


def _length(lines: list[_Line]) -> int:
    return sum(len(line.text) + 1 for line in lines) - 1


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _cut(text: str, max_chars: int) -> str:
    return text if len(text) <= max_chars else text[: max(max_chars - 1, 0)] + "…"
