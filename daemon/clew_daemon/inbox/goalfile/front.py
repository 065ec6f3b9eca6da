"""The front matter of a goal file: YAML between two `---` lines, read key by key with line numbers.

Pure. Only what a goal needs of YAML is read: no aliases, no tags, no deep nesting, so that nothing
in it can take long or grow. Keys of other tools are named, not refused.
"""

import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from pathlib import PurePosixPath
from typing import Any

import yaml

from clew_daemon.inbox.goalfile.model import Budget, GoalFileFault, shortened
from clew_daemon.record.naming import name_fault
from clew_shared.text.spelling import closest

FRONT_CHARS_MAX = 65_536
DEPTH_MAX = 8
CHECKS_MAX = 100
NUMBER_MAX = 10**12

UNREADABLE = (yaml.YAMLError, ValueError, LookupError, TypeError, OverflowError)
"""What PyYAML raises for values that it takes for numbers, dates and the like but cannot read."""


KEYS_MAX = 100
"""Keys of what looks like front matter that are compared with clew's."""

_INVISIBLE = " \t\f\v\u00a0\u200b\u200c\u200d\u2060\ufeff"
_MARKER = re.compile(  # dashes of any kind (two at least, or a long one), as in `--- # note`; `+++`, `===`, `***`, …
    r"(?:[-\u2010-\u2015\u2212] ?){2,}(?:\s*(?:#.*|yaml|yml))?|[\u2014\u2015]|(?:[+=*_;] ?){3,}|\.\.\."
)
_KEY_LINE = re.compile(r"""["']?([A-Za-z_][\w .-]{0,40}?)["']?\s*[:=](?:\s|$|["'\[{0-9])""")
_INSIDE = (" ", "\t", "#", "-", "[", "]", "}")
"""How lines begin that stand between the keys: what is indented, comments, items, brackets."""
_UNRECORDABLE = re.compile("[\0\ud800-\udfff]")
"""What only an escape in quotes can make; no path or command can hold it, and the ledger cannot keep it."""
_FENCES = ("```", "~~~")
NULL = "tag:yaml.org,2002:null"
_NO_PROSE = ("#", "//", "%", *_FENCES)
"""How comments, headings and the opening line of a fenced block begin."""


@dataclass
class Front:
    """What the front matter gave: values by key, where they are, keys that are not clew's, and what is wrong."""

    values: dict[str, Any] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    unknown_keys: list[str] = field(default_factory=list)
    suggestions: dict[str, str] = field(default_factory=dict)
    faults: list[GoalFileFault] = field(default_factory=list)


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
        meant = (opened or closed) and bool(keys) and keys[0] in READERS
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
    return key in READERS or (key.islower() and closest(key, READERS) is not None)


def _wrong(lines: list[str], start: int, first_line: int) -> str:
    """Say why the line at `start`, where front matter seems to begin, does not begin it."""
    line = lines[start]
    if not _is_marker(line):
        return "the `---` above it is missing"
    if line.strip(_INVISIBLE) != "---":
        return f"it begins with `{_cut(line.strip(_INVISIBLE))}`"
    if line.rstrip() != "---":
        return "there is a space or an invisible character at its `---`"
    if first_line > 1:
        return "there is front matter above it already"
    if "".join(lines[:start]).strip(_INVISIBLE):
        return "there are other lines above it"
    return "there is an empty line above it"


def read(front: str, agents: Collection[str]) -> Front:
    """Read the front matter; `agents` are the names that `agent:` may have. Never raises."""
    found = Front()
    try:
        root = composed(front)
    except FrontError as error:
        found.faults.append(error.fault)
        return found
    if root is not None:
        for key, node in _pairs(root, front, found):
            _read_key(key, node, front, agents, found)
    return found


class _WrongError(ValueError):
    """A value that the key cannot have; `node` is where it stands."""

    def __init__(self, node: yaml.Node, message: str) -> None:
        super().__init__(message)
        self.node = node


class FrontError(Exception):
    """The front matter as a whole cannot be read; `fault` says why and on which line."""

    def __init__(self, line: int | None, message: str) -> None:
        super().__init__(message)
        self.fault = GoalFileFault(line, message)


def _line(front: str, mark: Any) -> int:
    """Return the file's line of a mark; by its index, for YAML knows more line breaks than we."""
    return front.count("\n", 0, mark.index) + 2


