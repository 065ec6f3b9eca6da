"""Lists folders, searches files, runs commands; calls the function of a tool, by the schemas of `clew_shared.tools`."""

import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import PurePosixPath

from clew_shared.files import closing
from clew_shared.text.shorten import in_one_line
from clew_shared.text.spelling import closest
from clew_shared.tools import BY_NAME, Schema
from clew_shared.wire.executor import ToolResult
from clew_worker.executor.commands import CommandError, clean, cut
from clew_worker.executor.tools import files
from clew_worker.executor.tools.files import (
    TimeUpError,
    ToolContext,
    ToolOutcome,
    is_binary,
    time_limit,
)
from clew_worker.executor.workspace import MissingError, PathError, Workspace

# Folders that tools create: not searched unless named explicitly.
_SKIPPED = {
    *(".git", ".hg", ".svn", "__pycache__", "node_modules", ".venv", ".agent_context", ".tox"),
    *(".mypy_cache", ".pytest_cache", ".ruff_cache"),
}
_LISTED_MAX = 1000
_DEPTH = 3
_DEPTH_MAX = 32
_MATCHES = 100
_MATCHES_MAX = 1000
_LINE_CHARS = 300
_FILE_BYTES_MAX = 8 * 1024 * 1024
_SEARCH_S = 10.0
_NEARBY_SHOWN, _NEARBY_CHARS = 20, 60


def _entries(workspace: Workspace, folder: str) -> list[tuple[str, os.stat_result]]:
    """Return name and lstat of what is in a folder, in order; vanished ones left out."""
    found = []
    with closing(workspace.open_folder(folder)) as fd:
        for name in sorted(os.listdir(fd)):  # noqa: PTH208 - by descriptor
            with suppress(OSError):
                found.append((name, os.stat(name, dir_fd=fd, follow_symlinks=False)))
    return found


def _walk(
    workspace: Workspace, folder: str, depth: int
) -> Iterator[tuple[str, os.stat_result, bool]]:
    """Return path, lstat and whether it is skipped, of everything beneath a folder, in order."""
    try:
        entries = _entries(workspace, folder)
    except PathError:
        return  # vanished, or unreadable
    for name, info in entries:
        path = name if folder == "." else f"{folder}/{name}"
        skipped = name in _SKIPPED and stat.S_ISDIR(info.st_mode)
        yield path, info, skipped
        if stat.S_ISDIR(info.st_mode) and not skipped and depth > 1:
            yield from _walk(workspace, path, depth - 1)


def list_files(context: ToolContext, path: str = ".", depth: int = _DEPTH) -> ToolOutcome:
    workspace = context.workspace
    folder = workspace.relative(path)
    os.close(workspace.open_folder(folder))
    lines: list[str] = []
    for found, info, skipped in _walk(workspace, folder, min(depth, _DEPTH_MAX)):
        if len(lines) >= _LISTED_MAX:
            lines.append(f"[more than {_LISTED_MAX}: name a folder in path, or a smaller depth]")
            break
        mark = "/" if stat.S_ISDIR(info.st_mode) else "@" if stat.S_ISLNK(info.st_mode) else ""
        lines.append(f"{found}{mark}{' (not listed)' if skipped else ''}")
    text = clean(os.fsencode("\n".join(lines)).decode(errors="replace"))
    return ToolOutcome("success", cut(text, context.output_bytes) or "(empty)", changed=False)


def nearby(workspace: Workspace, path: str) -> str:
    """Return what the nearest folder above a missing path has, in whole paths: models do not look on their own."""
    for folder in map(str, PurePosixPath(workspace.relative(path)).parents):
        with suppress(PathError):
            above = "" if folder == "." else f"{folder}/"
            shown = [
                f"{above}{_shown(name)}{'/' * stat.S_ISDIR(info.st_mode)}"
                for name, info in _entries(workspace, folder)
                if not name.startswith(".") and name not in _SKIPPED
            ]
            if not shown:
                return f", and {'the working folder' if folder == '.' else folder} is empty"
            more = len(shown) - _NEARBY_SHOWN
            shown[_NEARBY_SHOWN:] = [f"and {more} more"] if more > 0 else []
            return f". These do: {', '.join(shown)}"
    return ""


def _shown(name: str) -> str:
    return in_one_line(clean(os.fsencode(name).decode(errors="replace")), _NEARBY_CHARS)


def _text_files(workspace: Workspace, path: str) -> Iterator[str]:
    try:
        os.close(workspace.open_folder(path))
    except PathError:
        os.close(workspace.open_regular(path)[0])
        yield path
        return
    for found, info, _ in _walk(workspace, path, _DEPTH_MAX):
        if stat.S_ISREG(info.st_mode) and info.st_size <= _FILE_BYTES_MAX:
            yield found


def _matches(workspace: Workspace, path: str, pattern: re.Pattern[str]) -> Iterator[str]:
    """Return `file:line: text` for each matching line of text files."""
    for name in _text_files(workspace, path):
        try:
            fd, _ = workspace.open_regular(name)
        except PathError:
            continue
        with os.fdopen(fd, "rb") as file:
            data = file.read(_FILE_BYTES_MAX)
        if is_binary(data[:8192]):
            continue
        shown = os.fsencode(name).decode(errors="replace")
        for number, line in enumerate(data.decode(errors="replace").splitlines(), 1):
            if pattern.search(line):
                yield f"{shown}:{number}: {line.strip()[:_LINE_CHARS]}"


