"""What the bridge must know of a coding agent's command line program, whichever it is.

Pure, and of the standard library alone: a `Cli` says how to start its program, and turns lines of the program's output
(fields of odd JSON, errors, limits that are used up) into the events below. The bridge writes the files, starts the
process and reads its output.
"""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

SERVER = "clew"  # of clew's MCP server in each CLI's config, from which its tools have their names
_TOOLS = "run read write edit list search recall wait done plan ask"
TOOLS = tuple(f"clew_{name}" for name in _TOOLS.split(" "))


@dataclass(frozen=True, slots=True)
class CliOptions:
    """Where a CLI and its relay (a command line) are, all paths absolute; "" of the config is the CLI's own default."""

    program: str
    relay: tuple[str, ...]
    home: str
    model: str = ""
    base_url: str = ""
    key: str = field(default="", repr=False)
    args: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Launch:
    """How to start a CLI for one turn.

    `env` is the complete environment but for PATH, LANG, HOME, TMPDIR and TZ, which the bridge adds; `files` are
    written into the private HOME (path relative to it -> text, mode 0600); `stdin` is its standard input: the prompt
    goes there, since a command line is shown by `ps` and limited in length.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(repr=False)
    files: Mapping[str, str] = field(repr=False)
    stdin: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class SessionStarted:
    """The CLI's own session, by the name under which it can be resumed."""

    id: str


@dataclass(frozen=True, slots=True)
class ToolsOffered:
    """What the CLI offers its model, clew's tools by clew's names; `servers` has the state of each MCP server."""

    names: tuple[str, ...]
    servers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ThoughtReported:
    """Text of the model: what it thinks, or says to the person."""

    text: str


@dataclass(frozen=True, slots=True)
class UsageReported:
    """Tokens used since the last report (`input` includes `cached`), and their cost in US dollars if it is known."""

    input: int
    output: int
    cached: int = 0
    cost_usd: float | None = None

    def __add__(self, other: "UsageReported") -> "UsageReported":
        tokens = self.input + other.input, self.output + other.output, self.cached + other.cached
        return UsageReported(*tokens, (self.cost_usd or 0.0) + (other.cost_usd or 0.0))

    def since(self, before: "UsageReported", cost_usd: float | None = None) -> "UsageReported":
        new, output = max(0, self.input - before.input), max(0, self.output - before.output)
        return UsageReported(new, output, max(0, self.cached - before.cached), cost_usd)


NOTHING_USED = UsageReported(0, 0)


FaultKind = Literal["temporary", "lasting", "login", "session", "limit", "start"]


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of the endpoint or of the CLI, which ends the turn, by what helps.

    `temporary`: another try. `lasting`: a person must fix it (an unknown model, a wrong config). `login`: the
    credentials are missing, wrong or out of date. `session`: the CLI's own session cannot be continued (it is too long,
    or unknown); a new one may work. `limit`: the account's usage limit; another try much later.
    """

    message: str
    kind: FaultKind = "temporary"


@dataclass(frozen=True, slots=True)
class TurnEnded:
    """The end of the CLI's turn, with its last text."""

    message: str = ""


CliEvent = SessionStarted | ToolsOffered | ThoughtReported | UsageReported | Fault | TurnEnded

# ---- what they print


class Fields:
    """One JSON object, whose fields may be of any type."""

    def __init__(self, values: Mapping[str, object]) -> None:
        self._values = values

    @classmethod
    def of_line(cls, line: bytes) -> "Fields":
        """Return the object of a line of JSON, one without fields if it is none."""
        if line.lstrip().startswith(b"{"):
            with suppress(ValueError, RecursionError):
                return cls(json.loads(line))
        return cls({})

    def _of(self, name: str, kind: type, otherwise: Any) -> Any:
        value = self._values.get(name)
        return value if isinstance(value, kind) else otherwise

    def text(self, name: str) -> str:
        return str(self._of(name, str, ""))

    def number(self, name: str) -> float | None:
        """Return a finite number; a boolean is none."""
        value = self._values.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        return value if abs(value) < 1e15 else None

    def count(self, name: str) -> int:
        return max(0, int(self.number(name) or 0))

    def true(self, name: str) -> bool:
        return self._values.get(name) is True

    def object(self, name: str) -> "Fields":
        return Fields(self._of(name, dict, {}))

    def objects(self, name: str) -> "tuple[Fields, ...]":
        return tuple(Fields(item) for item in self._of(name, list, []) if isinstance(item, dict))

    def texts(self, name: str) -> tuple[str, ...]:
        return tuple(item for item in self._of(name, list, []) if isinstance(item, str))


