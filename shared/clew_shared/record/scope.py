"""What the gate remembers of a goal: in a scope, of the agent's attention, and of the worlds (docs/loops.md, Terms).

A world is what is known of the files of a workspace. It is named by its digest, by CLAIMED and a digest where a change
was only claimed, or by UNKNOWN and a digest where the files are not known. A measurement is a digest, UNKNOWN where it
was cut short by time or size, "" for none.
"""

from dataclasses import dataclass, field
from typing import TypeVar

from clew_shared.judge.memory import Memory, paid

_Value = TypeVar("_Value")

ENTRIES_MAX = 4_000  # of each table: beyond the default `max_actions` (docs/loops.md, How far back)
STEPS_KEPT, FINDINGS_KEPT = 16, 300
EVERYWHERE = "*"  # the world of a block that applies in every world
CLAIMED = "claimed:"
UNKNOWN = "unknown:"  # not measured whole: as a measurement it equals no other, not even an UNKNOWN


def is_measured(world: str) -> bool:
    """Return whether this is an exact digest, which can be compared with others."""
    return bool(world) and not world.startswith((CLAIMED, UNKNOWN))


@dataclass(slots=True)
class Tally:
    """The outcomes of one signature in one world: attempts by outcome, and the last one."""

    counts: dict[str, int] = field(default_factory=dict)
    outcome: str = ""
    result: str = ""
    head: str = ""
    seq: int = 0
    plain: bool = True
    raw: str = ""  # the last answer to the letter
    # how a repeat is judged: of a `read`, a `temporary` fault, what `varies` by itself, or else
    kind: str = ""
    steady: bool = True  # the last two had the same outcome


@dataclass(slots=True)
class CycleStep:
    """One finished action, as the cycle rule sees it."""

    signature: str
    progress: bool
    idle: bool  # a write that changed nothing or led back to an earlier world
    plain: bool
    seq: int = 0


@dataclass(slots=True)
class Finding:
    """What the agent was told, or refused, as event `seq`."""

    seq: int
    refused: bool = False
    stays: str = ""  # the answer that had come so many `times`, "" where it was about none
    times: int = 0


@dataclass(slots=True)
class Scope:
    """What the gate remembers within one scope, bounded by `count` and `kept`; blocks and deaths are not."""

    worlds: dict[str, int] = field(default_factory=dict)
    tallies: dict[str, dict[str, Tally]] = field(default_factory=dict)
    loop_counts: dict[str, int] = field(default_factory=dict)
    writers: dict[str, int] = field(default_factory=dict)  # signatures that changed something
    crashes: dict[str, int] = field(default_factory=dict)
    died: dict[str, str] = field(default_factory=dict)  # how, at the last of `crashes`
    blocks: dict[str, dict[str, str]] = field(default_factory=dict)
    steps: list[CycleStep] = field(default_factory=list)
    memory: Memory = field(default_factory=Memory)

    def last(self, signature: str, result: str = "") -> Tally | None:
        """Return the last tally of a signature, or of this result of it."""
        tallies = self.tallies.get(signature, {}).values()
        known = (one for one in tallies if result in ("", one.result))
        return max(known, key=lambda one: one.seq, default=None)

    def afresh(self, world: str) -> "Scope":
        """Return a scope with nothing counted, but for actions during which the worker died."""
        worlds = {world: 1} if world else {}
        return Scope(worlds, crashes=self.crashes, died=self.died, blocks=self._crash_blocks())

    def without_counts(self, *, crashes: bool) -> "Scope":
        """Return a scope without counts and blocks, with `crashes` those after deaths, too; known worlds stay."""
        kept = Scope(worlds=self.worlds, writers=self.writers, memory=paid(self.memory))
        if not crashes:
            kept.crashes, kept.blocks = self.crashes, self._crash_blocks()
        return kept

    def _crash_blocks(self) -> dict[str, dict[str, str]]:
        everywhere = {name: worlds.get(EVERYWHERE) for name, worlds in self.blocks.items()}
        return {name: {EVERYWHERE: "crash"} for name, why in everywhere.items() if why == "crash"}


