"""The deciding core of one goal, without I/O: commands and the time go in, events and answers come out.

A command judges, takes its events into the state at once and queues them; the driver (the daemon's session, or the
library) records what `take` returns *before* it answers the agent. A crash in between leaves a prefix of the ledger,
and every prefix is a state to continue from. Below it: TreeCommands for plans and escalation, GoalJournal for the rest.
"""

from dataclasses import dataclass, replace
from typing import Any

from clew_shared.core import answers, journal
from clew_shared.core.answers import ActionReport, Advice, Feedback, Verdict, WrongState
from clew_shared.core.questions import Question
from clew_shared.core.tree import MESSAGE_CHARS, TreeCommands
from clew_shared.gate.rules import Nudge, Proposal, Refusal, judge, review, theme
from clew_shared.judge.reading import words_of
from clew_shared.record import events as ev
from clew_shared.record.model import Action, GoalStatus, Level, Result
from clew_shared.record.scope import CLAIMED, UNKNOWN
from clew_shared.record.signature import signature
from clew_shared.record.state import InFlight
from clew_shared.text.shorten import beginning
from clew_shared.text.words import SAME_ANSWER, WARNINGS, times

IN_FLIGHT_MAX = 64
THOUGHT_CHARS = 2_000
REASON_CHARS = 400