# ---- faults

MESSAGE_CHARS = 500
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")

_SAYS: dict[FaultKind, str] = {
    "session": r"context window|context.{0,20}length|prompt is too long|maximum context|no rollout found"
    r"|no conversation found|session not found|notfounderror.{0,40}session",
    "limit": r"hit your (?:\w+ )?limit|(?:usage|session|weekly|5-hour|hour) limit|usage_limit_reached"
    r"|(?<!rate )limit reached|limit will reset",
    "lasting": r"quota|billing|credit|model.{0,80}(?:not ?found|not exist|not supported|invalid|unknown)"
    r"|(?:issue with the selected|unknown|invalid|unsupported|no such) model|\b40[34]\b|forbidden"
    r"|unknown feature flag|error loading config|unknown (?:option|argument|configuration)|unexpected argument"
    r"|configuration is invalid",
    "login": r"\b401\b|unauthorized|authenticat|not logged in|\blog ?in\b|/login|sign in|api[ _-]key|auth token"
    r"|oauth|access token|refresh token|missing environment variable|credentials",
    "start": r"\bspawn\b.*\bE(?:ACCES|PERM|NOENT|NOEXEC)\b|\bos error (?:2|8|13)\b|permission denied|exec format error"
    r"|cannot (?:execute|find module)|missing .{0,20}dependency|reinstall|shared librar|\bGLIBC",
}
"""How the CLIs say what a fault is: the first kind that fits holds. Each is one line."""


class Cli:
    """One known coding agent; each instance reads the output of one process of it.

    `name` is that in the config, and of its program. `kept` are the folders of its HOME that survive an epoch: its
    session store. `harmless` are tools of its own that cannot be switched off and change nothing.
    """

    name: ClassVar[str]
    kept: ClassVar[tuple[str, ...]]
    harmless: ClassVar[frozenset[str]] = frozenset()
    complains: ClassVar[bool] = True  # whether it says what is wrong in lines that are no events

    def __init__(self, used: UsageReported = NOTHING_USED) -> None:
        self._used = used  # what was reported for the session that it resumes
        self._said = ""

    @staticmethod
    def launch(options: CliOptions, prompt: str, session: str) -> Launch:
        """Return how to start it, in a new session ("") or in its own."""
        raise NotImplementedError

    @classmethod
    def unexpected(cls, offered: ToolsOffered) -> tuple[str, ...]:
        """Return the tools that it offers its model although they are not clew's."""
        return tuple(sorted(set(offered.names) - set(TOOLS) - cls.harmless))

    def feed(self, line: bytes) -> tuple[CliEvent, ...]:
        """Return the events of a line of standard output, or of standard error: some faults are reported only there."""
        event = Fields.of_line(line)
        if not event.text("type") and self.complains:
            text = _COLOUR.sub("", line.decode(errors="replace")).strip()
            reason = text.removeprefix("Error: ")
            return (fault_of(reason),) if reason != text else ()
        return tuple(found for found in self._events(event) if found != NOTHING_USED)

    def _events(self, event: Fields) -> Iterator[CliEvent]:
        raise NotImplementedError


def fault_of(message: str) -> Fault:
    short = " ".join(message.split())[:MESSAGE_CHARS] or "it reported a fault without a reason"
    for kind, says in _SAYS.items():
        if re.search(says, short, re.IGNORECASE):
            return Fault(short, kind)
    return Fault(short, "temporary")
