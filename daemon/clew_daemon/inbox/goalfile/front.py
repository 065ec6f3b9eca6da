"""Reading the front matter of a goal file: values, their lines, and all that is wrong with them.

Pure. Keys of other tools are named, not refused.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import yaml
from pydantic import ValidationError

from clew_daemon.inbox.goalfile import front_yaml
from clew_daemon.inbox.goalfile.faults import GoalFileFault
from clew_daemon.inbox.goalfile.front_yaml import FrontError, Unusable, given
from clew_daemon.inbox.goalfile.keys import Budget, FrontMatter
from clew_shared.text.spelling import closest
from clew_shared.text.validation import Expected, requirement

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

KEYS = FrontMatter.model_fields
_INNER = {"checks": "has a command that", "budget": "has a `{}` that"}
"""How a message about a value inside a key's value begins."""


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