@dataclass(slots=True)
class Core(TreeCommands):
    """Judges and records one goal; not safe for use from several threads."""

    def propose(self, tool: str, args: dict[str, Any], at: float, rationale: str = "") -> Verdict:
        """Judge a proposal, the workspace having just been measured; an allowed one is in flight until its outcome."""
        proposal = self._proposal(tool, args)
        answer = self._judged(proposal, at, rationale)
        return answer if isinstance(answer, Verdict) else self._refuse(proposal, answer, at)

    def propose_unseen(
        self, tool: str, args: dict[str, Any], at: float, rationale: str = ""
    ) -> Verdict | None:
        """Judge a proposal without a fresh measurement; None where a rule would refuse it, which decides nothing."""
        proposal = self._proposal(tool, args)
        if proposal.signature in self.state.loops.scope.blocks:
            return None
        answer = self._judged(proposal, at, rationale)
        return answer if isinstance(answer, Verdict) else None

    def _judged(
        self, proposal: Proposal, at: float, rationale: str = "", done: ActionReport | None = None
    ) -> Verdict | Refusal:
        if refused := self._out_of_order(at):
            verdict = self._refuse(proposal, refused, at, done)
            is_held = refused.reason == "budget" and self.hold_to_limits(at, acting=True)
            return replace(verdict, escalated_to="person") if is_held else verdict
        self.start(at)
        rerun = done is None and self.runbook and journal.in_vain(self.state, proposal.signature)
        answer = judge(self.state, proposal, self.loops, rerun=bool(rerun))
        if isinstance(answer, Refusal):
            return answer
        return self._allow(proposal, answer, at, rationale)

    def last_run(self, tool: str, args: dict[str, Any]) -> Action | None:
        return journal.last_run(self.state, self._proposal(tool, args).signature)

    def asks_first(self, tool: str, args: dict[str, Any]) -> Action | None:
        """Return the last run of a runbook's step that a person must be asked about before it runs again."""
        is_open = self.state.goal.status == GoalStatus.IN_PROGRESS and not self.state.attempt.over
        name = self._proposal(tool, args).signature
        return journal.needs_word(self.state, name) if self.runbook and is_open else None

    def ask_about_step(self, ran: Action, asked: Question, at: float) -> None:
        """Escalate the goal to a person for a runbook's step; one that has failed blocks its subtask."""
        if ran.result != Result.INTERRUPTED:
            self.emit(ev.Escalated(at=at, to="person", reason=asked.reason))
            failures = self.state.subtask.attempts if self.state.subtask else 0
            if failures > 1:
                self._note_failures(failures, asked.reason, "person", at)
        self.ask(asked, at)

    def outcome(self, seq: int, report: ActionReport, at: float, *, last: bool = False) -> Feedback:
        """Record the outcome of an action, once; `last`: the agent is being stopped, and heeds nothing any more."""
        if (flight := self.state.in_flight.get(seq)) is None:
            return Feedback(known=False)
        self._finish(seq, report, at)
        feedback = Feedback() if last else self._review(at)
        feedback.changed = flight.action.changed
        return feedback

    def record(self, tool: str, args: dict[str, Any], report: ActionReport, at: float) -> Verdict:
        """Judge and record what an agent has already done; refused means that it must not be done again."""
        proposal = self._proposal(tool, args)
        flight = InFlight(0, proposal.signature, Action(tool, args))
        proposal = replace(proposal, known=answers.known_outcome(self.state, flight, report))
        verdict = self._judged(proposal, at, done=report)
        if isinstance(verdict, Refusal):
            return self._refuse(proposal, verdict, at, done=report)
        if not verdict.allowed:
            return verdict
        self._finish(verdict.seq, report, at)
        heard = self._review(at)
        word = heard.intervention or verdict.intervention
        return replace(verdict, intervention=word, escalated_to=heard.escalated_to)

    def interrupt(
        self,
        reason: str,
        at: float,
        *,
        counts: bool,
        only: int | None = None,
        detail: str = "",
        said: str = "",
    ) -> list[int]:
        """Record that the effect of all (`only`: of one) in flight is unknown; `said` is the end of what it printed."""
        seqs, output = [s for s in self.state.in_flight if only in (None, s)], _stored(said)
        for of in seqs:
            event = ev.ActionInterrupted(at=at, of=of, reason=reason, counts=counts, detail=detail)
            self.emit(event, output)
        return seqs

    def turn_away(self, tool: str, args: dict[str, Any], at: float, message: str) -> Verdict:
        """Refuse a proposal without asking a rule, since no action is carried out any more; `message` states why."""
        return self._refuse(self._proposal(tool, args), self._stopped(message), at)

    def _stopped(self, message: str) -> Refusal:
        """Return the refusal of what is not carried out any more: a limit that was reached, else `message`."""
        if spent := journal.blocked_by_limit(self.state):
            return _over_limit(spent)
        return Refusal(message, reason="stopped", loop=False)

    def _proposal(self, tool: str, args: dict[str, Any]) -> Proposal:
        name = signature(tool, args, self.state.spec.workspace)
        return Proposal(tool, args, name, calls=self.calls)

    def _out_of_order(self, at: float) -> Refusal | None:
        """Return the refusal of any proposal, for which no rule need be asked; None where one is in order."""
        state = self.state
        if level := state.plan.replan_required:
            message = (
                f"The subtask is blocked: replan the {level} first (`plan` with replan: {level!r})."
            )
            if level == "person":
                message = f"The goal waits for a person: {state.reason}"
            return Refusal(message, reason="replan_required", loop=False)
        if state.attempt.over:
            return self._stopped("This attempt is over; nothing more is carried out in it.")
        if state.goal.status != GoalStatus.IN_PROGRESS:
            return self._stopped(f"The goal is {state.goal.status}; nothing more is carried out.")
        if len(state.in_flight) >= IN_FLIGHT_MAX:
            raise WrongState(f"{IN_FLIGHT_MAX} actions are in flight; report their outcomes first")
        spent = self.budget_spent(at, acting=True)
        return _over_limit(spent) if spent else None

    def _allow(self, proposal: Proposal, nudge: Nudge | None, at: float, rationale: str) -> Verdict:
        name = proposal.signature
        allowed = ev.ActionAllowed(
            at=at, epoch=self.state.epoch, attempt=self.state.attempt.number,
            tool=proposal.tool, args=proposal.args, signature=name, rationale=rationale[:MESSAGE_CHARS],
            run=journal.run_number(self.state, name, is_step=self.runbook),
        )  # fmt: skip
        seq = self.emit(allowed)
        if nudge is None:
            return Verdict(True, seq, at=at)
        advice = Advice("repetition", nudge.message)
        of = self.emit(ev.Intervened(at=at, intervention=advice.kind, message=advice.message))
        counted = replace(nudge, steps=(*nudge.steps, seq))
        self._emit_loop(advice.kind, proposal, counted, of, at)
        return Verdict(True, seq, intervention=advice, at=at)

    def _refuse(
        self, proposal: Proposal, refusal: Refusal, at: float, done: ActionReport | None = None
    ) -> Verdict:
        blocked = ev.ActionBlocked(
            at=at, epoch=self.state.epoch, attempt=self.state.attempt.number,
            tool=proposal.tool, args=proposal.args, signature=proposal.signature,
            reason=refusal.reason, message=refusal.message, everywhere=refusal.everywhere,
            makes_block=refusal.reason if refusal.loop else "",
            counts=refusal.reason == "blocked_action", done=done is not None,
        )  # fmt: skip
        seq = self.emit(blocked)
        if done is not None:
            self._finish(seq, done, at)
        level = self._escalate_proposals(at)
        if refusal.loop:
            self._emit_loop(refusal.reason, proposal, refusal, seq, at)
        return Verdict(False, seq, refusal.reason, refusal.message, escalated_to=level, at=at)

    def _emit_loop(self, loop: str, proposal: Proposal, found: Nudge, of: int, at: float) -> None:
        found_loop = ev.LoopDetected(
            at=at, loop=loop, signature=proposal.signature, attempt_count=found.attempt,
            evidence=found.evidence, of=of, steps=found.steps,
        )  # fmt: skip
        self.emit(found_loop)

    def _escalate_proposals(self, at: float) -> Level | None:
        count = self.state.loops.blocked_proposals
        if self.state.plan.replan_required or count < self.loops.blocked_limit:
            return None
        reason = f"it proposed refused actions again {times(count)}"
        return None if self.start_over(reason, at) else self._escalate(reason, count, at)

    def _finish(self, seq: int, report: ActionReport, at: float) -> None:
        event = answers.finished_event(self.state, self.state.in_flight[seq], report, at)
        self.emit(event, _stored(report.output))

    def think(self, text: str, at: float, *, has_tool_calls: bool) -> Feedback:
        short = beginning(text.strip(), THOUGHT_CHARS)
        said = {"text": short, "theme": theme(text), "words": words_of(short)}
        self.emit(ev.Thought(at=at, has_tool_calls=has_tool_calls, **said))
        return self._review(at)

    def reflect(self, event: ev.Reflected) -> Feedback:
        """Record an iteration record: one turn is over."""
        attention = self.state.loops.attention
        told = attention.told_at > attention.turn_steps  # of a step of this turn
        self.emit(event)
        if not event.unfinished:
            self.messages = 0
        if self.hold_to_limits(event.at):
            return Feedback(escalated_to="person")
        at_work = self.state.goal.status == GoalStatus.IN_PROGRESS and self._is_in_progress()
        if at_work and journal.iterations_used_up(self.state, self.limits):
            used = self.state.iteration - self.state.attempt.from_iteration
            reason = f"its {used} turns were used up"
            if self.start_over(reason, event.at, advancing=journal.advances(self.state)):
                return Feedback()
            return Feedback(escalated_to=self.fail(reason, event.at))
        return Feedback() if told else self._review(event.at)

    def _review(self, at: float) -> Feedback:
        """Intervene if a streak calls for it, except for a runbook; what is ignored is a failure of the subtask."""
        if self.runbook or self.state.attempt.over:
            return Feedback()
        found = review(self.state, self.loops, self.calls)
        if found is None:
            return Feedback()
        kind, seq = found.intervention, self.emit(found.model_copy(update={"at": at}))
        line, steps = found.message.partition("\n")[0], found.steps or ()
        self.emit(ev.LoopDetected(at=at, loop=kind, evidence=line, of=seq, steps=steps))
        intervention = Advice(kind, found.message)
        ignored = self.state.loops.ignored_interventions
        if ignored < self.ignored_limit or self.state.plan.replan_required:
            return Feedback(intervention)
        warned = SAME_ANSWER if found.stays else WARNINGS[kind]
        if kind == "nothing_new" and self.start_over(kind, at):
            return Feedback(intervention)
        failure = f"it did not react to {self.ignored_limit} warnings; the last: {warned}"
        return Feedback(intervention, self._fail(failure, at, "ignored_interventions"))

    @property
    def goes_by_a_claim(self) -> bool:
        """Return whether an agent claimed the present world, and nothing has measured it since."""
        return self.state.loops.world.startswith(CLAIMED)

    def see_world(self, world: str, at: float, *, unseen_work: bool = False) -> bool:
        """Record a fresh digest of the workspace; returns whether it is another world than was believed.

        UNKNOWN is news only after an action of unknown effect, or `unseen_work`: that of an agent without a report.
        """
        before, subtask = self.state.loops.world, self.state.subtask
        cut_off = [a for a in subtask.actions[-1:] if a.result == "interrupted"] if subtask else []
        news = world not in (before, self.state.loops.measured)
        if world == UNKNOWN:
            news = unseen_work or not before or bool(cut_off)
        if world and news:
            self.emit(ev.WorldSeen(at=at, world=world))
        return self.state.loops.world != before

    def drop_claim(self, world: str, at: float) -> None:
        if world and self.goes_by_a_claim:
            self.emit(ev.WorldSeen(at=at, world=world, instead=True))

    def retry_succeeds(self, at: float) -> None:
        """Continue a goal that was retried while it waits: its worker has got what it waited for."""
        if self.state.waits_for_time:
            self.emit(ev.GoalStarted(at=at))

    def finish_failed(self, summary: str, at: float) -> None:
        reason = beginning(summary.strip(), REASON_CHARS) or "failed"
        self.emit(ev.GoalEnded(at=at, status="failed", reason=reason, summary=summary))


def _stored(output: str | None) -> bytes | None:
    return output.encode("utf-8", "replace") if output else None


def _over_limit(spent: str) -> Refusal:
    return Refusal(f"Refused: {spent}. A person has to decide.", reason="budget", loop=False)
