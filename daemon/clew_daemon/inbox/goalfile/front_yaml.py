"""The faults of a goal file, and the YAML of its front matter: a small, bounded part, with the line of each value.

Pure. There are no aliases, no tags and no deep nesting, so that nothing takes long or grows.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from clew_shared.text.shorten import in_whole_words

FRONT_CHARS_MAX = 65_536
DEPTH_MAX = 8
NULL = "tag:yaml.org,2002:null"
UNREADABLE = (yaml.YAMLError, ValueError, LookupError, TypeError, OverflowError)
"""What PyYAML raises for values that it takes for numbers, dates and the like but cannot read."""

Path = tuple[int | str, ...]
"""Where a value is: its key, and the keys or indices below."""

_UNRECORDABLE = re.compile("[\0\ud800-\udfff]")
"""What only an escape in quotes can make; no path or command can hold it, and the ledger cannot keep it."""


@dataclass(frozen=True)
class GoalFileFault:
    """One thing that is wrong in a goal file; `line` counts from 1, None is the whole file."""

    line: int | None
    message: str

    def __str__(self) -> str:
        return self.message if self.line is None else f"line {self.line}: {self.message}"


class GoalFileError(ValueError):
    """The goal file cannot be used; its text, all errors one a line, is that of NAME.error.txt."""

    def __init__(self, name: str, faults: list[GoalFileFault]) -> None:
        self.name = name
        self.faults = sorted(faults, key=lambda fault: fault.line or 0)
        super().__init__("\n".join([f"{name} cannot be used:", *map(str, self.faults)]))


def cut(text: str) -> str:
    """Return a piece of the file as messages show it."""
    return in_whole_words(text, 60)


class FrontError(Exception):
    """The front matter as a whole cannot be read; `fault` says why and on which line."""

    def __init__(self, line: int | None, message: str) -> None:
        super().__init__(message)
        self.fault = GoalFileFault(line, message)


class Unusable:
    """A scalar without a usable value: one that YAML reads as null, or cannot read; `reason` follows its key."""

    def __init__(self, node: yaml.Node) -> None:
        self.is_null = node.tag == NULL
        if not self.is_null:
            self.reason = f"has a value that cannot be read: {given(node)}"
        elif not node.value:
            self.reason = "has no value: write one, or delete the line"
        else:
            self.reason = (
                f'is `{node.value}`, which YAML reads as no value: put it in quotes ("{node.value}") if you mean it, '
                "or delete the line"
            )


class _Loader(yaml.SafeLoader):
    """Refuses, before a node is built, what could grow or nest without bound."""

    def __init__(self, front: str) -> None:
        super().__init__(front)
        self._front = front
        self._depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event: yaml.Event = self.peek_event()  # type: ignore[no-untyped-call]
        if fault := _unsupported(event, self._depth):
            raise FrontError(line_of(self._front, event.start_mark), fault)
        self._depth += 1
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node


def _unsupported(event: yaml.Event, depth: int) -> str:
    if isinstance(event, yaml.AliasEvent):
        return "aliases (`*name`) are not supported: write the value out"
    if isinstance(event, yaml.ScalarEvent) and _UNRECORDABLE.search(event.value):
        return "a value contains a NUL or half of a surrogate pair: delete it"
    if getattr(event, "tag", None) is not None:
        return "tags (`!name`) are not supported: write the plain value"
    if isinstance(event, yaml.CollectionStartEvent) and depth >= DEPTH_MAX:
        return f"nested deeper than {DEPTH_MAX} levels: flatten it"
    return ""


def composed(front: str) -> yaml.MappingNode | None:
    """Return the front matter as YAML's nodes, None where there are none; raises FrontError."""
    if len(front) > FRONT_CHARS_MAX:
        raise FrontError(1, f"the front matter is over {FRONT_CHARS_MAX:,} characters: shorten it")
    try:
        node = _Loader(front).get_single_node()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = line_of(front, mark) if mark else None
        raise FrontError(line, f"the front matter is not valid YAML: {error.problem}") from None
    except yaml.reader.ReaderError as error:
        line = front.count("\n", 0, error.position) + 2
        raise FrontError(line, "the front matter contains a character that YAML forbids") from None
    except (*UNREADABLE, RecursionError) as error:
        raise FrontError(
            1, f"the front matter is not valid YAML: {in_whole_words(str(error), 200)}"
        ) from None
    if node is None:
        return None
    if not isinstance(node, yaml.MappingNode):
        raise FrontError(
            line_of(front, node.start_mark),
            "the front matter must be lines of `key: value`; without any, don't begin the file with `---`",
        )
    return node


def line_of(front: str, mark: Any) -> int:
    """Return the file's line of a mark; by its index, since YAML knows more line breaks than clew."""
    return front.count("\n", 0, mark.index) + 2


def pairs(
    mapping: yaml.MappingNode, front: str, faults: list[GoalFileFault]
) -> Iterator[tuple[str, yaml.Node]]:
    """Yield each key with its value; one that is no word or is given twice is added to `faults`."""
    seen: set[str] = set()
    for key, value in mapping.value:
        line = line_of(front, key.start_mark)
        if not isinstance(key, yaml.ScalarNode) or not key.value.strip():
            faults.append(GoalFileFault(line, "a key must be a word, as in `priority: 1`"))
        elif key.value in seen:
            faults.append(GoalFileFault(line, f"`{cut(key.value)}` is given twice: keep one"))
        else:
            seen.add(key.value)
            yield key.value, value


def plain_value(node: yaml.Node, path: Path, nodes: dict[Path, yaml.Node]) -> Any:
    """Return what YAML makes of a node: keys are texts, and a scalar without a usable value is an Unusable.

    `nodes` gets the node of every value by its path.
    """
    nodes[path] = node
    if isinstance(node, yaml.MappingNode):
        named = ((key_text(key), value) for key, value in node.value)
        return {key: plain_value(value, (*path, key), nodes) for key, value in named}
    if isinstance(node, yaml.SequenceNode):
        return [plain_value(item, (*path, at), nodes) for at, item in enumerate(node.value)]
    try:
        value = yaml.SafeLoader("").construct_object(node)
    except UNREADABLE:
        return Unusable(node)
    return Unusable(node) if value is None else value


def repeated_key(mapping: yaml.MappingNode) -> yaml.Node | None:
    """Return the first key that an earlier one of the mapping equals, None without one."""
    keys: list[yaml.Node] = [key for key, _ in mapping.value]
    first = dict[str, yaml.Node]()
    return next((key for key in keys if first.setdefault(key_text(key), key) is not key), None)


def key_text(key: yaml.Node) -> str:
    """Return the text of a key, shortened; "?" where it is none."""
    return cut(key.value) if isinstance(key, yaml.ScalarNode) else "?"


def given(node: yaml.Node) -> str:
    """Return a value as messages show it."""
    if isinstance(node, yaml.ScalarNode):
        return f"`{cut(node.value)}`" if node.value else "nothing"
    return "a list" if isinstance(node, yaml.SequenceNode) else "a mapping"
