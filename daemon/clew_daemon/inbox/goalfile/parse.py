"""Goal files: bytes in, a goal or all its errors out (docs/goal-files.md).

`parse` is pure: no clock is read, the config's agents come in as names, and the caller says where a workspace is (by
`located`). Whatever the bytes are, it returns a goal or raises GoalFileError, in bounded time.
"""

import re
import unicodedata
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from clew_daemon.inbox.goalfile.body import Body
from clew_daemon.inbox.goalfile.keys import (
    Budget,
    FrontMatter,
    GoalFile,
    GoalFileError,
    GoalFileFault,
    cut,
)
from clew_shared.record.spec import PlannedTask
from clew_shared.text.shorten import in_one_line
from clew_shared.text.spelling import closest
from clew_shared.text.validation import requirement

BYTES_MAX = 1024 * 1024
SLUG_CHARS_MAX, SLUG_WORDS = 40, 3
_LATIN = re.compile(r"LATIN SMALL (?:LETTER|LIGATURE) ([A-Z]{1,2})(?: WITH .+)?")
# Words that say nothing in an id.
FILLERS = (
    " a an the and or of to in into on at by for from with without that this it its is are be "
    "as so then please my our your i we you they where when which what how who about "
)


def parse(
    raw: bytes, name: str, agents: Collection[str], *, located: Callable[[str], Path] | None = None
) -> GoalFile:
    """Read a goal file; `name` is what errors call it, `agents` what `agent:` may be.

    `located` gives the folder that a `workspace:` means, or raises ValueError with the reason why no goal may work
    there. Raises GoalFileError, and nothing else, with all errors at once.
    """
    try:
        front, body_text, body_line = split(decoded(raw))
    except GoalFileFault as fault:
        raise GoalFileError(name, [fault]) from None
    head = Front(front or "", agents)
    body = Body(body_text, body_line)
    faults = [*head.faults, *body.faults]
    if body.without_check and not head.values.get("checks"):
        faults.append(body.without_check)
    if alike := lookalike(body_text, body_line):
        faults.append(alike)
    if not body_text.strip():
        empty = "the file has no goal: write below the front matter what to do"
        faults.append(GoalFileFault(None, empty))
    if located and "workspace" in head.values:
        try:
            head.values["folder"] = located(head.values["workspace"])
        except ValueError as error:
            faults.append(GoalFileFault(head.lines["workspace"], f"`workspace` {error}"))
    if faults:
        raise GoalFileError(name, faults)
    checks = head.values.setdefault("checks", {})
    for command in dict.fromkeys(body.commands):  # done_1, done_2, … where these are free
        free = (f"done_{number}" for number in count(1) if f"done_{number}" not in checks)
        checks[next(free)] = command
    return GoalFile(
        description=body.description, notes=body.notes, done_when=body.done_when,
        tasks=tuple(body.tasks), lines=head.lines, unknown_keys=head.unknown_keys, **head.values,
    )  # fmt: skip


def tasks_of(raw: bytes) -> tuple[PlannedTask, ...]:
    """Return only the tasks of a goal file that was accepted before, whatever its front matter names today."""
    text = re.sub(r"\r\n?", "\n", raw.decode("utf-8-sig", "replace"))
    _, body, line = split(text)
    return tuple(Body(body, line).tasks)


def goal_id(description: str, token: str, name: str = "") -> str:
    """Return the goal's name, or the first words of its description, and `token`: `[a-z0-9-]+`, `goal-7f3a` without."""
    slug = re.sub(r"[^a-z0-9]+", "-", name).strip("-")
    if not slug:
        folded = unicodedata.normalize("NFKD", description[:1000]).casefold()
        words = re.findall(r"[a-z0-9]+", "".join(map(_in_ascii, folded)))
        telling = [word for word in words if f" {word} " not in FILLERS] or words
        slug = "-".join(telling[:SLUG_WORDS])[:SLUG_CHARS_MAX].rstrip("-") or "goal"
    return f"{slug}-{token}"


def _in_ascii(char: str) -> str:
    """Return a Latin letter without its stroke, a ligature as its letters; "" for an accent, or another script."""
    found = _LATIN.fullmatch(unicodedata.name(char, ""))
    return char if char.isascii() else found[1].lower() if found else ""


