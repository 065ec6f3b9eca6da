"""The options of `clew submit` merged into the front matter of the dropped copy of a goal file.

Pure. The text is edited and not dumped again, so that everything else in it stays as it is, and each line of the
result is known by its line in the file.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import yaml

from clew_daemon.inbox.goalfile import front as goalfile_front
from clew_daemon.inbox.goalfile import front_yaml
from clew_daemon.inbox.goalfile.front_yaml import FrontError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

Edit = tuple[int, int, str]
"""The start and end of the text that is replaced, and its replacement."""


@dataclass(frozen=True)
class SubmitOptions:
    """The options beside the file: they override its front matter; checks are added to its own."""

    name: str | None = None
    agent: str | None = None
    workspace: str | None = None
    checks: tuple[str, ...] = ()

    @property
    def single(self) -> dict[str, str]:
        """The given keys that have one value, not a list."""
        given = {"name": self.name, "agent": self.agent, "workspace": self.workspace}
        return {key: value for key, value in given.items() if value is not None}

    def __bool__(self) -> bool:
        return bool(self.single or self.checks)

    def faults(self, agents: Collection[str]) -> list[str]:
        """Return the errors of the options themselves, each with the name of its option."""
        given = [(key, key, value) for key, value in self.single.items()]
        given += [("check", "checks", check) for check in self.checks]
        return [
            f"--{option}: {fault}"
            for option, key, value in given
            for fault in _faults(key, value, agents)
        ]


@dataclass(frozen=True)
class MergedText:
    """A goal file's text with the options in it; `origins` has the line of the file for each of its lines."""

    text: str
    origins: tuple[int, ...]

    def line(self, line: int | None) -> int | None:
        """Return the line of the file for a line of this text."""
        return None if line is None else self.origins[min(line, len(self.origins)) - 1]


def merge(text: str, options: SubmitOptions) -> MergedText:
    """Merge the options into a goal file's text, with Unix line ends.

    A text whose front matter cannot be read is returned as it is: parsing it gives the error.
    """
    try:
        edits = _edits(text, options)
    except (ValueError, FrontError):
        edits = []
    merged = _edited(text, edits)
    # A value behind an anchor or a tag cannot be edited in this way.
    return merged if _is_readable(merged.text) else _edited(text, [])


def _is_readable(text: str) -> bool:
    try:
        front, _, _ = goalfile_front.split(text)
        front_yaml.composed(front or "")
    except (ValueError, FrontError):
        return False
    return True


def _edits(text: str, options: SubmitOptions) -> list[Edit]:
    front, _, _ = goalfile_front.split(text)
    if front is None:
        if goalfile_front.lookalike(text, 1):
            return []
        lines = [f"{key}: {value}\n" for key, value in _new(options, {})]
        return [(0, 0, f"---\n{''.join(lines)}---\n")]
    offset = text.index("\n") + 1
    root = front_yaml.composed(front)
    pairs = root.value if root else []
    values = {key.value: value for key, value in pairs if isinstance(key.value, str)}
    edits = [
        _replacing(front, values[key], _quoted(value))
        for key, value in options.single.items()
        if key in values
    ]
    if options.checks and "checks" in values:
        edits.append(_added_checks(front, values["checks"], options.checks))
    edits.append(_added_keys(root, _new(options, values)))
    return [(offset + start, offset + end, new) for start, end, new in edits]


def _new(options: SubmitOptions, values: Collection[str]) -> list[tuple[str, str]]:
    """Return the keys that the front matter lacks, with their values as YAML."""
    new = [(key, _quoted(value)) for key, value in options.single.items() if key not in values]
    if options.checks and "checks" not in values:
        new.append(("checks", _flow(_named(options.checks, ()))))
    return new


def _added_keys(root: yaml.MappingNode | None, new: list[tuple[str, str]]) -> Edit:
    if root is None:
        return 0, 0, "".join(f"{key}: {value}\n" for key, value in new)
    at = root.start_mark.index
    if root.flow_style:
        return at + 1, at + 1, "".join(f"{key}: {value}, " for key, value in new)
    indent = " " * root.start_mark.column
    return at, at, "".join(f"{key}: {value}\n{indent}" for key, value in new)


def _added_checks(front: str, node: yaml.Node, checks: tuple[str, ...]) -> Edit:
    """Add checks to those of the file, in the YAML style of these."""
    at, indent = node.start_mark.index, " " * node.start_mark.column
    if isinstance(node, yaml.SequenceNode):
        if node.flow_style:
            return at + 1, at + 1, "".join(f"{_quoted(check)}, " for check in checks)
        return at, at, "".join(f"- {_quoted(check)}\n{indent}" for check in checks)
    if isinstance(node, yaml.MappingNode):
        named = _named(checks, {str(key.value) for key, _ in node.value})
        pairs = [f"{_quoted(name)}: {_quoted(check)}" for name, check in named.items()]
        if node.flow_style:
            return at + 1, at + 1, "".join(f"{pair}, " for pair in pairs)
        return at, at, "".join(f"{pair}\n{indent}" for pair in pairs)
    old = [] if node.tag == front_yaml.NULL else [node.value]
    return _replacing(front, node, _flow_list([*old, *checks]))


def _named(checks: tuple[str, ...], taken: Collection[str]) -> dict[str, str]:
    """Name the checks check_1, check_2 and so on, without the names in `taken`."""
    named: dict[str, str] = {}
    number = 0
    for check in checks:
        number += 1
        while f"check_{number}" in taken:
            number += 1
        named[f"check_{number}"] = check
    return named


def _replacing(front: str, node: yaml.Node, new: str) -> Edit:
    start, end = node.start_mark.index, node.end_mark.index
    old = front[start:end]
    if not old:  # a key without a value: after its colon
        return start, end, f" {new}"
    return start, start + len(old.rstrip()), new


def _edited(text: str, edits: list[Edit]) -> MergedText:
    parts: list[str] = []
    origins, line, at = [1], 1, 0
    for start, end, new in [*sorted(edits), (len(text), len(text), "")]:
        for char in text[at:start]:
            if char == "\n":
                line += 1
                origins.append(line)
        origins += [line] * new.count("\n")
        line += text.count("\n", start, end)
        parts += [text[at:start], new]
        at = end
    return MergedText("".join(parts), tuple(origins))


def _flow(named: dict[str, str]) -> str:
    return "{" + ", ".join(f"{_quoted(k)}: {_quoted(v)}" for k, v in named.items()) + "}"


def _flow_list(checks: Iterable[str]) -> str:
    return "[" + ", ".join(map(_quoted, checks)) + "]"


def _quoted(text: str) -> str:
    """Quote a text for YAML: as in JSON, with a few more characters escaped."""
    quoted = json.dumps(text, ensure_ascii=False)
    return "".join(char if char.isprintable() else _escaped(char) for char in quoted)


def _escaped(char: str) -> str:
    return f"\\U{ord(char):08x}" if ord(char) > 0xFFFF else f"\\u{ord(char):04x}"


def _faults(key: str, value: str, agents: Collection[str]) -> list[str]:
    """Return the errors of the value of one key, worded to follow the name of its option."""
    if not value.strip():
        return ["is empty"]
    found = goalfile_front.read(f"{key}: {_quoted(value)}\n", agents).faults
    return [
        str(fault)
        .removeprefix("line 2: ")
        .removeprefix(f"`{key}` ")
        .replace("names an unknown", "unknown", 1)
        for fault in found
    ]
