"""Replacing an exact piece of text, with help where it is not found."""

import difflib
import heapq
from collections.abc import Callable
from typing import Any

from clew_shared.tools import NO_EDIT
from clew_worker.executor.output import cut
from clew_worker.executor.tools.files import is_binary, read_whole
from clew_worker.executor.tools.outcome import ToolContext, ToolOutcome
from clew_worker.executor.workspace import PathError

_LINES_COMPARED_MAX = 5000
_LINE_CHARS = 200
_LIKELY = 50  # lines with the most letters in common, which are compared in full
_NEAR_MIN = 0.6  # likeness for a line to be worth showing
_NEAR_SHOWN = 3
_DIFF_BYTES = 8192
_SAME = f"{NO_EDIT}: nothing to change. Give in new what old is to become, or write the whole file"
_SHOWN_WHOLE_CHARS = 600


def edit_file(args: dict[str, Any], context: ToolContext) -> ToolOutcome:
    """Replace `old` by `new` where it is found exactly `count` times."""
    path, old, new, count = args["path"], args["old"], args["new"], args.get("count", 1)
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
    if (
        found and old == new
    ):  # before its count: models count in this way, and take the answer for a slip
        return ToolOutcome("error", _SAME, changed=False)
    if found != count:
        return ToolOutcome("error", _miscounted(path, text, old, found, count), changed=False)
    after = text.replace(old, new)
    context.workspace.replace(path, after.encode(errors="replace"))
    limit = min(_DIFF_BYTES, context.output_bytes)
    return ToolOutcome("success", cut(_diff(path, text, after), limit), changed=True)


def _diff(path: str, before: str, after: str) -> str:
    lines = difflib.unified_diff(
        before.splitlines(), after.splitlines(), path, path, lineterm="", n=2
    )
    return "\n".join(lines)


def _miscounted(path: str, text: str, old: str, found: int, count: int) -> str:
    if found == 0:
        return _not_there(path, text, old)
    numbers: list[str] = []
    at = text.find(old)
    while at >= 0 and len(numbers) < 10:
        numbers.append(str(text.count("\n", 0, at) + 1))
        at = text.find(old, at + len(old))
    return (
        f"old is {found} times in {path}, not {count} (lines {', '.join(numbers)}): give more of "
        f"the text around it, or count={found} to replace all"
    )


def _not_there(path: str, text: str, old: str) -> str:
    """Return that `old` is not there, with the lines that come closest."""
    message = f"old is not in {path}"
    if _squeezed(old) and _squeezed(old) in _squeezed(text):
        message += " with just this white space (spaces, tabs, line ends count)"
    elif old.replace('"', "'") in text.replace('"', "'"):
        message += " with just these quotation marks"
    first = next((line for line in old.splitlines() if line.strip()), "")
    near = _closest(first, text.splitlines()[:_LINES_COMPARED_MAX])
    if near:
        message += "; the closest lines are:\n" + "\n".join(near)
    else:
        message += "; read the file and copy the text exactly"
        if len(text) <= _SHOWN_WHOLE_CHARS:
            message += f", or write the whole file. It is:\n{text}"
    return message


def _squeezed(text: str) -> str:
    return "".join(text.split())


def _closest(wanted: str, lines: list[str]) -> list[str]:
    matcher = difflib.SequenceMatcher(b=wanted.strip()[:_LINE_CHARS], autojunk=False)

    def likeness(number: int, measure: Callable[[], float]) -> float:
        matcher.set_seq1(lines[number].strip()[:_LINE_CHARS])
        return measure()

    likely = heapq.nlargest(
        _LIKELY, range(len(lines)), key=lambda n: likeness(n, matcher.quick_ratio)
    )
    near = {number: likeness(number, matcher.ratio) for number in likely}
    best = heapq.nlargest(_NEAR_SHOWN, near, key=lambda n: near[n])
    return [f"{n + 1}: {lines[n][:_LINE_CHARS]}" for n in sorted(best) if near[n] >= _NEAR_MIN]