@dataclass(slots=True)
class Attention:
    """The streaks that interventions are raised from; a person's feedback resets them."""

    steps: int = 0
    fresh: bool = False
    iterations_without_facts: int = 0
    theme: str = ""
    same_theme: int = 0  # thoughts in a row with it
    thoughts_without_tools: int = 0
    stuck: int = 0
    fault: str = ""  # of the last step, with its tool
    same_error: int = 0  # different steps in a row with it
    acted: bool = False  # an action was carried out that does more than wait or look at the record
    waits: bool = False  # in this turn it waited, or looked at what may change by itself
    firm: bool = False  # … and did anything else
    moved: bool = False  # it changed a file since the last turn with a fact
    turn_steps: int = 0  # the steps up to the end of the last turn
    raised: dict[str, int] = field(default_factory=dict)  # streaks at which the agent was told
    told_at: int = -99  # the last step at which it was

    @property
    def streaks(self) -> dict[str, int]:
        """The present length of each streak, by the intervention that it calls for."""
        return {
            "theme": self.same_theme,
            "repeated_planning": self.thoughts_without_tools,
            "no_progress": self.iterations_without_facts,
            "stuck": self.stuck,
            "same_error": self.same_error,
        }

    def drop_broken(self) -> None:
        """Forget what was said of a streak that was broken: it was heeded."""
        if self.raised:
            now = self.streaks
            self.raised = {kind: at for kind, at in self.raised.items() if now[kind] >= at}


@dataclass(slots=True)
class RefusedFinishes:
    """How often in a row a `finish` was refused with nothing changed; `same_checks`: by the same ones in one world."""

    world: str | None = None
    actions: int = -1
    failing: tuple[str, ...] = ()
    count: int = 0
    same_checks: int = 0
    unseen: bool = False  # the agent may have changed something where clew cannot see it


@dataclass(slots=True)
class Loops:
    """What loops are judged by: the scope, the streaks, what the agent was told, and the world of its files."""

    scope: Scope = field(default_factory=Scope)
    inherited: Scope | None = None
    attention: Attention = field(default_factory=Attention)
    blocked_proposals: int = 0
    ignored_interventions: int = 0
    refused: RefusedFinishes = field(default_factory=RefusedFinishes)
    claims: int = 0  # `finish` was refused by checks so often, since a person's last word
    findings: list[Finding] = field(default_factory=list)  # what was told or refused as a loop
    world: str = ""  # the one believed to be current
    measured: str = ""  # the last digest taken of the disk in it, "" for none
    changes: dict[str, int] = field(default_factory=dict)  # signatures of unmeasured changes
    novelty: int = 0  # their number
    blocked_total: int = 0
    found_total: int = 0

    def begin(self, scope: Scope) -> None:
        """Judge by this scope from now on, with nothing held against the agent but its steps."""
        self.scope, self.attention = scope, Attention(steps=self.attention.steps)
        self.blocked_proposals = self.ignored_interventions = 0
        self.refused = RefusedFinishes()

    def reset(self, *, crashes: bool = False) -> None:
        """Drop counts, streaks and blocks, with `crashes` those after deaths of the worker, too."""
        self.begin(self.scope.without_counts(crashes=crashes))
        self.inherited = self.inherited and self.inherited.without_counts(crashes=crashes)
        self.claims = 0

    def note(self, found: Finding) -> None:
        self.findings = [*self.findings[1 - FINDINGS_KEPT :], found]

    def began_in(self, measured: str) -> str:
        """Return the world that a step began in; one that was not measured is named by the first digest after it."""
        unmeasured = not is_measured(self.world) and bool(self.world)
        names_it = is_measured(measured) and self.measured in ("", measured)
        return measured if unmeasured and names_it else self.world

    def moved_to(self, measured: str) -> bool | None:
        """Return whether a measurement after a step shows another world than before it, None if one is unknown."""
        if not is_measured(measured) or self.world.startswith(UNKNOWN):
            return None
        return measured != self.began_in(measured)


def count(counts: dict[str, int], key: str) -> None:
    """Count one more and move the key to the end: the order is that of use, and the oldest of too many goes."""
    counts[key] = counts.pop(key, 0) + 1
    if len(counts) > ENTRIES_MAX:
        del counts[next(iter(counts))]


def kept(known: dict[str, _Value], key: str, new: _Value) -> _Value:
    """Return the value of a key, `new` for a new one; of too many the oldest goes."""
    found = known.setdefault(key, new)
    if len(known) > ENTRIES_MAX:
        del known[next(iter(known))]
    return found
