"""The need-to-know text of a goal, `get_compact_context` (docs/context.md): a pure function of the state.

Goal, active subtask, blocked actions and warnings are never dropped, only shortened; notes are dropped first, then
finished work, then recent actions, then all other lines.
"""

import json
from enum import IntEnum
from typing import NamedTuple, Self

from clew_shared.record.model import Action, StepStatus
from clew_shared.record.scope import EVERYWHERE
from clew_shared.record.state import State
from clew_shared.text.plain import percent
from clew_shared.text.shorten import beginning, both_ends, one_line
from clew_shared.text.words import action_text

RECENT_ACTIONS, FEEDBACK_SHOWN, CHANGES_SHOWN = 3, 2, 3
OUTPUT_CHARS, ARGS_CHARS, NOTES_CHARS = 300, 120, 400
OVER_SHOWN, OVER_CHARS = 10, 160
BLOCKS_SHOWN, LABEL_CHARS = 20, 10  # a label and its first character: `BLOCKED: x`
ALWAYS_SHARE = 0.5  # up to this share of the room the lines that must stay displace no other
SPACING_SHARE = 0.1  # headings and empty lines are left out where they would take more of the room
BLOCK_ADVICE = "⚠ Action blocked due to loops. Try different approach."

_WARNINGS = {
    "theme": "your thoughts stay on one theme: act",
    "repeated_planning": "you are planning without acting: call a tool",
    "repetition": "these answers hold nothing new: ask for something else",
    "no_progress": "nothing new came of the last turns: do something else",
    "stuck": "you are stuck: take a different approach",
}


class Keep(IntEnum):
    """The priority of a line: the lowest is dropped first."""

    NOTES = 0
    OVER = 1
    RECENT = 2
    USEFUL = 3
    ALWAYS = 4


class Line(NamedTuple):
    """One line of the text, of a section; `heading` is shown once, above the first of its lines."""

    text: str
    keep: Keep = Keep.USEFUL
    heading: str = ""
    section: int = 0

    @property
    def width(self) -> int:
        return len(self.text) + 1

    def cut(self, max_chars: int) -> Self:
        return self._replace(text=beginning(self.text, max_chars))


def compact_context(
    state: State, max_chars: int = 2000, *, recent_actions: int = RECENT_ACTIONS
) -> str:
    """Return the state of the work in at most `max_chars` characters."""
    lines = _lines(state, recent_actions)
    spacing = len(_text(lines, spaced=True)) - len(_text(lines, spaced=False))
    spaced = spacing <= SPACING_SHARE * max_chars
    limit = max_chars + 1 - spacing * spaced  # each line is counted with its end, the last has none
    if _size(lines) > limit:
        old = [n for n, line in enumerate(lines) if line.keep is Keep.OVER][:-OVER_SHOWN]
        lines = [
            line.cut(NOTES_CHARS) if line.keep is Keep.NOTES else line
            for n, line in enumerate(lines)
            if n not in old
        ]
    always = [line.width for line in lines if line.keep is Keep.ALWAYS]
    excess = _size(lines) - limit - max(sum(always) - int(ALWAYS_SHARE * limit), 0)
    for line in sorted(lines, key=lambda one: one.keep):  # the lowest first, of those the oldest
        if excess > 0 and line.keep is not Keep.ALWAYS:
            lines.remove(line)
            excess -= line.width
    level = _level(always, limit - _size(lines) + sum(always))
    lines = [line.cut(level) if line.keep is Keep.ALWAYS else line for line in lines]
    return _text(lines, spaced=spaced)[: max(max_chars, 0)]


# ---- what fits


def _text(lines: list[Line], *, spaced: bool) -> str:
    texts: list[str] = []
    for before, line in zip([None, *lines], lines, strict=False):
        if spaced and before and line.section != before.section:
            texts.append("")
        if spaced and line.heading and not (before and line.heading == before.heading):
            texts.append(line.heading)
        texts.append(line.text)
    return "\n".join(texts)


