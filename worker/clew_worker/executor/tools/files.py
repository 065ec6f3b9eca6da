"""The input and the result of a tool; reading, writing and editing whole files."""

import difflib
import itertools
import os
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO

from clew_shared.text.shorten import in_one_line
from clew_shared.tools import NO_EDIT, NO_LONGER
from clew_shared.wire.executor import ToolResult
from clew_worker.executor.commands import Commands, Wire, clean, cut
from clew_worker.executor.workspace import MissingError, PathError, TooLargeError, Workspace


@dataclass(frozen=True)
class ToolContext:
    """What one action works with, and its bounds."""

    workspace: Workspace
    commands: Commands
    wire: Wire
    timeout_s: float
    output_bytes: int
    limit: str = ""
    """The setting that says `timeout_s`."""
    said: Callable[[str], None] = lambda _tail: None
    """Is told what its command has printed last."""


@dataclass(frozen=True)
class ToolOutcome:
    """The outcome of a tool; `exit_code` where it ran a command, `changed` where the tool itself knows."""

    result: ToolResult
    output: str
    exit_code: int | None = None
    changed: bool | None = None


class TimeUpError(Exception):
    """The time is up."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise TimeUpError after `seconds`, also inside a regular expression."""

    def ring(_signum: int, _frame: object) -> None:
        raise TimeUpError

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


_LINES_COMPARED_MAX = 5000
_LINE_CHARS = 200
_NEAR_MIN = 0.6  # likeness for a line to be worth showing
_NEAR_SHOWN = 3
_DIFF_BYTES = 8192
_SAME = f"{NO_EDIT}: nothing to change. Give in new what old is to become, or write the whole file"
_SHOWN_WHOLE_CHARS = 600


def edit_file(context: ToolContext, path: str, old: str, new: str, count: int = 1) -> ToolOutcome:
    """Replace `old` by `new` where it is found exactly `count` times."""
    data = read_whole(context.workspace, path)
    if is_binary(data):
        raise PathError(f"{path} is not text")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise PathError(f"{path} is not UTF-8; use run_cmd") from error
    if not old:
        raise PathError("old is empty: give the text to replace, or use write_file")
    found = text.count(old)
    # Before the count is compared: models count in this way, and take the answer for a slip.
    if found and old == new:
        return ToolOutcome("error", _SAME, changed=False)
    if not found:
        return ToolOutcome("error", _not_there(path, text, old), changed=False)
    if found != count:
        places = itertools.islice(re.finditer(re.escape(old), text), 10)
        numbers = ", ".join(str(text.count("\n", 0, one.start()) + 1) for one in places)
        said = (
            f"old is {found} times in {path}, not {count} (lines {numbers}): give more of "
            f"the text around it, or count={found} to replace all"
        )
        return ToolOutcome("error", said, changed=False)
    after = text.replace(old, new)
    context.workspace.replace(path, after.encode(errors="replace"))
    sides = text.splitlines(), after.splitlines()
    diff = "\n".join(difflib.unified_diff(*sides, path, path, lineterm="", n=2))
    limit = min(_DIFF_BYTES, context.output_bytes)
    return ToolOutcome("success", cut(diff, limit), changed=True)


def _not_there(path: str, text: str, old: str) -> str:
    """Return that `old` is not there, with the lines that come closest."""
    message = f"old is not in {path}"
    if _squeezed(old) and _squeezed(old) in _squeezed(text):
        message += " with just this white space (spaces, tabs, line ends count)"
    elif old.replace('"', "'") in text.replace('"', "'"):
        message += " with just these quotation marks"
    first = next((line for line in old.splitlines() if line.strip()), "")
    lines = text.splitlines()[:_LINES_COMPARED_MAX]
    bare = [line.strip()[:_LINE_CHARS] for line in lines]
    close = difflib.get_close_matches(first.strip()[:_LINE_CHARS], bare, _NEAR_SHOWN, _NEAR_MIN)
    numbers = [number for number, line in enumerate(bare) if line in close][:_NEAR_SHOWN]
    near = [f"{number + 1}: {lines[number][:_LINE_CHARS]}" for number in numbers]
    if near:
        message += "; the closest lines are:\n" + "\n".join(near)
    else:
        message += "; read the file and copy the text exactly"
        if len(text) <= _SHOWN_WHOLE_CHARS:
            message += f", or write the whole file. It is:\n{text}"
    return message


def _squeezed(text: str) -> str:
    return "".join(text.split())


