"""The deciding core of one goal, without I/O: commands and the time go in, events and answers come out.

The daemon's session and the library both drive it. A command judges, takes its events into the state at once
and queues them; whoever drives it records what `take` gives *before* anyone hears the answer. Seen from
outside, a crash in between leaves a prefix of the ledger, and a prefix is always a state to go on from.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol, overload

from clew_shared.core.claims import question, unheeded
from clew_shared.core.escalation import escalation, person_question
from clew_shared.core.suggestions import taken
from clew_shared.gate import (
    PROTOCOL,
    Calls,
    Known,
    Nudge,
    Proposal,
    Refusal,
    Thresholds,
    judge,
    review,
)
from clew_shared.record import events as ev
from clew_shared.record.fold import apply
from clew_shared.record.fold_actions import (
    makes_progress,
    told_by,
    world_after,
    world_before,
    world_moved,
)
from clew_shared.record.model import GoalStatus, Level, Result, StepStatus
from clew_shared.record.progress import (
    WRITE_ONLY_TOOLS,
    both_ends,
    error_class,
    head,
    outcome,
    soft,
)
from clew_shared.record.signature import signature
from clew_shared.record.transitions import refusal
from clew_shared.record.worlds import CLAIMED, UNKNOWN
from clew_shared.text.thoughts import echoes, theme

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from clew_shared.record.identity import Identity
    from clew_shared.record.state import State

IGNORED_LIMIT = 2
"""So many ignored interventions in a subtask are a failure of it (contract, section 8)."""

IN_FLIGHT_MAX = 64
MESSAGE_CHARS = 2_000
THOUGHT_CHARS = 2_000


class Numbers(Thresholds, Protocol):
    """The `[loops]` table as the core needs it, beyond the gate's part."""

    @property
    def scope(self) -> str: ...
    @property
    def failure_limit(self) -> int: ...
    @property
    def blocked_limit(self) -> int: ...
    @property
    def replan_limit(self) -> int: ...
    @property
    def themes(self) -> Mapping[str, Sequence[str]]: ...


class WrongState(Exception):
    """A command that makes no sense now; the message says why and what would."""


