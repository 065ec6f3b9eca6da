"""The front matter of a goal file: its lines, its values, and all that is wrong with them.

Pure. Keys of other tools are named, not refused.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from clew_daemon.inbox.goalfile import front_yaml
from clew_daemon.inbox.goalfile.front_yaml import (
    FRONT_CHARS_MAX,
    FrontError,
    GoalFileFault,
    Unusable,
    cut,
    given,
)
from clew_daemon.inbox.goalfile.keys import Budget, FrontMatter
from clew_shared.text.spelling import closest
from clew_shared.text.validation import Expected, requirement

KEYS = FrontMatter.model_fields
_INNER = {"checks": "has a command that", "budget": "has a `{}` that"}
"""How a message about a value inside a key's value begins."""
KEYS_MAX = 100
"""Keys of what looks like front matter that are compared with clew's."""

_INVISIBLE = " \t\f\v\u00a0\u200b\u200c\u200d\u2060\ufeff"
_MARKER = re.compile(  # dashes of any kind (two at least, or a long one), as in `--- # note`; `+++`, `===`, `***`, …
    r"(?:[-\u2010-\u2015\u2212] ?){2,}(?:\s*(?:#.*|yaml|yml))?|[\u2014\u2015]|(?:[+=*_;] ?){3,}|\.\.\."
)
_KEY_LINE = re.compile(r"""["']?([A-Za-z_][\w .-]{0,40}?)["']?\s*[:=](?:\s|$|["'\[{0-9])""")
_INSIDE = (" ", "\t", "#", "-", "[", "]", "}")
"""How lines begin that stand between the keys: what is indented, comments, items, brackets."""
_FENCES = ("```", "~~~")
_NO_PROSE = ("#", "//", "%", *_FENCES)
"""How comments, headings and the opening line of a fenced block begin."""


@dataclass
class Front:
    """What the front matter holds: values by key, their lines, keys that are not clew's, and what is wrong."""

    values: dict[str, Any] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    unknown_keys: list[str] = field(default_factory=list)
    suggestions: dict[str, str] = field(default_factory=dict)
    faults: list[GoalFileFault] = field(default_factory=list)


def read(front: str, agents: Collection[str]) -> Front:
    """Read the front matter; `agents` are the names that `agent:` may have. Never raises."""
    found = Front()
    try:
        root = front_yaml.composed(front)
    except FrontError as error:
        found.faults.append(error.fault)
        return found
    if root is not None:
        nodes = dict(front_yaml.pairs(root, front, found.faults))
        for key, node in nodes.items():
            if key in KEYS:
                found.lines[key] = front_yaml.line_of(front, node.start_mark)
                _read_key(key, node, front, agents, found)
            else:
                _note_unknown(found, key, KEYS)
    return found


def _read_key(key: str, node: yaml.Node, front: str, agents: Collection[str], found: Front) -> None:
    if fault := _inner_keys_fault(key, node, front):
        found.faults.append(fault)
        return
    nodes: dict[front_yaml.Path, yaml.Node] = {}
    value = front_yaml.plain_value(node, (key,), nodes)
    if isinstance(value, Unusable):
        found.faults.append(GoalFileFault(found.lines[key], f"`{key}` {value.reason}"))
        return
    try:
        validated = FrontMatter.model_validate({key: value}, context={"agents": agents})
    except ValidationError as error:
        found.faults.append(_fault(key, error.errors()[0], nodes, front))
        return
    found.values[key] = getattr(validated, key)
    if key == "budget":
        for name in value:
            if name not in Budget.model_fields:
                _note_unknown(found, name, Budget.model_fields, "budget.")


def _note_unknown(found: Front, name: str, known: Collection[str], table: str = "") -> None:
    found.unknown_keys.append(f"{table}{name}")
    if meant := closest(name, known):
        found.suggestions[f"{table}{name}"] = f"{table}{meant}"


def _inner_keys_fault(key: str, node: yaml.Node, front: str) -> GoalFileFault | None:
    """Return what is wrong with the keys inside a key's value: one that is no word, or is given twice."""
    if key not in _INNER or not isinstance(node, yaml.MappingNode):
        return None
    is_checks = key == "checks"
    for name, _ in node.value if is_checks else ():
        if not isinstance(name, yaml.ScalarNode) or not name.value.strip():
            line = front_yaml.line_of(front, name.start_mark)
            return GoalFileFault(line, "`checks` must be lines of `name: command`")
    twice = front_yaml.repeated_key(node)
    if twice is None:
        return None
    if is_checks:
        line = front_yaml.line_of(front, node.start_mark)
        return GoalFileFault(line, "`checks` must have a different name for each check")
    line = front_yaml.line_of(front, twice.start_mark)
    return GoalFileFault(line, f"`{key}.{front_yaml.key_text(twice)}` is given twice: keep one")


