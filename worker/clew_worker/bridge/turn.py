"""One turn of a CLI: what its event stream has said, and what follows from it; and the session that it is in. Pure."""

from contextlib import suppress
from dataclasses import dataclass, field
from typing import Self

from pydantic import Field, ValidationError

from clew_shared.exit_codes import SIGNAL_BASE, ExitCode
from clew_shared.text.shorten import both_ends
from clew_shared.wire.framing import WireMessage
from clew_worker.agent.client import CannotContinue
from clew_worker.bridge.cli_cell import CliEnded
from clew_worker.bridge.clis import cli as clis
from clew_worker.bridge.clis.cli import NOTHING_USED, Cli, Fault, TurnEnded, UsageReported

THOUGHTS_MAX = 100  # how many thoughts of one turn are recorded
EVENT_BYTES_MAX = 64 << 20  # What a CLI may print in one turn; more is a fault of it

DETAIL_CHARS = 1_000
NO_REASON = "no reason given"
LIMIT_WAIT_S = 900.0  # How long a usage limit is waited for before another try

START_FIX = (
    "Name the program itself as `program` of the agent, not a script that starts it, or install it again; "
    "`clew doctor` tries it"
)


class CliCrashError(Exception):
    """The CLI was killed or has crashed in the middle of a turn: the worker starts again."""


@dataclass(slots=True)
class CliTurn:
    """What is known of one run of a CLI.

    `login` is what a person does where it wants one. `cut_off`: it was ended because its connection to clew's tools
    had; `acted`: it has called them; `listed`: it has asked which there are. `faults` has the message of each kind that
    came; `remark` is the last line that it printed and that is no event.
    """

    cli: type[Cli]
    login: str = ""
    session: str = ""
    usage: UsageReported = NOTHING_USED
    events: int = 0
    lines: int = 0
    thoughts: int = 0
    ended: TurnEnded | Fault | None = None
    cut_off: bool = False
    acted: bool = False
    listed: bool = True
    faults: dict[clis.FaultKind, str] = field(default_factory=dict)
    remark: str = ""

    def take(self, event: clis.CliEvent) -> str:
        """Take an event, and return the thought that it is; raises for a lasting fault, and if the relay has died."""
        self.events += 1
        match event:
            case clis.SessionStarted():
                self.session = event.id
            case clis.ToolsOffered():
                self._check(event)
            case clis.ThoughtReported():
                self.thoughts += 1
                return event.text if self.thoughts <= THOUGHTS_MAX else ""
            case UsageReported():
                self.usage += event
            case Fault(kind="login"):
                raise self.lasting(f"wants a login: {self.login}. It said: {event.message}")
            case Fault():
                self.ended, self.faults[event.kind] = event, event.message
            case TurnEnded():
                self.ended = event
        return ""

    @property
    def stops(self) -> bool:
        """Whether it has given a reason why nothing more can be done now."""
        return not self.faults.keys().isdisjoint(("limit", "lasting"))

    @property
    def without_tools(self) -> bool:
        """Whether its model was offered none of clew's tools, so that the end of its turn means nothing."""
        return not (self.listed or self.acted)

    def unfinished(self, code: int | None) -> bool:
        """Return whether it is no turn of the attempt: cut off, or failed before it did anything."""
        if self.ended is None:
            return code != ExitCode.OK
        return self.without_tools or (isinstance(self.ended, Fault) and not self.acted)

    def count(self, line: bytes, bytes_read: int) -> None:
        """Count a line of output; raises CannotContinue where there is too much."""
        self.lines += 1
        if line.strip() and not line.startswith(b"{"):
            self.remark = line[:DETAIL_CHARS].decode(errors="replace").strip()
        if bytes_read > EVENT_BYTES_MAX:
            raise self.lasting(f"printed over {EVENT_BYTES_MAX >> 20} MB in one turn")

    def _check(self, offered: clis.ToolsOffered) -> None:
        if surplus := self.cli.unexpected(offered):
            raise self.lasting(f"offers {', '.join(surplus)} although told not to")
        state = offered.servers.get(clis.SERVER, "connected")
        if state not in ("connected", "pending"):
            raise self._crash(f"cannot use clew's tools: its MCP server is {state}")

    def close(self, end: CliEnded) -> None:
        """Draw the conclusion from the end of the run: none, CannotContinue, or CliCrashError (start again)."""
        said = self._said(end.errors)
        if limit := self.faults.get("limit"):
            raise CannotContinue("temporary", f"{self.cli.name}: {limit}", LIMIT_WAIT_S)
        if lasting := self.faults.get("lasting"):
            raise self.lasting(f"cannot go on: {lasting}")
        if isinstance(self.ended, TurnEnded):
            if self.without_tools:
                raise self._crash("had no connection to clew's tools", said)
            return
        if self.cut_off:
            raise self._crash("has lost its connection to clew's tools")
        self._draw(end.code, said)

    def _draw(self, code: int, said: str) -> None:
        """Draw the conclusion from an end that nothing else explains than what it `said`."""
        # 126, 127: a shell could not execute the program, or did not find it
        cannot_start = code in (126, 127) or clis.fault_of(said).kind == "start"
        if cannot_start and not (self.session or self.acted):
            raise self.lasting(f"cannot be started: {said or NO_REASON}. {START_FIX}")
        if self.faults:
            raise CannotContinue("temporary", f"{self.cli.name}: {said or NO_REASON}")
        if code > SIGNAL_BASE:
            raise self._crash(f"ended by signal {code - SIGNAL_BASE}", said)
        if not self.events and not self.acted:
            what = f"exited with {code} at once:"
            if self.lines:
                what = f"printed {self.lines} lines, none of them an event that clew knows: "
                what += "its version may be too new or too old (clew doctor)."
            raise self.lasting(f"{what} {said or NO_REASON}")
        if code != ExitCode.OK:
            raise self._crash(f"exited with {code}", said or NO_REASON)

    def _crash(self, what: str, said: str = "") -> CliCrashError:
        return CliCrashError(f"{self.cli.name} {what}" + (f": {said}" if said else ""))

    def lasting(self, what: str) -> CannotContinue:
        return CannotContinue("configuration", f"{self.cli.name} {what}")

    def _said(self, errors: str) -> str:
        faults = [*self.faults.values()][-1:]
        said = [self.ended.message if self.ended else "", *faults, errors, self.remark]
        return both_ends(next(filter(None, said), ""), DETAIL_CHARS)


class Conversation(WireMessage):
    """The CLI's own session, kept in its HOME: which subtask and attempt it belongs to, and what it has `used`."""

    id: str = Field(default="", max_length=200)
    attempt: tuple[int, ...] = ()
    used: UsageReported = NOTHING_USED

    @classmethod
    def read(cls, text: str | None) -> Self:
        """Read what was written into the CLI's HOME; it is not trusted: anything else is no conversation."""
        with suppress(ValidationError):
            return cls.model_validate_json(text or "")
        return cls()

    def continues(self, attempt: tuple[int, ...]) -> bool:
        """Return whether it goes on in this attempt: another attempt at the same subtask begins with a new one."""
        same_subtask = self.attempt[:2] == attempt[:2]
        return bool(self.id and self.attempt) and (attempt == self.attempt or not same_subtask)