_SNIFF_BYTES, _CHUNK = 8192, 65536
_READ_S = 10.0
_LOST_SHOWN, _LOST_CHARS = 3, 60
WHOLE_BYTES_MAX = 16 * 1024 * 1024


def is_binary(head: bytes) -> bool:
    return b"\0" in head


def read_whole(workspace: Workspace, path: str) -> bytes:
    """Read a file that is to be compared or edited; TooLargeError if it is too large for that."""
    fd, info = workspace.open_regular(path)
    with os.fdopen(fd, "rb") as file:
        if info.st_size > WHOLE_BYTES_MAX:
            raise TooLargeError(f"{path} has {info.st_size} bytes, too many; use run_cmd")
        return file.read(WHOLE_BYTES_MAX + 1)


def read_file(
    context: ToolContext, path: str, start_line: int = 1, max_lines: int | None = None
) -> ToolOutcome:
    """Return the text from `start_line` on, as much of it as an output may have."""
    fd, info = context.workspace.open_regular(path)
    with os.fdopen(fd, "rb") as file:
        if is_binary(file.read(_SNIFF_BYTES)):
            hint = "look at it with run_cmd, for example with `file` or `xxd`"
            return ToolOutcome("error", f"{path} is not text ({info.st_size} bytes); {hint}")
        file.seek(0)
        limit_s = min(_READ_S, context.timeout_s)
        try:
            with time_limit(limit_s):
                return _read_lines(file, path, start_line, max_lines, context.output_bytes)
        except TimeUpError:
            text = f"[stopped after {limit_s:g} s: {path} is too large to count its lines; use run_cmd]"
            return ToolOutcome("timeout", text, changed=False)


def _read_lines(
    file: IO[bytes], path: str, start: int, most: int | None, limit: int
) -> ToolOutcome:
    skipped, text = 0, bytearray()
    while skipped < start - 1 and (piece := file.readline(_CHUNK)):
        skipped += piece.endswith(b"\n") or len(piece) < _CHUNK
    for number in itertools.count(start) if most is None else range(start, start + most):
        room = limit - len(text)
        line = file.readline(room + 1)
        if len(line) > room:
            return _cut_short(text, line[:room], number)
        if not line:
            break
        text += line
    if not text and start > 1:
        return ToolOutcome("error", f"{path} has only {skipped} lines", changed=False)
    return ToolOutcome("success", clean(text.decode(errors="replace")), changed=False)


def _cut_short(text: bytearray, piece: bytes, number: int) -> ToolOutcome:
    """Return what was read, with a note where to continue; a line that is too long is cut."""
    if not text:
        text += piece
        note = f"[line {number} continues; it is too long to show]"
    else:
        note = f"[more follows: continue with start_line={number}]"
    head = clean(text.decode(errors="replace"))
    newline = "" if head.endswith("\n") else "\n"
    return ToolOutcome("success", f"{head}{newline}{note}", changed=False)


def write_file(context: ToolContext, path: str, content: str) -> ToolOutcome:
    """Write a whole file, unless it has this content already."""
    data = content.encode(errors="replace")
    shown = context.workspace.relative(path)
    verb, old = "changed", b""
    try:
        old = read_whole(context.workspace, path)
    except MissingError:
        verb = "created"
    except TooLargeError:
        pass  # larger than any content that fits in a message
    if verb == "changed" and old == data:
        return ToolOutcome("success", f"unchanged {shown} ({len(data)} bytes)", changed=False)
    context.workspace.replace(path, data)
    is_text = not is_binary(old[:_SNIFF_BYTES])
    lost = _lost(old.decode(errors="replace"), content) if is_text else ""
    return ToolOutcome("success", f"{verb} {shown} ({len(data)} bytes){lost}", changed=True)


def _lost(old: str, new: str) -> str:
    """Return the first few lines that a file had and no new ones replace: models that write it anew drop the rest."""
    there = {line.strip() for line in new.splitlines()}
    before = [line for line in map(str.strip, old.splitlines()) if line]
    lost = [line for line in before if line not in there]
    replacing = there.difference(before, [""])
    shown = ", ".join(f"`{in_one_line(line, _LOST_CHARS)}`" for line in lost[:_LOST_SHOWN])
    more = f" and {len(lost) - _LOST_SHOWN} more" if len(lost) > _LOST_SHOWN else ""
    return f"{NO_LONGER}{shown}{more}" if len(lost) > len(replacing) else ""