def composed(front: str) -> yaml.MappingNode | None:
    """Return the front matter as YAML's nodes, None where there are none; raises FrontError."""
    if len(front) > FRONT_CHARS_MAX:
        raise FrontError(1, f"the front matter is over {FRONT_CHARS_MAX:,} characters: shorten it")
    try:
        _check_events(front)
        node = yaml.compose(front, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = _line(front, mark) if mark else None
        raise FrontError(line, f"the front matter is not valid YAML: {error.problem}") from None
    except yaml.reader.ReaderError as error:
        line = front.count("\n", 0, error.position) + 2
        raise FrontError(line, "the front matter contains a character that YAML forbids") from None
    except (*UNREADABLE, RecursionError) as error:
        raise FrontError(
            1, f"the front matter is not valid YAML: {shortened(str(error), 200)}"
        ) from None
    if node is None:
        return None
    if not isinstance(node, yaml.MappingNode):
        raise FrontError(
            _line(front, node.start_mark),
            "the front matter must be lines of `key: value`; without any, don't begin the file with `---`",
        )
    return node


def _check_events(front: str) -> None:
    """Refuse, before anything is built, what could grow or nest without bound."""
    depth = 0
    for event in yaml.parse(front, Loader=yaml.SafeLoader):
        line = _line(front, event.start_mark)
        if isinstance(event, yaml.AliasEvent):
            raise FrontError(line, "aliases (`*name`) are not supported: write the value out")
        if isinstance(event, yaml.ScalarEvent) and _UNRECORDABLE.search(event.value):
            raise FrontError(line, "a value contains a NUL or half of a surrogate pair: delete it")
        if getattr(event, "tag", None) is not None:
            raise FrontError(line, "tags (`!name`) are not supported: write the plain value")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > DEPTH_MAX:
            raise FrontError(line, f"nested deeper than {DEPTH_MAX} levels: flatten it")


def _pairs(mapping: yaml.MappingNode, front: str, found: Front) -> Iterator[tuple[str, yaml.Node]]:
    """Yield key and value; a key given twice is a fault."""
    seen: set[str] = set()
    for key, value in mapping.value:
        line = _line(front, key.start_mark)
        if not isinstance(key, yaml.ScalarNode) or not key.value.strip():
            found.faults.append(GoalFileFault(line, "a key must be a word, as in `priority: 1`"))
        elif key.value in seen:
            found.faults.append(
                GoalFileFault(line, f"`{_cut(key.value)}` is given twice: keep one")
            )
        else:
            seen.add(key.value)
            yield key.value, value


def _read_key(key: str, node: yaml.Node, front: str, agents: Collection[str], found: Front) -> None:
    if key not in READERS:
        found.unknown_keys.append(key)
        meant = closest(key, READERS)
        if meant is not None:
            found.suggestions[key] = meant
        return
    found.lines[key] = _line(front, node.start_mark)
    try:
        _refuse_nothing(node)
        value = READERS[key](node)
        if key == "agent":
            _known_agent(node, value, agents)
        found.values[key] = value
        if key == "budget" and isinstance(node, yaml.MappingNode):
            _note_unknown_budget(node, found)
    except _WrongError as error:
        line = _line(front, error.node.start_mark)
        found.faults.append(GoalFileFault(line, f"`{key}` {error}"))


def _refuse_nothing(node: yaml.Node) -> None:
    """Raise _WrongError for a value that YAML reads as null: it would silently be the default."""
    if not isinstance(node, yaml.ScalarNode) or node.tag != NULL:
        return
    if not node.value:
        raise _WrongError(node, "has no value: write one, or delete the line")
    raise _WrongError(
        node,
        f'is `{node.value}`, which YAML reads as no value: put it in quotes ("{node.value}") if you mean it, '
        "or delete the line",
    )


def _value(node: yaml.Node) -> Any:
    """Return what YAML makes of the node; an error in words where it cannot."""
    try:
        return yaml.SafeLoader("").construct_object(node, deep=True)
    except UNREADABLE:
        raise _WrongError(node, f"has a value that cannot be read: {_given(node)}") from None


def _given(node: yaml.Node) -> str:
    if isinstance(node, yaml.ScalarNode):
        return f"`{_cut(node.value)}`" if node.value else "nothing"
    return "a list" if isinstance(node, yaml.SequenceNode) else "a mapping"


def _cut(text: str) -> str:
    return shortened(text, 60)


def _text(node: yaml.Node) -> str:
    value = _value(node)
    if isinstance(value, str) and value.strip():
        return value.strip()
    if isinstance(node, yaml.ScalarNode) and node.value.strip():
        raise _WrongError(node, f'must be text; quote it: "{_cut(node.value)}"')
    raise _WrongError(node, f"must be text, not {_given(node)}")


def _whole(node: yaml.Node, least: int) -> int:
    value = _value(node)
    if type(value) is not int:  # a bool is an int too, and never meant as one here
        raise _WrongError(node, f"must be a whole number, not {_given(node)}")
    if not least <= value <= NUMBER_MAX:
        raise _WrongError(node, f"must be from {least:,} to {NUMBER_MAX:,}, not {_given(node)}")
    return value


def _seconds(node: yaml.Node) -> float:
    value = _value(node)
    if type(value) not in {int, float}:
        raise _WrongError(node, f"must be a number of seconds, not {_given(node)}")
    if not 0 < value <= NUMBER_MAX:
        raise _WrongError(node, f"must be a number of seconds above 0, not {_given(node)}")
    return float(value)


def _name(node: yaml.Node) -> str:
    value = _text(node)
    if fault := name_fault(value):
        raise _WrongError(node, f"{fault}: {_given(node)}")
    return value


def _workspace(node: yaml.Node) -> str:
    value = _text(node)
    if value == "~" or value.startswith("~/"):
        return value
    if not PurePosixPath(value).is_absolute():
        raise _WrongError(node, f"must be an absolute path or begin with ~/, not {_given(node)}")
    return value


def _checks(node: yaml.Node) -> dict[str, str]:
    if isinstance(node, yaml.MappingNode):
        named = {_check_name(key): _command(value) for key, value in node.value}
        if len(named) != len(node.value):
            raise _WrongError(node, "must have a different name for each check")
    elif isinstance(node, yaml.SequenceNode):
        named = {f"check_{n}": _command(value) for n, value in enumerate(node.value, start=1)}
    else:
        named = {"check_1": _text(node)}
    if not named:
        raise _WrongError(
            node,
            "is empty: write lines of `name: command`, or delete the line for a goal without checks",
        )
    if len(named) > CHECKS_MAX:
        raise _WrongError(node, f"must be at most {CHECKS_MAX}, not {len(named)}")
    return named


def _check_name(key: yaml.Node) -> str:
    if not isinstance(key, yaml.ScalarNode) or not key.value.strip():
        raise _WrongError(key, "must be lines of `name: command`")
    return _cut(key.value)


def _command(node: yaml.Node) -> str:
    if isinstance(node, yaml.ScalarNode) and node.tag == NULL:
        raise _WrongError(node, "has a check without a command: write lines of `name: command`")
    if not isinstance(node, yaml.ScalarNode):
        raise _WrongError(node, f"must be lines of `name: command`, not {_given(node)} as command")
    try:
        return _text(node)
    except _WrongError as error:
        raise _WrongError(node, f"has a command that {error}") from None


def _budget(node: yaml.Node) -> Budget:
    if not isinstance(node, yaml.MappingNode):
        raise _WrongError(
            node, f"must be like {{tokens: 200000, wall_s: 3600}}, not {_given(node)}"
        )
    given: dict[str, Any] = {}
    for key, value in node.value:
        name = key.value if isinstance(key, yaml.ScalarNode) else ""
        if name not in Budget.model_fields:
            continue
        try:
            _refuse_nothing(value)
            given[name] = _whole(value, 1) if name == "tokens" else _seconds(value)
        except _WrongError as error:
            raise _WrongError(error.node, f"has a `{name}` that {error}") from None
    return Budget(**given)


def _note_unknown_budget(node: yaml.MappingNode, found: Front) -> None:
    for key, _value_node in node.value:
        name = str(key.value) if isinstance(key, yaml.ScalarNode) else "?"
        if name not in Budget.model_fields:
            found.unknown_keys.append(f"budget.{name}")
            meant = closest(name, Budget.model_fields)
            if meant is not None:
                found.suggestions[f"budget.{name}"] = f"budget.{meant}"


def _moment(node: yaml.Node) -> datetime:
    """Return the moment in UTC; one without a zone is taken as UTC, a date as its first moment."""
    value = _value(node)
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else value
        if isinstance(moment, date) and not isinstance(moment, datetime):
            moment = datetime.combine(moment, time())
        if isinstance(moment, datetime):
            return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        pass
    raise _WrongError(node, f"must be a time like 2026-12-01T06:00:00Z, not {_given(node)}")


def _goals(node: yaml.Node) -> tuple[str, ...]:
    if not isinstance(node, yaml.SequenceNode):
        return (_text(node),)
    for item in node.value:
        if not isinstance(item, yaml.ScalarNode) or item.tag == NULL:
            raise _WrongError(item, "must be a list of names or ids of goals, like [other]")
    return tuple(dict.fromkeys(_text(item) for item in node.value))


def _on_interrupt(node: yaml.Node) -> str:
    value = _text(node)
    if value not in {"retry", "ask"}:
        raise _WrongError(node, f"must be retry or ask, not {_given(node)}")
    return value


def _known_agent(node: yaml.Node, name: str, agents: Collection[str]) -> None:
    if name in agents:
        return
    meant = closest(name, agents)
    question = f" (did you mean {meant}?)" if meant else ""
    known = ", ".join(sorted(agents)) or "none"
    raise _WrongError(
        node,
        f"names an unknown agent `{_cut(name)}`{question}; available: {known}; "
        "if you have just added it: clew reload",
    )


READERS: dict[str, Callable[[yaml.Node], Any]] = {
    "name": _name,
    "workspace": _workspace,
    "agent": _text,
    "checks": _checks,
    "priority": lambda node: _whole(node, -NUMBER_MAX),
    "max_iterations": lambda node: _whole(node, 1),
    "budget": _budget,
    "not_before": _moment,
    "depends_on": _goals,
    "on_interrupt": _on_interrupt,
}
"""The keys of contract section 3, and how each is read."""
