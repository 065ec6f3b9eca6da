"""Arguments as models write them, brought into the form of a tool's schema. Pure; never raises.

Only slips with a single plausible meaning are corrected: another common name of a parameter, a value that is not the
text that it should be, an option of 0 where only more is possible. Texts are never rewritten, and all else stays for
the executor to refuse with a reason.
"""

import json
from collections.abc import Mapping
from typing import Any

from clew_shared.tools import BY_NAME, Tool

_OTHER_NAMES = {
    "path": ("file_path", "filepath", "file", "filename", "file_name", "name"),
    "content": ("contents", "text", "data", "file_text", "body"),
    "cmd": ("command", "commands", "script", "code"),
    "old": ("old_str", "old_string", "old_text", "search", "find"),
    "new": ("new_str", "new_string", "new_text", "replace", "replacement"),
    "pattern": ("query", "regex"),
}


def fitted(tool: Tool, args: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments under the names of the schema, and texts as text."""
    properties: Mapping[str, Any] = tool.parameters.get("properties", {})
    found = _without_unset(tool, _renamed(dict(args), properties))
    for name, value in found.items():
        schema = properties.get(name, {})
        if schema.get("type") == "string" or "anyOf" in schema:
            found[name] = _as_text(name, value)
    return found


def _without_unset(tool: Tool, args: dict[str, Any]) -> dict[str, Any]:
    """Leave out options of 0 or less where the schema asks for more: some models fill in each option."""
    whole = BY_NAME.get(tool.name, tool).parameters  # as it is offered, it may lack such limits
    required = whole.get("required", ())
    lowest = {
        name: schema.get("minimum")
        for name, schema in whole.get("properties", {}).items()
        if name not in required and schema.get("type") == "integer"
    }
    return {name: value for name, value in args.items() if not _unset(value, lowest.get(name))}


def _unset(value: Any, lowest: int | None) -> bool:
    number = isinstance(value, int) and not isinstance(value, bool)
    return number and lowest is not None and value <= 0 < lowest


def _renamed(args: dict[str, Any], properties: Mapping[str, Any]) -> dict[str, Any]:
    """Put an unknown argument in the place of the missing one that it is another name of."""
    for name in properties:
        other = next((o for o in _OTHER_NAMES.get(name, ()) if o in args), None)
        if name not in args and other is not None and other not in properties:
            args[name] = args.pop(other)
    return args


def _as_text(name: str, value: Any) -> Any:
    """Return a value as the text that is meant by it; a command may also be a list of program and arguments."""
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    if isinstance(value, int | float):
        return str(value)
    lines = isinstance(value, list) and all(isinstance(one, str) for one in value)
    if name == "cmd":
        return value[0] if lines and len(value) == 1 else value
    if name != "content":
        return value
    return "\n".join(value) + "\n" if lines else json.dumps(value, indent=2) + "\n"