def _fault(
    key: str, error: "ErrorDetails", nodes: Mapping[front_yaml.Path, yaml.Node], front: str
) -> GoalFileFault:
    """Return a key's first error as a sentence, with the line of the value that is wrong."""
    path = error["loc"]
    while path not in nodes:
        path = path[:-1]
    reason = error.get("ctx", {}).get("error")
    is_whole = isinstance(reason, ValueError) and not isinstance(reason, Expected)
    if isinstance(error["input"], Unusable) and not is_whole:
        sentence = error["input"].reason
    else:
        shown = given(nodes[path])
        sentence = requirement(error, shown, f'"{shown.strip("`")}"')
    if path[1:] and key in _INNER and not is_whole:
        sentence = f"{_INNER[key].format(path[1])} {sentence}"
    return GoalFileFault(front_yaml.line_of(front, nodes[path].start_mark), f"`{key}` {sentence}")


def split(text: str) -> tuple[str | None, str, int]:
    """Return the front matter (None without), the body, and the body's first line number.

    ValueError where the first line is `---` and no other closes it.
    """
    lines = text.split("\n")
    if lines[0].rstrip() != "---":
        return None, text, 1
    for index, line in enumerate(lines[1:], start=1):
        if line.rstrip() in {"---", "..."}:
            return "\n".join(lines[1:index]), "\n".join(lines[index + 1 :]), index + 2
    raise ValueError("the front matter is not closed: end it with a line `---`")


def lookalike(body: str, first_line: int) -> GoalFileFault | None:
    """Return what is wrong where a body begins with what seems meant as front matter.

    That is: before any prose, a line of dashes or the like, then nothing but lines of keys and
    values, of which one at least is a key of clew's or close to one, up to another such line. Or,
    where one of the two lines of dashes is missing: the other one, and first of all a key of clew's.
    """
    lines = body[:FRONT_CHARS_MAX].split("\n")
    start = _start(lines)
    if start == len(lines):
        return None
    bare = not "".join(lines[:start]).strip(_INVISIBLE)
    opened = _is_marker(lines[start])
    keys, end = _block(lines, start + opened)
    closed = end < len(lines) and _is_marker(lines[end])
    if opened and closed:
        meant = any(_is_ours(key.lower() if bare else key) for key in keys[:KEYS_MAX])
    else:
        meant = (opened or closed) and bool(keys) and keys[0] in KEYS
    if not meant:
        return None
    return GoalFileFault(
        first_line + start,
        f"this looks like front matter, but would not be read: {_wrong(lines, start, first_line)}. Front matter "
        "begins on line 1 with `---`, has lines of `key: value`, and ends with `---`; if you mean "
        "this as text, put a sentence above it",
    )


def _start(lines: list[str]) -> int:
    """Return the index of the first line that is not blank, a comment, a heading or the opening of a block.

    What stands in a block below a heading is an example, and no front matter.
    """
    in_comment = titled = False
    for index, line in enumerate(lines):
        plain = line.strip(_INVISIBLE)
        if in_comment or plain.startswith("<!--"):
            in_comment = "-->" not in plain
        elif plain and ((titled and plain.startswith(_FENCES)) or not plain.startswith(_NO_PROSE)):
            return index
        elif plain.startswith("#"):
            titled = True
    return len(lines)


def _block(lines: list[str], start: int) -> tuple[list[str], int]:
    """Return the keys of the lines from `start` on that could be YAML or TOML, and where these end."""
    keys: list[str] = []
    for index in range(start, len(lines)):
        line = lines[index].strip("\ufeff").rstrip()
        found = _KEY_LINE.match(line)
        if _is_marker(line):
            return keys, index
        if found:
            keys.append(found[1])
        elif (line and not line.startswith(_INSIDE)) or line.startswith("##"):
            return keys, index
    return keys, len(lines)


def _is_marker(line: str) -> bool:
    return bool(_MARKER.fullmatch(line.strip(_INVISIBLE)))


def _is_ours(key: str) -> bool:
    return key in KEYS or (key.islower() and closest(key, KEYS) is not None)


def _wrong(lines: list[str], start: int, first_line: int) -> str:
    """Return why the line at `start`, where front matter seems to begin, does not begin it."""
    line = lines[start]
    if not _is_marker(line):
        return "the `---` above it is missing"
    if line.strip(_INVISIBLE) != "---":
        return f"it begins with `{cut(line.strip(_INVISIBLE))}`"
    if line.rstrip() != "---":
        return "there is a space or an invisible character at its `---`"
    if first_line > 1:
        return "there is front matter above it already"
    if "".join(lines[:start]).strip(_INVISIBLE):
        return "there are other lines above it"
    return "there is an empty line above it"
