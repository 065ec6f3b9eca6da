"""What the bridge must know of a coding agent's command line program, whichever it is.

Pure, and of the standard library alone: a `Cli` says how to start its program, and its `EventReader` turns lines of the
program's output into the events below. The bridge writes the files, starts the process and reads its output.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

SERVER = "clew"
"""The name of clew's MCP server in each CLI's config; the CLIs derive the names of its tools from it."""

_TOOLS = "run read write edit list search recall wait done plan ask"
TOOLS = tuple(f"clew_{name}" for name in _TOOLS.split(" "))


@dataclass(frozen=True, slots=True)
class CliOptions:
    """What the config says of an agent; empty texts stand for the CLI's own defaults.

    `program` is an absolute path; `key` is the value of the key for `base_url`.
    """

    program: str
    model: str = ""
    base_url: str = ""
    key: str = field(default="", repr=False)
    args: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Launch:
    """How to start a CLI for one turn.

    `env` is the complete environment but for PATH, LANG and TMPDIR, which the bridge adds; `files` are written into the
    private HOME (path relative to it -> text, mode 0600); `stdin` is written to its standard input, which is then
    closed: the prompt goes there, since a command line is shown by `ps` and limited in length.
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
    """What the CLI offers its model: clew's tools by clew's names, all others by their own.

    `servers` has the state of each MCP server, "connected" if it works.
    """

    names: tuple[str, ...]
    servers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ThoughtReported:
    """Text of the model: what it thinks, or says to the person."""

    text: str


@dataclass(frozen=True, slots=True)
class UsageReported:
    """Tokens used since the report before, and their cost in US dollars where the CLI knows it.

    `input` includes `cached`, the part that the endpoint had in its cache.
    """

    input: int
    output: int
    cached: int = 0
    cost_usd: float | None = None

    def __add__(self, other: "UsageReported") -> "UsageReported":
        return UsageReported(
            self.input + other.input,
            self.output + other.output,
            self.cached + other.cached,
            (self.cost_usd or 0.0) + (other.cost_usd or 0.0),
        )

    def since(self, before: "UsageReported", cost_usd: float | None = None) -> "UsageReported":
        """Return what was used since an earlier sum."""
        return UsageReported(
            max(0, self.input - before.input),
            max(0, self.output - before.output),
            max(0, self.cached - before.cached),
            cost_usd,
        )


NOTHING_USED = UsageReported(0, 0)


@dataclass(frozen=True, slots=True)
class LimitReached:
    """The account's usage limit: no more answers until `resets_at` (seconds since the epoch), if it names a time."""

    message: str
    resets_at: float | None = None


@dataclass(frozen=True, slots=True)
class LoginNeeded:
    """The credentials are missing, wrong or out of date."""

    message: str


@dataclass(frozen=True, slots=True)
class FaultReported:
    """A fault of the endpoint or of the CLI; a temporary one if nothing else is set.

    `lasting`: a person must fix it (an unknown model, a wrong config). `session_over`: the CLI's own session cannot be
    continued (it is too long, or unknown); a new one may work.
    """

    message: str
    lasting: bool = False
    session_over: bool = False


@dataclass(frozen=True, slots=True)
class TurnEnded:
    """The end of the CLI's turn: its last text, or with `ok` false the reason."""

    ok: bool
    message: str = ""


Fault = FaultReported | LimitReached | LoginNeeded
CliEvent = SessionStarted | ToolsOffered | ThoughtReported | UsageReported | Fault | TurnEnded
Events = tuple[CliEvent, ...]


class EventReader(Protocol):
    """Reads the output of one process; it remembers what it needs for the next line."""

    def feed(self, line: bytes) -> Events:
        """Return the events of one line of output, none for a line of unknown form.

        Lines of standard error may be fed too: some faults are reported only there.
        """
        ...


Launcher = Callable[[CliOptions, tuple[str, ...], str, str, str], Launch]


@dataclass(frozen=True, slots=True)
class Cli:
    """One known coding agent.

    `name` is that in the config, and of its program. `kept` are the folders of its HOME that survive an epoch: its
    session store. `launch(options, relay, home, prompt, session)` returns how to start it, in a new session ("") or in
    its own; `relay` is the command line of the MCP server, `home` the absolute path of the private HOME. `reader(used)`
    returns a reader for the output of one process, given what was reported for the session that it resumes. `harmless`
    are tools of its own that cannot be switched off and change nothing.
    """

    name: str
    kept: tuple[str, ...]
    launch: Launcher
    reader: Callable[[UsageReported], EventReader]
    harmless: frozenset[str] = frozenset()


def unexpected_tools(cli: Cli, offered: ToolsOffered) -> tuple[str, ...]:
    """Return the tools that the CLI offers its model although they are not clew's."""
    return tuple(sorted(set(offered.names) - set(TOOLS) - cli.harmless))
