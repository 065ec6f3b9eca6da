"""The front matter of a goal file: its lines, its values, and all that is wrong with them.

Pure. A small, bounded part of YAML: no aliases, no tags and no deep nesting, so that nothing takes long or grows. Keys
of other tools are named, not refused.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from typing import Any

import yaml
from pydantic import ValidationError

from clew_daemon.inbox.goalfile.keys import Budget, FrontMatter, GoalFileFault, cut
from clew_shared.text.shorten import in_one_line
from clew_shared.text.spelling import closest
from clew_shared.text.validation import requirement

FRONT_CHARS_MAX = 65_536
DEPTH_MAX = 8
KEYS = FrontMatter.model_fields

NULL = "tag:yaml.org,2002:null"
_UNREADABLE = (yaml.YAMLError, ValueError, LookupError, TypeError, OverflowError)
"""What PyYAML raises for values that it takes for numbers, dates and the like but cannot read."""
_UNRECORDABLE = re.compile("[\0\ud800-\udfff]")
"""What only an escape in quotes can make; no path or command can hold it, and the ledger cannot keep it."""

_INVISIBLE = " \t\f\v\u00a0\u200b\u200c\u200d\u2060\ufeff"
_MARKER = re.compile(  # dashes of any kind (two at least, or a long one), as in `--- # note`; `+++`, `===`, `***`, …
    r"(?:[-\u2010-\u2015\u2212] ?){2,}(?:\s*(?:#.*|yaml|yml))?|[\u2014\u2015]|(?:[+=*_;] ?){3,}|\.\.\."
)
_KEY_LINE = re.compile(r"""["']?([A-Za-z_][\w .-]{0,40}?)["']?\s*[:=](?:\s|$|["'\[{0-9])""")
_INSIDE = (" ", "\t", "#", "-", "[", "]", "}")
"""How lines begin that stand between the keys: what is indented, comments, items, brackets."""
_NO_PROSE = ("#", "//", "%", "<!--")
"""How comments and headings begin."""

NodePath = tuple[int | str, ...]  # Where a value is: its key, and the keys or indices below


def split(text: str) -> tuple[str | None, str, int]:
    """Return the front matter (None without), the body, and the body's first line number.

    GoalFileFault where the first line is `---` and no other closes it.
    """
    lines = text.split("\n")
    if lines[0].rstrip() != "---":
        return None, text, 1
    for index, line in enumerate(lines[1:], start=1):
        if line.rstrip() in {"---", "..."}:
            return "\n".join(lines[1:index]), "\n".join(lines[index + 1 :]), index + 2
    raise GoalFileFault(1, "the front matter is not closed: end it with a line `---`")


class _Loader(yaml.SafeLoader):
    """Composes nodes, and refuses what could grow or nest without bound before it makes one of it."""

    _depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        fault, event = "", self.peek_event()  # type: ignore[no-untyped-call] # the stubs lack its type
        is_collection = isinstance(event, yaml.CollectionStartEvent)
        if is_collection and self._depth == DEPTH_MAX:
            fault = f"nested deeper than {DEPTH_MAX} levels: flatten it"
        elif isinstance(event, yaml.AliasEvent):
            fault = "aliases (`*name`) are not supported: write the value out"
        elif getattr(event, "tag", None) is not None:
            fault = "tags (`!name`) are not supported: write the plain value"
        elif isinstance(event, yaml.ScalarEvent) and _UNRECORDABLE.search(event.value):
            fault = "a value contains a NUL or half of a surrogate pair: delete it"
        if fault:
            raise GoalFileFault(_line_of(self.buffer, event.start_mark), fault)
        self._depth += is_collection
        node = super().compose_node(parent, index)
        self._depth -= is_collection
        return node


def composed(front: str) -> yaml.MappingNode | None:
    """Return the front matter as YAML's nodes, None where there are none; raises GoalFileFault."""
    if len(front) > FRONT_CHARS_MAX:
        raise GoalFileFault(
            1, f"the front matter is over {FRONT_CHARS_MAX:,} characters: shorten it"
        )
    invalid = "the front matter is not valid YAML"
    try:
        node = yaml.compose(front, Loader=_Loader)
    except GoalFileFault:
        raise
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = _line_of(front, mark) if mark else None
        raise GoalFileFault(line, f"{invalid}: {error.problem or error}") from None
    except yaml.reader.ReaderError as error:
        line = front.count("\n", 0, error.position) + 2
        raise GoalFileFault(
            line, "the front matter contains a character that YAML forbids"
        ) from None
    except _UNREADABLE as error:
        raise GoalFileFault(1, f"{invalid}: {in_one_line(str(error), 200)}") from None
    if node is None or isinstance(node, yaml.MappingNode):
        return node
    wanted = "lines of `key: value`; without any, don't begin the file with `---`"
    line = _line_of(front, node.start_mark)
    raise GoalFileFault(line, f"the front matter must be {wanted}")


def mapping(values: Mapping[Any, Any]) -> yaml.MappingNode:
    node = yaml.compose(yaml.safe_dump(dict(values)), Loader=yaml.SafeLoader)
    assert isinstance(node, yaml.MappingNode)  # noqa: S101 - a mapping in is a mapping out
    return node


def _line_of(front: str, mark: Any) -> int:
    """Return the file's line of a mark; by its index, since YAML knows more line breaks than clew."""
    return front.count("\n", 0, mark.index) + 2


class Front:
    """What the front matter holds: values by key, their lines, keys that are not clew's, and all that is wrong.

    `agents` are the names that `agent:` may have.
    """

    def __init__(self, front: str, agents: Collection[str]) -> None:
        self._front = front
        self._agents = agents
        self._nodes: dict[NodePath, yaml.Node] = {}
        self.values: dict[str, Any] = {}
        self.lines: dict[str, int] = {}
        self.unknown_keys: dict[str, str] = {}  # with those that they may mean
        self.faults: list[GoalFileFault] = []
        try:
            root = composed(front)
        except GoalFileFault as fault:
            root = None
            self.faults.append(fault)
        for key, node in self._pairs(root) if root else ():
            if key in KEYS:
                self._read(key, node)
            else:
                self._note_unknown(key, KEYS)

    def _pairs(self, mapping: yaml.MappingNode) -> Iterator[tuple[str, yaml.Node]]:
        """Yield each key with its value; one that is no word or is given twice is a fault."""
        seen: set[str] = set()
        for key, value in mapping.value:
            if not isinstance(key, yaml.ScalarNode) or not key.value.strip():
                self._fault(key, "a key must be a word, as in `priority: 1`")
            elif key.value in seen:
                self._fault(key, f"`{cut(key.value)}` is given twice: keep one")
            else:
                seen.add(key.value)
                yield key.value, value

    def _read(self, key: str, node: yaml.Node) -> None:
        """Read the value of one of clew's keys; where YAML can read all of it, the first thing wrong is a fault."""
        self.lines[key] = _line_of(self._front, node.start_mark)
        faults_before, value = len(self.faults), self._plain(node, (key,))
        if len(self.faults) > faults_before:
            return
        try:
            validated = FrontMatter.model_validate({key: value}, context={"agents": self._agents})
        except ValidationError as error:
            details = error.errors()[0]
            path = details["loc"]
            while path not in self._nodes:
                path = path[:-1]
            shown = _given(self._nodes[path])
            sentence = requirement(details, shown, f'"{shown.strip("`")}"')
            self._fault(self._nodes[path], f"`{_dotted(path)}` {sentence}")
        else:
            self.values[key] = getattr(validated, key)
            for name in value if key == "budget" else ():
                if name not in Budget.model_fields:
                    self._note_unknown(name, Budget.model_fields, "budget.")

    def _note_unknown(self, name: str, known: Collection[str], table: str = "") -> None:
        meant = closest(name, known)
        self.unknown_keys[f"{table}{name}"] = f"{table}{meant}" if meant else ""

    def _plain(self, node: yaml.Node, path: NodePath) -> Any:
        """Return what YAML makes of a node, with keys as texts; a scalar without a usable value is a fault."""
        self._nodes[path] = node
        if isinstance(node, yaml.MappingNode):
            return {key: self._plain(value, (*path, key)) for key, value in self._pairs(node)}
        if isinstance(node, yaml.SequenceNode):
            return [self._plain(item, (*path, at)) for at, item in enumerate(node.value)]
        fault = "has no value: write one (in quotes, if it is a word), or delete the line"
        if node.tag != NULL:
            fault = f"has a value that cannot be read: {_given(node)}"
            with suppress(*_UNREADABLE):
                return yaml.SafeLoader("").construct_object(node)
        self._fault(node, f"`{_dotted(path)}` {fault}")
        return None

    def _fault(self, node: yaml.Node, message: str) -> None:
        self.faults.append(GoalFileFault(_line_of(self._front, node.start_mark), message))


def _dotted(path: NodePath) -> str:
    """Return a place as people name it: `budget.tokens`; an item of a list is named by its list."""
    return ".".join(cut(part) for part in path if isinstance(part, str))


def _given(node: yaml.Node) -> str:
    if isinstance(node, yaml.ScalarNode):
        return f"`{cut(node.value)}`" if node.value else "nothing"
    return "a list" if isinstance(node, yaml.SequenceNode) else "a mapping"


# ---- what looks like front matter, but is none: it would be taken for text, and the goal run without its checks


def lookalike(body: str, first_line: int) -> GoalFileFault | None:
    """Return what is wrong where a body begins with what seems meant as front matter.

    That is: before any prose, a line of dashes or the like, then nothing but lines of keys and
    values, of which one at least is a key of clew's or close to one, up to another such line. Or,
    where one of the two lines of dashes is missing: the other one, and first of all a key of clew's.
    """
    began, opened, closed, keys = 0, False, False, list[str]()
    skipped: tuple[str, ...] = (*_NO_PROSE, "```", "~~~")  # the first line may open a block
    for number, whole in enumerate(body[:FRONT_CHARS_MAX].split("\n"), first_line):
        line, plain = whole.strip("\ufeff").rstrip(), whole.strip(_INVISIBLE)
        is_inside = not line or (line.startswith(_INSIDE) and not line.startswith("##"))
        if _MARKER.fullmatch(plain):
            opened, closed = opened or not began, bool(began)
        elif found := _KEY_LINE.match(line):
            keys.append(found[1])
        elif not began and (not plain or plain.startswith(skipped)):
            skipped = _NO_PROSE if plain else skipped
            continue
        elif not is_inside:
            break
        if closed:
            break
        began = began or number
    if opened and closed:
        meant = any(key in KEYS or (key.islower() and closest(key, KEYS)) for key in keys[:100])
    else:
        meant = (opened or closed) and bool(keys) and keys[0] in KEYS
    if not meant:
        return None
    return GoalFileFault(
        began,
        "this looks like front matter, but would not be read: that begins on line 1 with exactly `---`, has lines "
        "of `key: value`, and ends with `---`; if you mean this as text, put a sentence above it",
    )
