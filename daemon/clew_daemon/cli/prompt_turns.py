"""The prompt of a turn, compared with that of the turn before: for `clew context --turn`, `clew top` and `clew web`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from clew_daemon.cli.display.prompt_difference import (
    ComparedMessage,
    PromptMessage,
    prompt_difference,
)
from clew_daemon.cli.prompt_preview import preview
from clew_daemon.cli.queries import open_ledger
from clew_shared.record import events as ev
from clew_shared.record.codec import decode

if TYPE_CHECKING:
    from clew_daemon.cli.instance import Instance


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


def inspected(instance: Instance, goal: str, turn: int | None) -> InspectedPrompt:
    """Return the prompt of a turn, None for the next one; raises CliError where it cannot be built.

    A turn ends with its iteration record, so its prompt is the one after the record of the turn before.
    """
    ends = _turn_ends(instance, goal)
    number = min(max(1, turn or len(ends) + 1), len(ends) + 1)
    after = _prompt(instance, goal, ends, number)
    before = _messages(_prompt(instance, goal, ends, number - 1)) if number > 1 else []
    return InspectedPrompt(
        number,
        len(ends) + 1,
        after["note"] if number > len(ends) else "",
        tuple(prompt_difference(before, _messages(after))),
        tuple((name, size["tokens"], size["chars"]) for name, size in after["sizes"].items()),
        tuple(after["left_out"]),
    )


def _turn_ends(instance: Instance, goal: str) -> list[int]:
    """Return the number of the event with which each turn ended; of two records of one turn the last."""
    ends: dict[int, int] = {}
    with open_ledger(instance) as reader:
        for row in reader.read(goal):
            if row.kind == "reflected" and isinstance(event := decode(row.body), ev.Reflected):
                ends[event.iteration or len(ends) + 1] = row.seq
    return sorted(ends.values())


def _prompt(instance: Instance, goal: str, ends: list[int], turn: int) -> dict[str, Any]:
    """Return the prompt of a turn; the one before the first record is that of the goal's first worker."""
    if turn > len(ends):
        return preview(instance, goal)
    return preview(instance, goal, until=ends[turn - 2] if turn > 1 else _first(instance, goal))


def _first(instance: Instance, goal: str) -> int:
    """Return the event after which the first call was made: the last one before any action or record."""
    seq = 0
    with open_ledger(instance) as reader:
        for row in reader.read(goal):
            if row.kind in ("reflected", "action_allowed", "action_blocked", "thought", "planned"):
                break
            seq = row.seq
    return seq


def _messages(prompt: dict[str, Any]) -> list[PromptMessage]:
    return [PromptMessage(str(one["role"]), message_text(one)) for one in prompt["messages"]]


def message_text(message: dict[str, Any]) -> str:
    """Return what a message says, with its tool calls spelled out below."""
    calls = (call["function"] for call in message.get("tool_calls") or ())
    called = "".join(f"\n-> {call['name']} {call['arguments']}" for call in calls)
    return (message.get("content") or "") + called
