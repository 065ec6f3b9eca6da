"""The built-in tools as a model sees them: names, descriptions, JSON schemas; and argument checks.

Descriptions are short and plain, since small models read them. Nothing here carries out a tool:
the executor does, and `finish` and `recall` are the daemon's.
Source: docs/protocol.md, "The tools of `act`".
"""

import difflib
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Tool:
    """A tool: `parameters` is its JSON schema (an object)."""

    name: str
    description: str
    parameters: dict[str, Any]


class BadArgumentsError(Exception):
    """The tool is unknown, or its arguments are wrong; the text says what would be right."""


def _text(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


def _whole(description: str, minimum: int = 1) -> dict[str, Any]:
    return {"type": "integer", "minimum": minimum, "description": description}


def _tool(name: str, description: str, optional: tuple[str, ...] = (), **properties: Any) -> Tool:
    schema = {
        "type": "object",
        "properties": properties,
        "required": [key for key in properties if key not in optional],
        "additionalProperties": False,
    }
    return Tool(name, description, schema)


_PATH = _text("Path of a file, relative to the workspace.")
_SECONDS = {"type": "number", "minimum": 0}
_NUMBER_MAX = 1_000_000_000

TOOLS: tuple[Tool, ...] = (
    _tool(
        "run_cmd",
        "Run a shell command in the workspace. Returns its output and exit code.",
        optional=("timeout_s",),
        cmd={
            "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}],
            "description": "A shell command line, or a list of program and arguments.",
        },
        timeout_s={**_SECONDS, "description": "Stop the command after this many seconds."},
    ),
    _tool(
        "read_file",
        "Read a text file.",
        optional=("start_line", "max_lines"),
        path=_PATH,
        start_line=_whole("First line to read; the first is 1."),
        max_lines=_whole("How many lines to read at most."),
    ),
    _tool(
        "write_file",
        "Write a whole file. Makes missing folders and replaces what was there.",
        path=_PATH,
        content=_text("The whole new text of the file."),
    ),
    _tool(
        "edit_file",
        "Replace an exact piece of text in a file.",
        optional=("count",),
        path=_PATH,
        old=_text("The text to replace, exactly as it is in the file."),
        new=_text("The text to put in its place."),
        count=_whole("How often `old` is in the file, if more than once; all are replaced."),
    ),
    _tool(
        "list_files",
        "List files and folders.",
        optional=("path", "depth"),
        path=_text("Folder to list, relative to the workspace. Default: the workspace."),
        depth=_whole("How many levels deep. Default: 3."),
    ),
    _tool(
        "search",
        "Search the text of files for a regular expression.",
        optional=("path", "max"),
        pattern=_text("Regular expression (Python syntax)."),
        path=_text("File or folder to search in. Default: the workspace."),
        max=_whole("How many matches to return at most. Default: 100."),
    ),
    _tool(
        "wait",
        "Wait for something that is running.",
        optional=("why",),
        seconds={**_SECONDS, "description": "How many seconds."},
        why=_text("What you are waiting for."),
    ),
    _tool("recall", "Show an earlier output again, in full.", seq=_whole("The action's number.")),
    _tool(
        "finish",
        "Say that the whole goal is done.",
        summary=_text("What was done, in one or two sentences."),
    ),
)
BY_NAME: dict[str, Tool] = {tool.name: tool for tool in TOOLS}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _as_number(value: Any, *, whole: bool) -> Any:
    """Take "5" for 5 and 5.0 for 5, as small models write them; anything else stays as it is."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return value
    if whole and isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def _shown(value: Any) -> str:
    """Show a wrong value; Python writes out no number of thousands of digits."""
    try:
        return f"{value!r:.60}"
    except ValueError:
        return "a number with thousands of digits"


def _checked(tool: str, key: str, schema: dict[str, Any], value: Any) -> Any:
    """Check one argument; returns it back in its proper type."""
    kind = schema.get("type")
    if kind in ("integer", "number"):
        value = _as_number(value, whole=kind == "integer")
        fits = _is_number(value) and (kind == "number" or isinstance(value, int))
        least = schema.get("minimum", 0)
        if not fits or not least <= value <= _NUMBER_MAX:  # what is no number (NaN) is neither
            raise BadArgumentsError(
                f"{tool}: {key} must be {'a whole number' if kind == 'integer' else 'a number'} "
                f"of at least {least} and at most {_NUMBER_MAX:,}, not {_shown(value)}"
            )
        return value
    words = isinstance(value, list) and value and all(isinstance(one, str) for one in value)
    if isinstance(value, str) or ("anyOf" in schema and words):
        return value
    wanted = "a string or a list of strings" if "anyOf" in schema else "a string"
    raise BadArgumentsError(f"{tool}: {key} must be {wanted}, not {type(value).__name__}")


def check_arguments(name: str, args: dict[str, Any]) -> dict[str, Any]:
    """Check a call against the tool's schema; the arguments in their proper types.

    Optional arguments given as null are left out. BadArgumentsError otherwise.
    """
    tool = BY_NAME.get(name)
    if tool is None:
        near = difflib.get_close_matches(name, BY_NAME, n=1)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise BadArgumentsError(
            f"tool {name:.60} not found; available: {', '.join(BY_NAME)}.{hint}"
        )
    properties: dict[str, dict[str, Any]] = tool.parameters["properties"]
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
