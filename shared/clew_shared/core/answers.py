"""Reports of actions and what they mean in the present state, and the answers of the core. Pure."""

from dataclasses import dataclass, field

from clew_shared.gate.rules import KnownOutcome
from clew_shared.judge.reading import Reading, error_of, fault_of, outcome_of, plain, read
from clew_shared.record import events as ev
from clew_shared.record.model import Level, Result
from clew_shared.record.state import InFlight, State
from clew_shared.record.touched import Touched
from clew_shared.text.shorten import both_ends
from clew_shared.tools import IDLE_TOOLS, WRITE_ONLY_TOOLS

HEAD_CHARS = 400  # of an output, in its event and its tally


class WrongState(Exception):
    """A command that makes no sense now; the message states why, and what would."""


@dataclass(frozen=True, slots=True)
class ActionReport:
    """The outcome of an action as it is reported; `world` is the digest after it, UNKNOWN if cut short, "" for none."""

    result: str
    output: str | None = None
    changed: bool | None = None
    world: str = ""
    duration_s: float = 0.0
    exit_code: int | None = None
    touched: Touched = field(default_factory=Touched)
    reading: Reading | None = None  # what was read of it, where that was done already


@dataclass(frozen=True, slots=True)
class Advice:
    """Advice to an agent that goes in circles: its kind (docs/loops.md, Interventions) and its message."""

    kind: str
    message: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer to a proposal, event `seq`, recorded with the time `at`."""

    allowed: bool
    seq: int
    reason: str = ""
    message: str = ""
    intervention: Advice | None = None
    escalated_to: Level | None = None
    at: float = 0.0


@dataclass(slots=True)
class Feedback:
    """The answer to a report; `known`: not reported before, `changed`: it changed the workspace, None if unknown."""

    intervention: Advice | None = None
    escalated_to: Level | None = None
    known: bool = True
    changed: bool | None = None


def finished_event(
    state: State, flight: InFlight, report: ActionReport, at: float
) -> ev.ActionFinished:
    tool, name = flight.action.name, flight.signature
    moved = state.loops.moved_to(report.world)
    changed = moved if report.changed is None else report.changed
    is_plain = report.output is None and report.changed is None and not moved
    reading = plain(name) if is_plain else report.reading or reading_of(flight, report)
    writes = tool in WRITE_ONLY_TOOLS or not report.output
    error = error_of(report.result, report.output)
    return ev.ActionFinished(
        at=at,
        of=flight.seq,
        result=report.result,
        head=both_ends(report.output, HEAD_CHARS),
        outcome=f"{report.result}:" if writes else outcome_of(report.result, report.output or ""),
        error_class=error,
        fault=fault_of(flight.action.args, error),
        duration_s=round(report.duration_s, 6),
        exit_code=report.exit_code,
        changed=changed,
        world=report.world,
        plain=is_plain,
        soft=report.result == Result.TIMEOUT or reading.kind == "temporary",
        idle=tool in IDLE_TOOLS,
        touched=report.touched,
        evidence=reading,
    )


def reading_of(flight: InFlight, report: ActionReport) -> Reading:
    action = flight.action
    return read(flight.signature, action.name, action.args, report.result, report.output)


def known_outcome(state: State, flight: InFlight, report: ActionReport) -> KnownOutcome:
    """Return what the gate needs of an action that is judged after the fact (`record`)."""
    tool, signature = flight.action.name, flight.signature
    event = finished_event(state, flight, report, 0.0)
    world, before = event.world_after(state.loops, signature), state.loops.began_in(report.world)
    scope, tally = state.loops.scope, state.loops.scope.tallies.get(signature, {}).get(world)
    progress = event.makes_progress(scope, signature, tool, before, world)
    writes = tool in WRITE_ONLY_TOOLS or signature in scope.writers or world != before
    return KnownOutcome(
        outcome=event.outcome,
        world=world,
        progress=progress,
        kind="varies" if event.varies(tally) else "temporary" if event.soft else "",
        idle=writes and not progress,
    )