def decoded(raw: bytes) -> str:
    """Return the text, with Unix line ends and without a byte order mark; GoalFileFault where it is none."""
    if len(raw) > BYTES_MAX:
        message = f"the file is too long; a goal file may have at most {BYTES_MAX:,} bytes"
        raise GoalFileFault(None, message)
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        message = f"the file is not UTF-8 (at byte {error.start:,}): save it as UTF-8"
        raise GoalFileFault(raw.count(b"\n", 0, error.start) + 1, message) from None
    before, nul, _ = text.partition("\0")
    if nul:
        message = "the file contains a NUL byte: it is not text"
        raise GoalFileFault(before.count("\n") + 1, message)
    if not text.strip():
        raise GoalFileFault(None, "the file is empty: write what to do")
    return re.sub(r"\r\n?", "\n", text)


# -- the front matter: its lines, its values, and all that is wrong with them
#
# A small, bounded part of YAML: no aliases, no tags and no deep nesting, so that nothing takes long or grows. Keys of
# other tools are named, not refused.

FRONT_CHARS_MAX = 65_536
DEPTH_MAX = 8
KEYS = FrontMatter.model_fields

NULL = "tag:yaml.org,2002:null"
# What PyYAML raises for values that it takes for numbers, dates and the like but cannot read.
_UNREADABLE = (yaml.YAMLError, ValueError, LookupError, TypeError, OverflowError)
_UNRECORDABLE = re.compile("[\0\ud800-\udfff]")  # only an escape in quotes can make it

_INVISIBLE = " \t\f\v\u00a0\u200b\u200c\u200d\u2060\ufeff"
_MARKER = re.compile(  # dashes of any kind (two at least, or a long one), as in `--- # note`; `+++`, `===`, `***`, …
    r"(?:[-\u2010-\u2015\u2212] ?){2,}(?:\s*(?:#.*|yaml|yml))?|[\u2014\u2015]|(?:[+=*_;] ?){3,}|\.\.\."
)
_KEY_LINE = re.compile(r"""["']?([A-Za-z_][\w .-]{0,40}?)["']?\s*[:=](?:\s|$|["'\[{0-9])""")
_INSIDE = (" ", "\t", "#", "-", "[", "]", "}")  # how lines begin that stand between the keys
_NO_PROSE = ("#", "//", "%", "<!--")  # how comments and headings begin

NodePath = tuple[int | str, ...]  # Where a value is: its key, and the keys or indices below


def split(text: str) -> tuple[str | None, str, int]:
    """Return front matter (None without), body, and the body's first line; GoalFileFault where it is not closed."""
    lines = text.split("\n")
    if lines[0].rstrip() != "---":
        return None, text, 1
    for index, line in enumerate(lines[1:], start=1):
        if line.rstrip() in {"---", "..."}:
            return "\n".join(lines[1:index]), "\n".join(lines[index + 1 :]), index + 2
    raise GoalFileFault(1, "the front matter is not closed: end it with a line `---`")


def composed(front: str) -> yaml.MappingNode | None:
    """Return the front matter as YAML's nodes, None where there are none; raises GoalFileFault."""
    if len(front) > FRONT_CHARS_MAX:
        too_long = f"the front matter is over {FRONT_CHARS_MAX:,} characters: shorten it"
        raise GoalFileFault(1, too_long)
    line, invalid = 1, "the front matter is not valid YAML"
    try:
        _refuse_unbounded(front)
        node = yaml.compose(front, Loader=yaml.SafeLoader)
    except GoalFileFault:
        raise
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = _line_of(front, mark) if mark else line
        fault = f"{invalid}: {error.problem or error}"
    except yaml.reader.ReaderError as error:
        line = front.count("\n", 0, error.position) + 2
        fault = "the front matter contains a character that YAML forbids"
    except _UNREADABLE as error:
        fault = f"{invalid}: {in_one_line(str(error), 200)}"
    else:
        if node is None or isinstance(node, yaml.MappingNode):
            return node
        wanted = "lines of `key: value`; without any, don't begin the file with `---`"
        line, fault = _line_of(front, node.start_mark), f"the front matter must be {wanted}"
    raise GoalFileFault(line, fault)


