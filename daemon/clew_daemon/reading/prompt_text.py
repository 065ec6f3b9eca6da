"""The prompt of a turn as lines: what changed since the turn before is marked by signs, and by colours."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clew_daemon.reading.output import Line, columns
from clew_daemon.reading.sanitize import clean, counted, thousands

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from clew_daemon.reading.prompt_difference import ComparedLine, ComparedMessage
    from clew_daemon.reading.prompt_preview import InspectedPrompt

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