@dataclass(frozen=True, slots=True)
class Word:
    """An intervention: what kind, and what the agent is told."""

    kind: str
    message: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer to a proposal."""

    allowed: bool
    seq: int
    reason: str = ""
    message: str = ""
    intervention: Word | None = None
    escalated_to: Level | None = None


@dataclass(frozen=True, slots=True)
class LookFirst:
    """No answer yet: a rule would refuse the proposal, unless the workspace has changed unseen."""


@dataclass(frozen=True, slots=True)
class Heard:
    """The answer to what the agent reported; `known` is false where it had been reported before.

    `changed` says whether the reported action changed the workspace, None where that is unknown.
    """

    intervention: Word | None = None
    escalated_to: Level | None = None
    known: bool = True
    changed: bool | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """What came of an action.

    `world` is the digest after it, UNKNOWN where it could not be measured whole, "" where nothing was measured.
    """

    result: str
    output: str | None = None
    changed: bool | None = None
    world: str = ""
    duration_s: float = 0.0
    exit_code: int | None = None


@dataclass(frozen=True, slots=True)
class Recorded:
    """An event with its number, and the big output that belongs to it."""

    seq: int
    event: ev.Event
    output: bytes | None = None


@dataclass(slots=True)
class Core:
    """One goal's judge and bookkeeper; not safe for use from several threads.

    `number` gives the next sequence number of the ledger, and must be followed by recording what `take`
    gives before anybody else takes one. `calls` are what the agent is told that it can do instead; `lived_s` says
    how long the present worker has lived, by a clock that nobody can set (None: by the moments of its events).
    """

    state: State
    loops: Numbers
    number: Callable[[], int]
    max_actions: int = 1000
    max_iterations: int | None = None
    ignored_limit: int = IGNORED_LIMIT
    calls: Calls = PROTOCOL
    lived_s: Callable[[], float] | None = None
    _queue: list[Recorded] = field(default_factory=list)

    def take(self) -> list[Recorded]:
        """Hand over what has happened and must be recorded."""
        queue, self._queue = self._queue, []
        return queue

    def emit(self, event: ev.Event, output: bytes | None = None) -> int:
        """Take an event into the state and queue it for the ledger; returns its number.

        Raises WrongState, and takes nothing in, where the goal's status does not allow it.
        """
        if why := refusal(self.state, event):
            raise WrongState(why)
        seq = self.number()
        apply(self.state, event, seq)
        self._queue.append(Recorded(seq, event, output))
        return seq

    # -- actions -----------------------------------------------------------------------------------

    @overload
    def propose(
        self,
        tool: str,
        args: dict[str, Any],
        at: float,
        rationale: str = "",
        *,
        fresh: Literal[True] = True,
    ) -> Verdict: ...
    @overload
    def propose(
        self, tool: str, args: dict[str, Any], at: float, rationale: str = "", *, fresh: bool
    ) -> Verdict | LookFirst: ...
    def propose(
        self, tool: str, args: dict[str, Any], at: float, rationale: str = "", *, fresh: bool = True
    ) -> Verdict | LookFirst:
        """Judge a proposal; an allowed one is in flight until its outcome is reported.

        `fresh` says that the workspace has just been measured. Without it a refusal by a rule is not decided and
        not recorded: the answer is LookFirst. So is that to an action that is blocked in another world, which may
        have returned unseen.
        """
        proposal = self._proposal(tool, args)
        if refused := self._out_of_order(proposal, at):
            return refused
        if not fresh and proposal.signature in self.state.scope.blocks:
            return LookFirst()
        self._ensure_started(at)
        said = judge(self.state, proposal, self.loops)
        if isinstance(said, Refusal):
            return self._refuse(proposal, said, at) if fresh else LookFirst()
        return self._allow(proposal, said, at, rationale)

    def outcome(self, seq: int, report: Report, at: float) -> Heard:
        """Take in what came of an allowed action; one told twice is recognised."""
        flight = self.state.in_flight.get(seq)
        if flight is None:
            return Heard(known=False)
        action = flight.action
        self._finish(seq, action.name, action.args, report, at)
        heard = self._review(at, tool=action.name, signature=flight.signature)
        return replace(heard, changed=action.changed)

    def record(self, tool: str, args: dict[str, Any], report: Report, at: float) -> Verdict:
        """Judge and store what an agent has already done: refused means that it must not be done again."""
        name = self._signature(tool, args)
        known = self._known(tool, args, name, report)
        proposal = Proposal(tool, args, name, known, self.calls)
        if refused := self._out_of_order(proposal, at, done=report):
            return refused
        self._ensure_started(at)
        said = judge(self.state, proposal, self.loops)
        if isinstance(said, Refusal):
            return self._refuse(proposal, said, at, done=report)
        verdict = self._allow(proposal, said, at, "")
        self._finish(verdict.seq, tool, args, report, at)
        heard = self._review(at, tool=tool, signature=name)
        return Verdict(
            True,
            verdict.seq,
            intervention=heard.intervention or verdict.intervention,
            escalated_to=heard.escalated_to,
        )

    def interrupt(
        self, reason: str, at: float, *, counts: bool, only: int | None = None
    ) -> list[int]:
        """Say of everything in flight (or `only` of one action) that its effect is unknown."""
        seqs = [s for s in self.state.in_flight if only in (None, s)]
        for seq in seqs:
            self.emit(ev.ActionInterrupted(at=at, of=seq, reason=reason, counts=counts))
        return seqs

    def see_world(self, world: str, at: float) -> bool:
        """Take in a fresh digest of the workspace; true where it leads to another world than was believed.

        UNKNOWN changes nothing of what is believed, unless an action with an unknown effect came before it.
        """
        before = self.state.world
        news = (
            self._is_unsettled if world == UNKNOWN else world not in (before, self.state.measured)
        )
        if world and news:
            self.emit(ev.WorldSeen(at=at, world=world))
        return self.state.world != before

    @property
    def _is_unsettled(self) -> bool:
        """Nothing is known of the world yet, or the last action was interrupted."""
        last = self.state.subtask.actions[-1:] if self.state.subtask else []
        return not self.state.world or any(a.result == Result.INTERRUPTED for a in last)

    @property
    def goes_by_a_claim(self) -> bool:
        """The world is one that an agent claimed, and nothing has measured since."""
        return self.state.world.startswith(CLAIMED)

    def drop_claim(self, world: str, at: float) -> None:
        """Put a fresh digest of the workspace in the place of a claimed world."""
        if world and self.goes_by_a_claim:
            self.emit(ev.WorldSeen(at=at, world=world, instead=True))

    def _proposal(self, tool: str, args: dict[str, Any]) -> Proposal:
        return Proposal(tool, args, self._signature(tool, args), calls=self.calls)

    def _signature(self, tool: str, args: dict[str, Any]) -> str:
        return signature(tool, args, self.state.spec.workspace)

    def _known(self, tool: str, args: dict[str, Any], name: str, report: Report) -> Known:
        state = self.state
        event = self._finished(0, tool, args, report, 0.0)
        world = world_after(state, name, event)
        told, before = told_by(tool, name, world, event), world_before(state, report.world)
        progress = makes_progress(state.scope, before, world, told)
        writes = tool in WRITE_ONLY_TOOLS or name in state.scope.writers or world != before
        return Known(event.outcome, world, progress, event.soft, idle=writes and not progress)

    def _out_of_order(
        self, proposal: Proposal, at: float, done: Report | None = None
    ) -> Verdict | None:
        state = self.state
        if state.replan_required:
            level = state.replan_required
            message = (
                f"The subtask is blocked: replan the {level} first (`plan` with replan: {level!r})."
                if level != "person"
                else f"The goal waits for a person: {state.question or state.reason}"
            )
            return self._refuse(
                proposal, Refusal("replan_required", message, loop=False), at, done=done
            )
        if state.goal.status != GoalStatus.IN_PROGRESS:
            message = f"The goal is {state.goal.status}; nothing more is carried out."
            return self._stopped(proposal, message, at, done)
        if len(state.in_flight) >= IN_FLIGHT_MAX:
            raise WrongState(f"{IN_FLIGHT_MAX} actions are in flight; report their outcomes first")
        if spent := self.budget_spent(at):
            refusal = Refusal("budget", f"Refused: {spent}. A person has to decide.", loop=False)
            verdict = self._refuse(proposal, refusal, at, done=done)
            self.out_of_budget(spent, at)
            return Verdict(False, verdict.seq, "budget", verdict.message, escalated_to="person")
        return None

    def turn_away(self, tool: str, args: dict[str, Any], at: float, message: str) -> Verdict:
        """Refuse a proposal because nothing more is carried out; `message` says why. No rule is asked."""
        return self._stopped(self._proposal(tool, args), message, at, None)

    def _stopped(self, proposal: Proposal, message: str, at: float, done: Report | None) -> Verdict:
        return self._refuse(proposal, Refusal("stopped", message, loop=False), at, done=done)

    def budget_spent(self, at: float) -> str:
        """Say which budget is used up, "" where none is; a budget is not a loop."""
        state, spec = self.state, self.state.spec
        if state.actions_total - state.actions_granted >= self.max_actions:
            return f"the limit of {self.max_actions} actions is reached"
        turns = state.iteration - state.iterations_granted
        limit = spec.max_iterations or self.max_iterations
        if limit is not None and turns >= limit:
            return f"the budget of {limit} iterations is used up"
        tokens = state.cost.tokens - state.tokens_granted
        if spec.budget_tokens is not None and tokens >= spec.budget_tokens:
            return f"the budget of {spec.budget_tokens} tokens is used up"
        active = state.cost.active_s - state.active_granted_s
        if state.working:
            active += self.lived_s() if self.lived_s else max(0.0, at - state.worker_since)
        if spec.budget_wall_s is not None and active >= spec.budget_wall_s:
            return f"the budget of {spec.budget_wall_s:g} seconds is used up"
        return ""

    def out_of_budget(self, spent: str, at: float) -> None:
        """Hand the goal to a person: a budget is used up."""
        self.block_goal(f"budget: {spent}", at, question=_budget_question(self.state, spent))

    def _allow(self, proposal: Proposal, said: Nudge | None, at: float, rationale: str) -> Verdict:
        seq = self.emit(
            ev.ActionAllowed(
                at=at,
                epoch=self.state.epoch,
                tool=proposal.tool,
                args=proposal.args,
                signature=proposal.signature,
                rationale=rationale[:MESSAGE_CHARS],
            )
        )
        if said is None:
            return Verdict(True, seq)
        word = Word("repetition", said.message)
        self.emit(ev.Intervened(at=at, intervention=word.kind, message=word.message))
        self.emit(
            ev.LoopDetected(
                at=at,
                loop=word.kind,
                signature=proposal.signature,
                attempt_count=said.attempt,
                evidence=said.evidence,
            )
        )
        return Verdict(True, seq, intervention=word)

    def _refuse(
        self, proposal: Proposal, refusal: Refusal, at: float, done: Report | None = None
    ) -> Verdict:
        event = ev.ActionBlocked(
            at=at,
            epoch=self.state.epoch,
            tool=proposal.tool,
            args=proposal.args,
            signature=proposal.signature,
            reason=refusal.reason,
            message=refusal.message,
            makes_block=refusal.reason if refusal.loop else "",
            everywhere=refusal.everywhere,
            counts=refusal.reason == "blocked_action",
            done=done is not None,
        )
        seq = self.emit(event)
        if done is not None:
            self._finish(seq, proposal.tool, proposal.args, done, at)
        level = self._escalate_proposals(at)
        if refusal.loop:
            self.emit(
                ev.LoopDetected(
                    at=at,
                    loop=refusal.reason,
                    signature=proposal.signature,
                    attempt_count=refusal.attempt,
                    evidence=refusal.evidence,
                )
            )
        return Verdict(False, seq, refusal.reason, refusal.message, escalated_to=level)

    def _escalate_proposals(self, at: float) -> Level | None:
        count = self.state.blocked_proposals
        if self.state.replan_required or count < self.loops.blocked_limit:
            return None
        return self._escalate(f"blocked actions were proposed {count} times", count, at)

    def _finish(self, seq: int, tool: str, args: dict[str, Any], report: Report, at: float) -> None:
        output = report.output.encode("utf-8", "replace") if report.output else None
        self.emit(self._finished(seq, tool, args, report, at), output)

    def _finished(
        self, seq: int, tool: str, args: dict[str, Any], report: Report, at: float
    ) -> ev.ActionFinished:
        moved = world_moved(self.state, report.world)
        return ev.ActionFinished(
            at=at,
            of=seq,
            result=report.result,
            head=both_ends(report.output),
            outcome=outcome(tool, report.result, report.output),
            error_class=error_class(report.result, report.output, args),
            duration_s=round(report.duration_s, 6),
            exit_code=report.exit_code,
            changed=moved if report.changed is None else report.changed,
            world=report.world,
            plain=report.output is None and report.changed is None and not moved,
            soft=soft(tool, args, report.result, report.output, waited=self.state.scope.waited),
        )

    # -- thoughts, turns, people ---------------------------------------------------------------------

    def think(self, text: str, at: float, *, has_tool_calls: bool) -> Heard:
        """Take in a thought."""
        said = head(text, THOUGHT_CHARS)
        last = self.state.attention.said[-self.loops.theme_window :]
        self.emit(
            ev.Thought(
                at=at,
                text=said,
                theme=theme(text, self.loops.themes),
                has_tool_calls=has_tool_calls,
                echoes=echoes(said, last),
            )
        )
        return self._review(at)

    def reflect(self, event: ev.Reflected) -> Heard:
        """Take in an iteration record: one turn is over."""
        self.emit(event)
        return self._review(event.at)

    def _review(self, at: float, *, tool: str = "", signature: str = "") -> Heard:
        """Say a word where a streak asks for one; two that were ignored are a failure of the subtask."""
        found = review(self.state, self.loops, self.calls, tool=tool, signature=signature)
        if found is None:
            return Heard()
        self.emit(found.model_copy(update={"at": at}))
        self.emit(
            ev.LoopDetected(
                at=at,
                loop=found.intervention,
                signature=signature if found.intervention == "same_error" else "",
                evidence=found.message.partition("\n")[0],
            )
        )
        word = Word(found.intervention, found.message)
        if self.state.ignored_interventions < self.ignored_limit or self.state.replan_required:
            return Heard(word)
        last = found.message.partition("\n")[0].partition(". ")[
            0
        ]  # what follows is advice for the agent
        failure = f"{self.ignored_limit} interventions were ignored; the last: {last}"
        return Heard(word, self._fail(failure, at, "ignored_interventions"))

    # -- the tree ----------------------------------------------------------------------------------

    def start(self, at: float) -> None:
        """Start the first pending subtask where none is in progress; done before the agent says hello."""
        self._ensure_started(at)

    def _ensure_started(self, at: float) -> None:
        current = self.state.subtask
        if current and current.status == StepStatus.IN_PROGRESS:
            return
        if not self.state.replan_required:
            self._start_next(at)

    def _start_next(self, at: float) -> bool:
        found = self.state.next_pending()
        if found is None:
            return False
        self.begin(*found, at)
        return True

    def begin(self, task_idx: int, subtask_idx: int, at: float) -> None:
        """Make this the current subtask, in progress."""
        scope = self._scope(task_idx, subtask_idx)
        self.emit(ev.SubtaskStarted(at=at, task_idx=task_idx, subtask_idx=subtask_idx, scope=scope))

    def _scope(self, task_idx: int, subtask_idx: int) -> Any:
        state, width = self.state, self.loops.scope
        if not self.loops.progress_aware or width == "goal":
            return "keep"
        if width == "task" and task_idx == state.current_task_idx:
            return "keep"
        inherits = state.goal.tasks[task_idx].subtasks[subtask_idx].inherits
        return "inherit" if inherits and state.inherited else "new"

    def plan(
        self,
        tasks: tuple[ev.PlannedTask, ...],
        replan: Any,
        at: float,
        checks: Sequence[tuple[str, str]] = (),
    ) -> None:
        """Take a plan: the first one, or the replan that was asked for. Raises `WrongState`.

        `checks` are those (name, command) that the agent suggests with it.
        """
        state = self.state
        required = state.replan_required
        if required == "person":
            raise WrongState(f"the goal waits for a person: {state.question or state.reason}")
        if replan != (required or None):
            asked = f"`replan: {required!r}` is required" if required else "no replan is required"
            raise WrongState(f"`replan` is {replan!r}, but {asked}")
        if replan is None and (state.planned or state.proposed):
            what = "has a plan" if state.planned else "has begun without a plan"
            raise WrongState(
                f"the goal {what}; `plan` with `replan: null` is only possible before anything else"
            )
        if replan == "task" and len(tasks) != 1:
            raise WrongState(f"a replan of the task takes exactly one task, not {len(tasks)}")
        self.emit(ev.Planned(at=at, tasks=tasks, replan=replan))
        for name, cmd in taken(self.state, checks):
            self.emit(ev.CheckProposed(at=at, name=name, cmd=cmd))
        self._start_next(at)

    def complete_subtask(self, at: float, *, success: bool, failure: str, summary: str = "") -> Any:
        """End the current subtask, or count a failed attempt at it; gives the level escalated to."""
        self.need_no_replan()
        current = self.state.subtask
        if current is None or current.status != StepStatus.IN_PROGRESS:
            return None
        if success:
            self.emit(ev.SubtaskEnded(at=at, status="completed", summary=summary[:MESSAGE_CHARS]))
            if self.state.task and self.state.task.status == StepStatus.COMPLETED:
                self.emit(ev.TaskCompleted(at=at, task_idx=self.state.current_task_idx))
            return None
        return self._fail(failure[:MESSAGE_CHARS] or "the agent gave no reason", at, "agent")

    def advance(self, at: float) -> bool:
        """Start the next pending subtask; the current one stays while it is open. False: none is left."""
        self.need_no_replan()
        current = self.state.subtask
        if current and current.status == StepStatus.IN_PROGRESS:
            return True
        return self._start_next(at)

    def need_no_replan(self) -> None:
        """Raise WrongState while a replan, or a person, is waited for."""
        required = self.state.replan_required
        if required == "person":
            raise WrongState(
                f"the goal waits for a person: {self.state.question or self.state.reason}"
            )
        if required:
            raise WrongState(f"the subtask is blocked: `plan` with `replan: {required!r}` first")

    def _fail(self, failure: str, at: float, cause: Any) -> Level | None:
        self.emit(ev.SubtaskFailed(at=at, failure=failure, cause=cause))
        subtask = self.state.subtask
        if subtask is None or subtask.attempts < self.loops.failure_limit:
            return None
        times = subtask.attempts
        reason = f"failed: {failure}" if times == 1 else f"failed {times} times, last: {failure}"
        return self._escalate(reason, subtask.attempts, at)

    def _escalate(self, reason: str, times: int, at: float) -> Level:
        event = escalation(self.state, reason, self.loops.replan_limit).model_copy(
            update={"at": at}
        )
        self.emit(event)
        self.emit(
            ev.LoopDetected(
                at=at,
                loop="failures",
                attempt_count=times,
                evidence=reason,
                escalated_to=event.to,
            )
        )
        if event.to == "person":
            self.block_goal(reason, at, question=person_question(self.state, reason))
        return event.to

    def fail(self, failure: str, at: float) -> Level | None:
        """Count a failed attempt at the current subtask, seen from outside; gives the level escalated to."""
        return None if self.state.replan_required else self._fail(failure, at, "agent")

    def block_goal(
        self,
        reason: str,
        at: float,
        *,
        question: str,
        stranger: Identity | None = None,
        gone: bool = False,
    ) -> None:
        """Hand the goal to a person, unless it waits for one already or has ended; see GoalBlocked."""
        if self.state.goal.status != GoalStatus.BLOCKED and not self.state.ended:
            self.emit(
                ev.GoalBlocked(
                    at=at, reason=reason, question=question, stranger=stranger, gone=gone
                )
            )

    def question_finish(self, at: float) -> str:
        """Question a claim that the goal is done where its last action failed; "" where nothing is to be asked.

        Each failed action is asked about once.
        """
        found = unheeded(self.state)
        if found is None or found[1].seq == self.state.questioned:
            return ""
        message = question(*found)
        self.emit(ev.FinishQuestioned(at=at, of=found[1].seq, message=message))
        return message

    def retry_succeeds(self, at: float) -> None:
        """Let a goal that is retried while it waits go on: its worker has got what it waited for."""
        if self.state.waits_for_time:
            self.emit(ev.GoalStarted(at=at))

    def finish_failed(self, summary: str, at: float) -> None:
        """End the goal as failed: the agent says that it cannot be done."""
        self.emit(
            ev.GoalEnded(at=at, status="failed", reason=head(summary) or "failed", summary=summary)
        )


def _budget_question(state: State, spent: str) -> str:
    return (
        f"For this goal {spent}. Grant the same amount again (`clew resume {state.goal_id}`), "
        f"or cancel it (`clew cancel {state.goal_id}`)?"
    )
