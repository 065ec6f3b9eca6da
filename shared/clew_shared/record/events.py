"""Everything that can happen to a goal, one frozen model for each kind: what the ledger holds, and what follows of it.

An event states what was decided or observed, never what should be done about it. A field that came later has a default,
so that an old ledger still folds. Here are thoughts, turns, checks, and what the gate says.
"""

from typing import Any

from pydantic import BaseModel, Field

from clew_shared.judge import memory
from clew_shared.record.action_events import *  # noqa: F403 - one name for all events
from clew_shared.record.life_events import *  # noqa: F403
from clew_shared.record.life_events import GoalEvent
from clew_shared.record.model import Level
from clew_shared.record.scope import Attention, Finding
from clew_shared.record.snapshot_events import *  # noqa: F403
from clew_shared.record.spec import Prompt
from clew_shared.record.state import INSIGHTS_KEPT, CheckBefore, CheckResult, State, taken
from clew_shared.record.tree_events import *  # noqa: F403
from clew_shared.text.shorten import both_ends

CHECK_CHARS = 1000  # of the output of a check, in the state
POLL = "poll"  # the key of a word about what may change by itself: it is no fault to look again
# The interventions after which the judge waits until as much is owed again.
TOLD = frozenset({"nothing_new", "no_progress", "theme", "repeated_planning", "repetition"})


class LoopDetected(GoalEvent, frozen=True):
    """The gate found a loop."""

    loop: str
    signature: str = ""
    attempt_count: int = 0
    evidence: str = ""
    escalated_to: Level | None = None
    of: int = 0  # the event before it that refused the action or told the agent, 0 for neither
    steps: tuple[int, ...] = ()  # the actions that were repeated

    def into(self, state: State) -> None:
        state.loops.found_total += 1


class LastGain(BaseModel, frozen=True):
    """What was new last: the action, and the line that was new in its answer; its head where no line was."""

    seq: int
    text: str


class Stays(BaseModel, frozen=True):
    """An answer that stays, and how often it came."""

    text: str
    times: int


class Intervened(GoalEvent, frozen=True):
    """A message to the agent, recorded before it is sent; older versions left the last fields out."""

    intervention: str
    message: str
    key: str = ""
    again: bool = False  # an earlier one was ignored
    debt: float | None = None  # in steps
    since_gain: int | None = None  # steps since something was new
    last_gain: LastGain | None = None
    steps: tuple[int, ...] | None = None  # those that brought nothing
    stays: Stays | None = None

    def into(self, state: State) -> None:
        loops, attention, kind = state.loops, state.loops.attention, self.intervention
        if self.again:
            loops.ignored_interventions += 1
        if kind in TOLD:
            memory.tell(loops.scope.memory, warned=kind == "nothing_new")
        turns = attention.iterations_without_facts
        if kind in attention.streaks:
            attention.raised[kind] = attention.streaks[kind]
        elif kind == "nothing_new" and turns and self.key != POLL:
            attention.raised["no_progress"] = turns  # one cause, one word
        attention.told_at = attention.steps + (kind == "repetition")  # of the next step
        stays, times = (self.stays.text, self.stays.times) if self.stays else ("", 0)
        loops.note(Finding(state.seq, stays=stays, times=times))


class Thought(GoalEvent, frozen=True):
    """The agent reported a thought."""

    text: str
    theme: str
    has_tool_calls: bool
    words: str = ""  # hashes of what it says

    def into(self, state: State) -> None:
        attention, acts = state.loops.attention, self.has_tool_calls
        attention.steps += 1
        attention.same_theme = attention.same_theme + 1 if self.theme == attention.theme else 1
        attention.theme = self.theme
        attention.thoughts_without_tools = 0 if acts else attention.thoughts_without_tools + 1
        memory.take_thought(state.loops.scope.memory, state.seq, self.words, acts=acts)
        attention.drop_broken()