def search(
    context: ToolContext,
    pattern: str,
    path: str = ".",
    max: int = _MATCHES,  # noqa: A002 - the tool's own name for it
) -> ToolOutcome:
    """Search text files, in the order of their paths; without a match it succeeds with `no match`."""
    workspace = context.workspace
    path, most = workspace.relative(path), min(max, _MATCHES_MAX)
    lines, found = list[str](), 0
    try:
        compiled = re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        lines.append(f"[not a regular expression ({error}): searched for it as plain text]")
        compiled = re.compile(re.escape(pattern))
    try:
        with time_limit(min(_SEARCH_S, context.timeout_s)):
            for match in _matches(workspace, path, compiled):
                if found >= most:
                    lines.append(f"[more than {most} matches: narrow the pattern or the path]")
                    break
                lines.append(match)
                found += 1
        lines += [] if found else ["no match"]
        result: ToolResult = "success"
    except TimeUpError:
        lines.append(f"[stopped after {_SEARCH_S:g} s: narrow the pattern or the path]")
        result = "timeout"
    return ToolOutcome(result, cut("\n".join(lines), context.output_bytes), changed=False)


_NUMBER_MAX = 1_000_000_000


class BadArgumentsError(Exception):
    """The tool is unknown, or its arguments are wrong; the text says what would be right."""


def _number(value: object) -> int | float | None:
    """Return a number, also of "5": small models write them so; None for anything else."""
    if isinstance(value, str):
        with suppress(ValueError):
            return float(value)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _checked(tool: str, key: str, schema: Schema, value: object) -> object:
    """Return an argument in its proper type; BadArgumentsError where it has another one."""
    kind, number = schema.get("type"), _number(value)
    if kind in ("integer", "number"):
        if number is not None and schema.get("minimum", 0) <= number <= _NUMBER_MAX:  # not NaN
            if kind == "number":
                return number
            if number == int(number):
                return int(number)
        try:
            shown = f"{value!r:.60}"
        except ValueError:
            shown = "a number with thousands of digits"
        raise BadArgumentsError(
            f"{tool}: {key} must be {'a whole number' if kind == 'integer' else 'a number'} "
            f"of at least {schema.get('minimum', 0)} and at most {_NUMBER_MAX:,}, not {shown}"
        )
    words = isinstance(value, list) and value and all(isinstance(one, str) for one in value)
    if isinstance(value, str) or ("anyOf" in schema and words):
        return value
    wanted = "a string or a list of strings" if "anyOf" in schema else "a string"
    raise BadArgumentsError(f"{tool}: {key} must be {wanted}, not {type(value).__name__}")


def check_arguments(name: str, args: Mapping[str, object]) -> dict[str, object]:
    """Return arguments in their proper types, without optional nulls; BadArgumentsError where they do not fit."""
    tool = BY_NAME.get(name)
    if tool is None:
        near = closest(name, BY_NAME)
        hint = f" Did you mean {near}?" if near else ""
        raise BadArgumentsError(
            f"tool {name:.60} not found; available: {', '.join(BY_NAME)}.{hint}"
        )
    properties: dict[str, Schema] = tool.parameters["properties"]
    required: list[str] = tool.parameters["required"]
    given = {key: value for key, value in args.items() if value is not None or key in required}
    if unknown := [key for key in given if key not in properties]:
        raise BadArgumentsError(
            f"{name} has no argument {', '.join(unknown):.80}; it takes: {', '.join(properties)}"
        )
    if absent := [key for key in required if key not in given]:
        raise BadArgumentsError(
            f"{name} needs {', '.join(absent)}; it takes: {', '.join(properties)} "
            f"(required: {', '.join(required)})"
        )
    return {key: _checked(name, key, properties[key], value) for key, value in given.items()}


def run_cmd(
    context: ToolContext, cmd: str | list[str], timeout_s: float | None = None
) -> ToolOutcome:
    """Run a command; it is over when the command itself ends, whatever it leaves running."""
    timeout_s = min(context.timeout_s if timeout_s is None else timeout_s, context.timeout_s)
    try:
        run = context.commands.run(cmd, timeout_s, context.output_bytes, context.said)
    except CommandError as error:
        return ToolOutcome("error", str(error), changed=False)
    output, code, timed_out = run
    if timed_out:
        limit = context.limit if timeout_s == context.timeout_s else "its own timeout_s"
        why = f" ({limit})" if limit else ""
        note = f"[stopped after {timeout_s:g} s{why}, with everything it had started]"
        newline = "\n" if output and not output.endswith("\n") else ""
        return ToolOutcome("timeout", f"{output}{newline}{note}", code)
    return ToolOutcome("failure" if code else "success", output, code)


def wait(context: ToolContext, seconds: float, why: str = "") -> ToolOutcome:  # noqa: ARG001
    context.wire.pause(min(seconds, context.timeout_s))
    return ToolOutcome("success", "")


CARRIED_OUT: dict[str, Callable[..., ToolOutcome]] = {
    "run_cmd": run_cmd,
    "wait": wait,
    "read_file": files.read_file,
    "write_file": files.write_file,
    "edit_file": files.edit_file,
    "list_files": list_files,
    "search": search,
}


def carry_out(name: str, args: Mapping[str, object], context: ToolContext) -> ToolOutcome:
    """Carry out one action; whatever is wrong with it becomes an outcome with a message for the agent."""
    try:
        checked = check_arguments(name, args)
        if name not in CARRIED_OUT:
            return ToolOutcome("error", f"{name} is not a tool that acts in the workspace")
        return CARRIED_OUT[name](context, **checked)
    except MissingError as error:
        return ToolOutcome("error", f"{error}{nearby(context.workspace, error.path)}")
    except (BadArgumentsError, PathError) as error:
        return ToolOutcome("error", str(error))
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return ToolOutcome("error", f"{name}: {where}{error.strerror or error}")
