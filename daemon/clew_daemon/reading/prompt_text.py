"""What changed in a prompt since the turn before, and the prompt of a turn as lines that mark it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

from clew_daemon.reading.output import Line, columns
from clew_daemon.reading.sanitize import clean, counted, thousands

LINES_COMPARED_MAX = 2_000
"""A longer message counts as changed whole: comparing it would take too long."""

Change = Literal["same", "added", "removed"]


@dataclass(frozen=True, slots=True)
class PromptMessage:
    """One message of a prompt as its model gets it: `text` with its tool calls spelled out below."""

    role: str
    text: str


@dataclass(frozen=True, slots=True)
class ComparedLine:
    """A line, and whether it is in both prompts, or only in the later (added) or the earlier one (removed)."""

    change: Change
    text: str


@dataclass(frozen=True, slots=True)
class ComparedMessage:
    """A message with its lines compared; `change` is `same` where all of them are."""

    role: str
    change: Literal["same", "added", "removed", "changed"]
    lines: tuple[ComparedLine, ...]


@dataclass(frozen=True, slots=True)
class InspectedPrompt:
    """The prompt of a turn (counted from 1, the last one is the next call), its sizes and its messages."""

    turn: int
    turns: int
    note: str
    messages: tuple[ComparedMessage, ...]
    sizes: tuple[tuple[str, int, int], ...]
    left_out: tuple[str, ...]

    @property
    def tokens(self) -> int:
        """The estimated size of the whole prompt."""
        return sum(tokens for _, tokens, _ in self.sizes)


def prompt_difference(
    before: Sequence[PromptMessage], after: Sequence[PromptMessage]
) -> list[ComparedMessage]:
    """Return the messages of the later prompt, and those that it has no more, each compared with the earlier one."""
    matcher = SequenceMatcher(None, list(before), list(after), autojunk=False)
    found: list[ComparedMessage] = []
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        if tag == "equal":
            found += [_whole(one, "same") for one in after[j1:j2]]
        else:
            found += _replaced(before[i1:i2], after[j1:j2])
    return found


def _replaced(
    before: Sequence[PromptMessage], after: Sequence[PromptMessage]
) -> list[ComparedMessage]:
    """Compare messages one by one while their roles agree; the rest was removed or added whole."""
    pairs = 0
    while pairs < min(len(before), len(after)) and before[pairs].role == after[pairs].role:
        pairs += 1
    changed = [_changed(b, a) for b, a in zip(before[:pairs], after[:pairs], strict=True)]
    removed = [_whole(one, "removed") for one in before[pairs:]]
    return [*changed, *removed, *(_whole(one, "added") for one in after[pairs:])]


def _whole(one: PromptMessage, change: Change) -> ComparedMessage:
    lines = tuple(ComparedLine(change, line) for line in one.text.splitlines())
    return ComparedMessage(one.role, change, lines)


def _changed(before: PromptMessage, after: PromptMessage) -> ComparedMessage:
    old, new = before.text.splitlines(), after.text.splitlines()
    if max(len(old), len(new)) > LINES_COMPARED_MAX:
        return ComparedMessage(after.role, "changed", _whole(after, "added").lines)
    lines: list[ComparedLine] = []
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            lines += [ComparedLine("same", line) for line in new[j1:j2]]
        else:
            lines += [ComparedLine("removed", line) for line in old[i1:i2]]
            lines += [ComparedLine("added", line) for line in new[j1:j2]]
    return ComparedMessage(after.role, "changed", tuple(lines))


AROUND = 2
"""Lines that are shown before and after a change, unless all are."""
_SIGNS = {"same": ("  ", ""), "added": ("+ ", "green"), "removed": ("- ", "red")}


def turn_lines(prompt: InspectedPrompt, *, whole: bool) -> list[Line]:
    """Return the prompt of a turn, its size and what it leaves out; only what changed unless it is to be `whole`.

    Of the first turn, which has none before it, all is shown.
    """
    is_first = prompt.turn == 1
    lines = [_head_line(prompt)]
    lines += [[(f"-- {clean(prompt.note)}", "yellow")]] if prompt.note else []
    for message in prompt.messages:
        lines.append(_message_head(message, is_first=is_first))
        lines += _body(message, whole=whole or is_first, marked=not is_first)
    return [*lines, *size_lines(prompt.sizes), *left_out_lines(prompt.left_out)]


def size_lines(sizes: Sequence[tuple[str, int, int]]) -> list[Line]:
    """Return the size of each part of a prompt: its name, estimated tokens, characters."""
    rows = [
        [(f"   {name}", ""), (f"{tokens} tokens", ""), (f"{chars} characters", "dim")]
        for name, tokens, chars in sizes
    ]
    return [[("-- size (tokens are estimated)", "bold")], *columns(rows)]


def left_out_lines(left_out: Sequence[str]) -> list[Line]:
    """Return what a prompt leaves out, [] for nothing."""
    head: list[Line] = [[("-- left out", "bold")]] if left_out else []
    return [*head, *([(f"   {clean(line)}", "")] for line in left_out)]


def _head_line(prompt: InspectedPrompt) -> Line:
    is_next = " (the next call)" if prompt.turn == prompt.turns else ""
    size = f", about {thousands(prompt.tokens)} tokens"
    return [(f"Turn {prompt.turn} of {prompt.turns}{is_next}", "bold"), (size, "dim")]


def _message_head(message: ComparedMessage, *, is_first: bool) -> Line:
    size = counted(len(message.lines), "line")
    change = size if is_first else f"{message.change}, {size}"
    return [(f"== {clean(message.role)}", "bold"), (f" ({change})", "dim")]


def _body(message: ComparedMessage, *, whole: bool, marked: bool) -> Iterator[Line]:
    hidden = 0
    for at, line in enumerate(message.lines):
        if not whole and not _is_near_change(message.lines, at):
            hidden += 1
            continue
        yield from _hidden_line(hidden)
        hidden = 0
        sign, style = _SIGNS[line.change] if marked else ("", "")
        text = clean(line.text)
        yield [(f"{sign}{text}" if text else sign.rstrip(), style)]
    if message.change != "same":
        yield from _hidden_line(hidden)


def _is_near_change(lines: Sequence[ComparedLine], at: int) -> bool:
    return any(one.change != "same" for one in lines[max(0, at - AROUND) : at + AROUND + 1])


def _hidden_line(count: int) -> list[Line]:
    return [[(f"  … {counted(count, 'line')} as before", "dim")]] if count else []