class Reflected(GoalEvent, frozen=True):
    """An iteration record (docs/protocol.md), as the agent gave it, and its cost."""

    iteration: int
    assessment: str = ""
    record: dict[str, Any] = Field(default_factory=dict)
    hindsight: tuple[dict[str, str], ...] = ()  # what was found in the results of the turn before
    turn: tuple[dict[str, Any], ...] = ()  # what it added to the transcript, actions by number
    prompt: Prompt | None = None
    tokens: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    tokens_cached: int = 0
    llm_s: float = 0.0
    unfinished: bool = False  # a crash cut it off

    def into(self, state: State) -> None:
        """Count a turn and its cost; one that a crash cut off has its cost, and goes on as the next one."""
        tried, attention = state.attempts, state.loops.attention
        if not self.unfinished:
            state.iteration = max(state.iteration + 1, self.iteration)
            tried.messages = 0
            self._judge(attention)
        attention.drop_broken()
        self._charge(state)
        lived_s = max(0.0, self.at - state.worker_since) if state.working else 0.0
        tried.active_at_turn_s = state.cost.active_s + lived_s
        if tried.turn_at != state.place:  # this turn was one of the subtask before
            state.attempt.from_iteration = state.iteration
        tried.turn_before, tried.turn_at = tried.turn_at, state.place
        state.guidance.feedback_untold.clear()

    def _judge(self, attention: Attention) -> None:
        """Count what a turn says of itself, and whether it brought a fact; not one that only waits or polls."""
        attention.turn_steps = attention.steps
        only_waits = attention.waits and not (attention.firm or attention.fresh)
        attention.waits = attention.firm = False
        if only_waits:
            return
        is_stuck = self.assessment in ("stuck", "regressing")
        attention.stuck = attention.stuck + 1 if is_stuck else 0
        turns = attention.iterations_without_facts + 1
        attention.iterations_without_facts = 0 if attention.fresh else turns
        attention.moved = attention.moved and not attention.fresh
        attention.fresh = False

    def _charge(self, state: State) -> None:
        """Add the call's cost, and the most relevant findings in its results to their subtask."""
        tried = state.attempts
        subtask = state.subtask_at(*tried.turn_at)
        if subtask and tried.turn_before == tried.turn_at:
            found = [h["insights"] for h in self.hindsight if h.get("relevance") == "high"]
            subtask.insights += filter(None, found)
            del subtask.insights[:-INSIGHTS_KEPT]
        state.cost.calls += bool(self.tokens or self.llm_s or self.prompt)  # none by a runbook
        for name in ("tokens", "tokens_in", "tokens_out", "tokens_cached", "llm_s"):
            setattr(state.cost, name, getattr(state.cost, name) + getattr(self, name))
        state.guidance.prompt = self.prompt or state.guidance.prompt


class ProbesSeen(GoalEvent, frozen=True):
    """What is true of the workspace, by name; `world` is as it was measured then, "" if it was not."""

    probes: dict[str, bool]
    world: str = ""

    def into(self, state: State) -> None:
        for name, passed in self.probes.items():
            state.see_probe(name, passed, world=self.world)


class CheckProposed(GoalEvent, frozen=True):
    """The agent suggested a check with its plan: a command that exits with 0 once the goal is reached."""

    name: str
    cmd: str

    def into(self, state: State) -> None:
        state.proofs.suggested[self.name] = self.cmd


class CheckStarted(GoalEvent, frozen=True):
    """A suggested check is about to run; earlier versions ran them."""

    name: str


class CheckFinished(GoalEvent, frozen=True):
    """The daemon ran a check of the goal; `suggested`: one that its agent suggested, as earlier versions did."""

    name: str
    passed: bool
    output: str = ""
    suggested: bool = False

    def into(self, state: State) -> None:
        proofs, result = state.proofs, CheckResult(self.passed, both_ends(self.output, CHECK_CHARS))
        if self.suggested:
            return
        before, proofs.checks[self.name] = proofs.checks.get(self.name), result
        result.seq = state.seq
        if before is None or before.passed != self.passed:
            state.loops.attention.fresh = True
        state.see_probe(self.name, self.passed)


class CheckedBefore(GoalEvent, frozen=True):
    """The daemon ran a check of the goal before its first action; one that passed then proves nothing."""

    name: str
    passed: bool
    exit_code: int | None = None
    duration_s: float = 0.0
    output: str = ""
    tests: tuple[int, int, int] | tuple[int, int, int, int] | None = None  # as in Count

    def into(self, state: State) -> None:
        state.proofs.before[self.name] = taken(CheckBefore, self)
        if self.passed or self.exit_code is not None:
            state.see_probe(self.name, self.passed)
