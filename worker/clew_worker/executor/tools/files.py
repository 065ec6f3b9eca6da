"""Reading and writing whole files."""

import os
from typing import IO, Any

from clew_shared.text.shorten import in_one_line
from clew_shared.tools import NO_LONGER
from clew_worker.executor.output import clean
from clew_worker.executor.tools.alarm import TimeUpError, time_limit
from clew_worker.executor.tools.outcome import ToolContext, ToolOutcome
from clew_worker.executor.workspace import MissingError, TooLargeError, Workspace

_SNIFF_BYTES = 8192
_READ_S = 10.0
_LOST_SHOWN, _LOST_CHARS = 3, 60
WHOLE_BYTES_MAX = 16 * 1024 * 1024


def is_binary(head: bytes) -> bool:
    """Return whether the head of a file looks binary."""
    return b"\0" in head


def read_whole(workspace: Workspace, path: str) -> bytes:
    """Read a file that is to be compared or edited; TooLargeError if it is too large for that."""
    fd, info = workspace.open_regular(path)
    with os.fdopen(fd, "rb") as file:
        if info.st_size > WHOLE_BYTES_MAX:
            raise TooLargeError(f"{path} has {info.st_size} bytes, too many; use run_cmd")
        return file.read(WHOLE_BYTES_MAX + 1)


def read_file(args: dict[str, Any], context: ToolContext) -> ToolOutcome:
    """Return the text from `start_line` on, as much of it as an output may have."""
    path = args["path"]
    fd, info = context.workspace.open_regular(path)
    with os.fdopen(fd, "rb") as file:
        if is_binary(file.read(_SNIFF_BYTES)):
            hint = "look at it with run_cmd, for example with `file` or `xxd`"
            return ToolOutcome("error", f"{path} is not text ({info.st_size} bytes); {hint}")
        file.seek(0)
        limit_s = min(_READ_S, context.timeout_s)
        try:
            with time_limit(limit_s):
                return _read_lines(file, args, context.output_bytes)
        except TimeUpError:
            text = f"[stopped after {limit_s:g} s: {path} is too large to count its lines; use run_cmd]"
            return ToolOutcome("timeout", text, changed=False)


def _read_lines(file: IO[bytes], args: dict[str, Any], limit: int) -> ToolOutcome:
    start = args.get("start_line", 1)
    last = start + args["max_lines"] - 1 if "max_lines" in args else None
    text = bytearray()
    number = 0
    while last is None or number < last:
        room = limit - len(text)
        line = file.readline(room + 1 if number + 1 >= start else limit + 1)
        if not line:
            break
        if number + 1 >= start and len(line) > room:
            return _cut_short(text, line[:room], number + 1)
        if number + 1 >= start:
            text += line
        number += line.endswith(b"\n") or len(line) <= limit
    if number < start and start > 1:
        return ToolOutcome("error", f"{args['path']} has only {number} lines", changed=False)
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


def write_file(args: dict[str, Any], context: ToolContext) -> ToolOutcome:
    """Write a whole file, unless it has this content already."""
    path = args["path"]
    data = args["content"].encode(errors="replace")
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
    lost = (
        ""
        if is_binary(old[:_SNIFF_BYTES])
        else _lost(old.decode(errors="replace"), args["content"])
    )
    return ToolOutcome("success", f"{verb} {shown} ({len(data)} bytes){lost}", changed=True)


def _lost(old: str, new: str) -> str:
    """Return which lines a file had that its new content lacks, the first few of them; "" for none.

    A model that writes a file anew easily drops the rest of it.
    """
    there = {line.strip() for line in new.splitlines()}
    lost = [line for line in map(str.strip, old.splitlines()) if line and line not in there]
    shown = ", ".join(f"`{in_one_line(line, _LOST_CHARS)}`" for line in lost[:_LOST_SHOWN])
    more = f" and {len(lost) - _LOST_SHOWN} more" if len(lost) > _LOST_SHOWN else ""
    return f"{NO_LONGER}{shown}{more}" if lost else ""
