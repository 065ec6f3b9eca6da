"""What changed in a prompt since the turn before: whole messages, and the lines of the one that changed. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

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
