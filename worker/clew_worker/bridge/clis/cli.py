"""What the bridge must know of a coding agent's command line program, whichever it is.

Pure, and of the standard library alone: a `Cli` says how to start its program, and its `EventReader` turns lines of the
program's output (fields of odd JSON, errors, limits that are used up) into the events below. The bridge writes the
files, starts the process and reads its output.
"""

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

SERVER = "clew"
"""The name of clew's MCP server in each CLI's config; the CLIs derive the names of its tools from it."""

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
        """Return what was used since an earlier sum."""
        new, output = max(0, self.input - before.input), max(0, self.output - before.output)
        return UsageReported(new, output, max(0, self.cached - before.cached), cost_usd)


NOTHING_USED = UsageReported(0, 0)


FaultKind = Literal["temporary", "lasting", "login", "session", "limit"]


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of the endpoint or of the CLI, by what helps.

    `temporary`: another try. `lasting`: a person must fix it (an unknown model, a wrong config). `login`: the
    credentials are missing, wrong or out of date. `session`: the CLI's own session cannot be continued (it is too long,
    or unknown); a new one may work. `limit`: the account's usage limit; no more answers until `resets_at` (seconds
    since the epoch), if it names a time.
    """

    message: str
    kind: FaultKind = "temporary"
    resets_at: float | None = None


@dataclass(frozen=True, slots=True)
class TurnEnded:
    """The end of the CLI's turn: its last text, or with `ok` false the reason."""

    ok: bool
    message: str = ""


CliEvent = SessionStarted | ToolsOffered | ThoughtReported | UsageReported | Fault | TurnEnded
Events = tuple[CliEvent, ...]


@dataclass(frozen=True, slots=True)
class Cli:
    """One known coding agent.

    `name` is that in the config, and of its program. `kept` are the folders of its HOME that survive an epoch: its
    session store. `launch(options, prompt, session)` returns how to start it, in a new session ("") or in its own.
    `reader(used)` returns a reader for the output of one process, given what was reported for the session that it
    resumes. `harmless` are tools of its own that cannot be switched off and change nothing.
    """

    name: str
    kept: tuple[str, ...]
    launch: Callable[[CliOptions, str, str], Launch]
    reader: "type[EventReader]"
    harmless: frozenset[str] = frozenset()


def unexpected_tools(cli: Cli, offered: ToolsOffered) -> tuple[str, ...]:
    """Return the tools that the CLI offers its model although they are not clew's."""
    return tuple(sorted(set(offered.names) - set(TOOLS) - cli.harmless))


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


# ---- when a usage limit ends, by the sentence in which a CLI says so
#
# Codex: "try again at 12:51 PM.", "try again at Nov 28th, 2026 10:51 AM.", earlier "try again in 2 days 17 hours".
# Claude Code: "resets 4pm (UTC)", "resets Nov 28, 4:30pm (UTC)". opencode: "will reset in 5 days 10 hours".
# A time of day is in UTC: the CLIs are started with TZ=UTC.

AHEAD_MAX_S = 32 * 86_400.0
"""A later time is not believed."""

_UNIT_S = {"day": 86_400, "hour": 3_600, "min": 60, "sec": 1}
_PART = re.compile(r"(\d{1,6})\s*(day|hour|min|sec)(?:ute|ond)?s?\b", re.IGNORECASE)
_IN = re.compile(r"\b(?:again|resets?)\s+in\s+([^.;]{1,80})", re.IGNORECASE)
_AT = re.compile(
    r"\b(?:again at|resets?(?: at)?)\s+"
    r"(?:(?P<month>[A-Z][a-z]{2})[a-z]*\.? (?P<day>\d{1,2})(?:st|nd|rd|th)?,?\s*(?:(?P<year>\d{4}),?\s*)?(?:at )?)?"
    r"(?P<hour>\d{1,2})(?::(?P<minute>\d{2}))?\s*(?P<half>[ap]m)",
    re.IGNORECASE,
)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")


def reset_time(text: str, now: float) -> float | None:
    """Return the time that a text names (seconds since the epoch), None if it names none in the next 32 days."""
    found, duration = _AT.search(text), _IN.search(text)
    parts = _PART.findall(duration[1]) if duration else []
    at = -1.0
    with suppress(ValueError, OverflowError):
        if found:
            at = _clock_time(found, now)
        elif parts:
            at = now + sum(int(n) * _UNIT_S[unit.lower()] for n, unit in parts)
    return at if now <= at <= now + AHEAD_MAX_S else None


def _clock_time(found: re.Match[str], now: float) -> float:
    here = datetime.fromtimestamp(now, UTC)
    hour = int(found["hour"]) % 12 + (12 if found["half"].lower() == "pm" else 0)
    at = here.replace(hour=hour, minute=int(found["minute"] or 0), second=0, microsecond=0)
    if not found["month"]:
        return (at if at >= here - timedelta(minutes=1) else at + timedelta(days=1)).timestamp()
    month = _MONTHS.index(found["month"].lower()) + 1
    at = at.replace(year=int(found["year"] or here.year), month=month, day=int(found["day"]))
    if not found["year"] and at < here - timedelta(days=1):
        at = at.replace(year=here.year + 1)
    return at.timestamp()


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
}
"""How the CLIs say what a fault is: the first kind that fits holds. Each is one line."""


def failed(found: Fault) -> Events:
    """Return a fault and the end of the turn by it."""
    return (found, TurnEnded(ok=False, message=found.message))


class EventReader:
    """Reads the output of one process; `used` is what was reported for the session that it resumes."""

    _complains = True  # in plain lines

    def __init__(
        self, used: UsageReported = NOTHING_USED, clock: Callable[[], float] = time.time
    ) -> None:
        self._used = used
        self._clock = clock
        self._said = ""

    def feed(self, line: bytes) -> Events:
        """Return the events of a line of standard output, or of standard error: some faults are reported only there."""
        event = Fields.of_line(line)
        if self._complains and not event.text("type"):
            return self._complaint(line)
        return tuple(found for found in self._events(event) if found != NOTHING_USED)

    def _events(self, event: Fields) -> Iterator[CliEvent]:
        raise NotImplementedError

    def _fault(self, message: str) -> Fault:
        short = " ".join(message.split())[:MESSAGE_CHARS] or "it reported a fault without a reason"
        fits: list[FaultKind] = [
            one for one, says in _SAYS.items() if re.search(says, short, re.IGNORECASE)
        ]
        kind = fits[0] if fits else "temporary"
        return Fault(short, kind, reset_time(short, self._clock()) if kind == "limit" else None)

    def _complaint(self, line: bytes) -> Events:
        text = _COLOUR.sub("", line.decode(errors="replace")).strip()
        reason = text.removeprefix("Error: ")
        return failed(self._fault(reason)) if reason != text else ()