def _level(widths: list[int], room: int) -> int:
    """Return to how many characters the longest lines are cut so that all fit: each keeps its label."""
    for left, width in zip(range(len(widths), 0, -1), sorted(widths), strict=True):
        if width * left > room:
            return max(room // left - 1, LABEL_CHARS)
        room -= width
    return max(widths, default=1)


def _size(lines: list[Line]) -> int:
    return sum(line.width for line in lines)


# ---- what there is to know


def _lines(state: State, recent_actions: int) -> list[Line]:
    task, subtask, following = state.task, state.subtask, state.next_pending()
    shown = subtask.actions[-recent_actions:] if subtask and recent_actions > 0 else []
    description, notes = one_line(state.goal.description), one_line(state.spec.notes)
    goal = [
        Line(f"GOAL: {description}", Keep.ALWAYS),
        Line(f"Status: {state.goal.status} ({percent(state.goal.progress())})"),
    ]
    goal += [Line(f"NOTES: {notes}", Keep.NOTES)] if notes and notes != description else []
    told = state.guidance.feedback
    goal += [Line(f"A PERSON SAYS: {one_line(s)}") for s in told[-FEEDBACK_SHOWN:]]
    now: list[Line] = []
    if subtask:
        now = [
            Line(f"ACTIVE SUBTASK: {one_line(subtask.description)}", Keep.ALWAYS),
            Line(f"Status: {subtask.status}"),
            Line(f"Attempt: {subtask.attempts + subtask.open}"),
        ]
        if subtask.last_failure:
            now.append(Line(f"Last failure: {one_line(subtask.last_failure)}", Keep.ALWAYS))
    about_task = (
        [f"CURRENT TASK: {one_line(task.description)}", f"Status: {task.status}"] if task else []
    )
    then = [state.goal.tasks[following[0]].subtasks[following[1]]] if following else []
    sections = (
        goal,
        [Line(text) for text in about_task],
        _over(state),
        now,
        _recent(state, shown),
        [Line(f"NEXT: {one_line(step.description)}") for step in then],
        _probes(state),
        _warnings(state),
    )
    return [line._replace(section=n) for n, lines in enumerate(sections) for line in lines]


def _over(state: State) -> list[Line]:
    """Return a line for each subtask that is over, so that its work is not repeated."""
    subtasks = [s for s in state.goal.subtasks if s is not state.subtask]
    here = tuple(f"{s.description} (" for s in subtasks if s.status == StepStatus.BLOCKED)
    lines = [f"GIVEN UP: {one_line(x)}" for x in state.plan.set_aside if not x.startswith(here)]
    for subtask in subtasks:
        match subtask.status:
            case StepStatus.COMPLETED | StepStatus.SKIPPED:
                mark = "DONE" if subtask.status == StepStatus.COMPLETED else "SKIPPED"
                changed = [action_text(a.name, a.args, 60) for a in subtask.actions if a.changed]
                result = subtask.summary or ", ".join([*dict.fromkeys(changed)][-CHANGES_SHOWN:])
            case StepStatus.FAILED | StepStatus.BLOCKED:
                mark, result = "GIVEN UP", subtask.last_failure or ""
            case _:
                continue
        tail = f": {one_line(result)}" if result else ""
        lines.append(f"{mark}: {one_line(subtask.description)}{tail}")
    return [Line(beginning(line, OVER_CHARS), Keep.OVER) for line in lines]


def _recent(state: State, actions: list[Action]) -> list[Line]:
    """Return the last actions with their outputs, oldest first."""
    worlds = state.loops.scope.tallies.values() if actions else ()
    heads = {tally.seq: tally.head for world in worlds for tally in world.values()}
    lines = []
    for action in actions:
        args = one_line(json.dumps(action.args, ensure_ascii=False, sort_keys=True))
        unknown = "; its effect is unknown" if action.result == "interrupted" else ""
        head = one_line(heads.get(action.seq, ""))
        output = both_ends(f": {head}" if head else "", OUTPUT_CHARS)
        did = f"{action.name}({beginning(args, ARGS_CHARS)})"
        text = f"  - {did} → {action.result or 'running'}{unknown}{output}"
        lines.append(Line(text, Keep.RECENT, heading="Recent actions:"))
    return lines


def _probes(state: State) -> list[Line]:
    """Return what probes have found: what still holds first, then what may have changed since."""
    current, before = [], []
    for name, seen in sorted(state.probes.items()):
        text = f"  {name}: {'✓' if seen.passed else '✗'}"
        if state.holds(seen):
            current.append(Line(text, heading="CURRENT STATE:"))
        else:
            after = f"after action {seen.after}" if seen.after else "at the start"
            before.append(Line(f"{text} ({after}; changed since)", heading="EARLIER STATE:"))
    return [*current, *before]


def _warnings(state: State) -> list[Line]:
    """Return the blocked actions, which a change of the world frees again, and what goes in circles."""
    blocks, any_holds = [], False
    for signature, worlds in state.loops.scope.blocks.items():
        holds = state.loops.world in worlds or EVERYWHERE in worlds
        any_holds |= holds
        mark = "BLOCKED" if holds else "BLOCKED before the last change, free now"
        blocks.append(f"{mark}: {one_line(signature)}")
    if (more := len(blocks) - BLOCKS_SHOWN) > 0:
        blocks = [f"BLOCKED: {more} more", *blocks[more:]]
    raised = [_WARNINGS.get(kind, kind) for kind in state.loops.attention.raised]
    if state.loops.scope.memory.warned:
        raised.append("nothing new came of the last steps: do something else")
    if state.plan.replan_required == "person":
        raised.append("this way is blocked; a person must say what to do")
    elif state.plan.replan_required:
        raised.append(f"this way is blocked; replan the {state.plan.replan_required}")
    return [
        *(Line(text, Keep.ALWAYS) for text in blocks),
        *([Line(BLOCK_ADVICE)] if any_holds else []),
        *(Line(f"WARNING: {text}", Keep.ALWAYS) for text in raised),
    ]