def _refuse_unbounded(front: str) -> None:
    """Raise GoalFileFault for what could grow or nest without bound, or that no record can hold."""
    depth = 0
    for event in yaml.parse(front, Loader=yaml.SafeLoader):
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        fault = ""
        if depth > DEPTH_MAX:
            fault = f"nested deeper than {DEPTH_MAX} levels: flatten it"
        elif isinstance(event, yaml.AliasEvent):
            fault = "aliases (`*name`) are not supported: write the value out"
        elif getattr(event, "tag", None) is not None:
            fault = "tags (`!name`) are not supported: write the plain value"
        elif isinstance(event, yaml.ScalarEvent) and _UNRECORDABLE.search(event.value):
            fault = "a value contains a NUL or half of a surrogate pair: delete it"
        if fault:
            raise GoalFileFault(_line_of(front, event.start_mark), fault)


def mapping(values: Mapping[Any, Any]) -> yaml.MappingNode:
    node = yaml.compose(yaml.safe_dump(dict(values)), Loader=yaml.SafeLoader)
    assert isinstance(node, yaml.MappingNode)  # noqa: S101 - a mapping in is a mapping out
    return node


def _line_of(front: str, mark: Any) -> int:
    """Return the file's line of a mark; by its index, since YAML knows more line breaks than clew."""
    return front.count("\n", 0, mark.index) + 2


class Front:
    """What the front matter holds, and all that is wrong; `agents` are the names that `agent:` may have."""

    def __init__(self, front: str, agents: Collection[str]) -> None:
        self._front = front
        self._nodes: dict[NodePath, yaml.Node] = {}
        self.values: dict[str, Any] = {}
        self.unknown_keys: dict[str, str] = {}  # with those that they may mean
        self.faults: list[GoalFileFault] = []
        try:
            root = composed(front)
        except GoalFileFault as fault:
            root = None
            self.faults.append(fault)
        for key, node in self._pairs(root) if root else ():
            if key in KEYS:
                self._read(key, node, {"agents": agents})
            else:
                self.unknown_keys[key] = closest(key, KEYS) or ""

    @property
    def lines(self) -> dict[str, int]:
        """The line of each of clew's keys."""
        keys = {path[0]: node for path, node in self._nodes.items() if len(path) == 1}
        return {str(key): _line_of(self._front, node.start_mark) for key, node in keys.items()}

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

    def _read(self, key: str, node: yaml.Node, context: dict[str, Collection[str]]) -> None:
        """Read the value of one of clew's keys; where YAML can read all of it, the first thing wrong is a fault."""
        faults_before, value = len(self.faults), self._plain(node, (key,))
        if len(self.faults) > faults_before:
            return
        try:
            validated = FrontMatter.model_validate({key: value}, context=context)
        except ValidationError as error:
            details = error.errors()[0]
            path = details["loc"]
            while path not in self._nodes:
                path = path[:-1]
            shown = _given(self._nodes[path])
            sentence = requirement(details, shown, f'"{shown.strip("`")}"')
            self._fault(self._nodes[path], f"`{_dotted(path)}` {sentence}")
            return
        self.values[key] = getattr(validated, key)
        for name in sorted(value.keys() - Budget.model_fields) if key == "budget" else ():
            meant = closest(name, Budget.model_fields)
            self.unknown_keys[f"budget.{name}"] = f"budget.{meant}" if meant else ""

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

    That is: before any prose, a line of dashes or the like, then only keys and values, one at least of clew's or close
    to one, up to another such line. Or, where one of the two is missing: the other, and first a key of clew's.
    """
    began, opened, closed, keys = 0, False, False, list[str]()
    skipped: tuple[str, ...] = (*_NO_PROSE, "```", "~~~")  # the first line may open a block
    for number, whole in enumerate(body[:FRONT_CHARS_MAX].split("\n"), first_line):
        line, plain = whole.strip("\ufeff").rstrip(), whole.strip(_INVISIBLE)
        if _MARKER.fullmatch(plain):
            opened, closed = opened or not began, began > 0
        elif found := _KEY_LINE.match(line):
            keys.append(found[1])
        elif not began and (not plain or plain.startswith(skipped)):
            skipped = _NO_PROSE if plain else skipped
            continue
        elif line and (not line.startswith(_INSIDE) or line.startswith("##")):
            break
        if closed:
            break
        began = began or number
    is_whole = opened and closed
    meant = KEYS.keys() & (keys if is_whole else keys[:1])
    near = is_whole and any(key.islower() and closest(key, KEYS) for key in keys[:100])
    if not (opened or closed) or not (meant or near):
        return None
    return GoalFileFault(
        began,
        "this looks like front matter, but would not be read: that begins on line 1 with exactly `---`, has lines "
        "of `key: value`, and ends with `---`; if you mean this as text, put a sentence above it",
    )
