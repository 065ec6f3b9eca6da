"""The methods that judge, carry out and record actions: `act`, `propose`, `outcome`, `record`.

A verdict and an outcome are durable before the agent learns of them (docs/guarantees.md).

The executor finds out who made a change for what it carries out itself. For an agent with its own tools it looks while
a `propose` is judged and recorded, and at the `outcome`: what changed while at least one of its
actions was in flight is the goal's, and reported with the first of them to end. An outcome that says that nothing was
changed waits for no look. A `record` comes after the fact: what changed since the last look is its. Where a look fails,
anything may have been changed by anyone. Other agents cannot write to the workspace, so what they report to have done
has changed nothing there.
"""

import asyncio
import time
from contextlib import suppress
from functools import partial
from typing import Any

from clew_daemon.host.hidden import hidden
from clew_daemon.processes.executor import ExecutorDied, WorkspaceMissingError
from clew_daemon.record.changed_files import changed_by
from clew_daemon.record.pages import event_at
from clew_daemon.record.store import end_of, output_of
from clew_daemon.session.checks import Checks
from clew_daemon.session.epoch import Epoch
from clew_daemon.session.snapshots import from_store
from clew_daemon.session.worker import digest_request
from clew_shared.core import questions
from clew_shared.core.answers import ActionReport, Feedback, Verdict, WrongState, reading_of
from clew_shared.ledger.errors import SEQ_MAX
from clew_shared.proof.judges import Patterns, is_judge
from clew_shared.record import events as ev
from clew_shared.record.codec import decode
from clew_shared.record.model import Action, Result
from clew_shared.record.scope import UNKNOWN
from clew_shared.record.state import InFlight
from clew_shared.record.touched import Touched
from clew_shared.text.redact import redact, redacted
from clew_shared.text.words import cut_off
from clew_shared.views.publish import plain_paths
from clew_shared.wire import protocol
from clew_shared.wire.answers import ActionOutcome, Judged, Noted
from clew_shared.wire.executor import ActionDone, RunRequest

NAME_CHARS = 500  # A longer path takes too long to be judged by its name
HINT_S = 2.0  # How long a question waits for a look at the paths that a step has named
CHANGED_S = 20.0  # How long a question waits for the names of the files that a step has changed
CUT_OFF = ActionOutcome(
    result="interrupted", output="", duration_s=0.0, changed=None, reason="executor_died"
)
NO_FEEDBACK = Feedback()
NO_RULE = ("budget", "replan_required", "stopped")  # refusals without a look at what is proposed


class Actions:
    """The actions of one worker, one after the other."""

    def __init__(self, epoch: Epoch, checks: Checks) -> None:
        self._epoch = epoch
        self._checks = checks

    async def act(self, p: protocol.Act) -> Judged:
        """Judge an action, carry it out where it is allowed, and record its outcome."""
        epoch, runs_steps = self._epoch, self._epoch.kind == "runbook"
        await self._checks.run_before()
        await epoch.see_past_claims()
        clean = _redacted(p)
        if runs_steps and not epoch.stopping and (ran := epoch.core.asks_first(p.tool, clean.args)):
            await ask_about_step(epoch, ran)
            raise WrongState("a person is asked whether this step may run again")
        verdict = await self._judge(clean)
        if not verdict.allowed:
            by_rule = runs_steps and verdict.reason not in NO_RULE
            if by_rule and (ran := epoch.core.last_run(p.tool, clean.args)):
                await ask_about_step(epoch, ran, verdict.reason)  # a runbook has no other way
            return judged(verdict)
        report = await self._carry_out(verdict, p)
        ended_at = time.time()
        if isinstance(report, str):
            return await self._cut_off(verdict, report, ended_at)
        with epoch.recording() as core:
            feedback = core.outcome(verdict.seq, report, ended_at, last=epoch.stopping)
        epoch.snapshots.acted(too_many=report.touched.own_cut)
        await self._recorded(report)
        if report.result == "error":
            await epoch.hand_over_if_missing()
        return judged(verdict, feedback, outcome=outcome_of(report, feedback), at=ended_at)

    async def propose(self, p: protocol.Propose) -> Judged:
        epoch = self._epoch
        await self._checks.run_before()
        asked, before = None, digest_request(own=epoch.agent_acts, names_only=True)
        if epoch.own_tools:
            # In a snapshot that begins later, what has changed would count as the action's.
            await epoch.snapshots.settled()
            # What has changed until the agent learns of the verdict is not this action's.
            asked = epoch.executors.asked(before)
        verdict = await self._judge(_redacted(p))
        if epoch.own_tools:
            await epoch.executors.measured(before, asked)
        if verdict.allowed:
            await epoch.commit()
        return judged(verdict)

    async def outcome(self, p: protocol.Outcome) -> Noted:
        """Record the outcome of an allowed action that the agent has carried out; a second report changes nothing."""
        epoch = self._epoch
        if p.result == "interrupted":
            with epoch.recording() as core:
                core.interrupt("the agent says so", time.time(), counts=False, only=p.seq)
            if not epoch.stopping:
                await epoch.see_world()  # else the next action would be taken for what this one did
            await epoch.commit()
            return noted(NO_FEEDBACK)
        flight = epoch.core.state.in_flight.get(p.seq)
        report = await self._reported(p, flight) if flight else ActionReport(p.result)
        with epoch.recording() as core:
            feedback = core.outcome(p.seq, report, time.time(), last=epoch.stopping)
        if not feedback.known:  # it may be reported twice
            event = event_at(epoch.parts.goals.ledger, epoch.goal_id, p.seq)
            if not isinstance(event, ev.ActionAllowed):
                raise WrongState(f"no action {p.seq} of this goal was allowed")
        await self._recorded(report)
        return noted(feedback)

    async def record(self, p: protocol.Record) -> Judged:
        report = await self._reported(p)
        tool, args = redact(p.tool), redacted(p.args)
        with self._epoch.recording() as core:
            verdict = core.record(tool, args, report, time.time())
        await self._recorded(report)
        return Judged(allowed=verdict.allowed, **_words(verdict))

    # -- before an action ----------------------------------------------------------------------------

    async def _judge(self, p: protocol.Act) -> Verdict:
        """Judge a proposal without secret keys; before a refusal, look whether the workspace is still what it was.

        A refusal is durable. An allowed action is still being recorded: await `commit` before telling or acting on it.
        """
        epoch = self._epoch
        if epoch.stopping:
            reason = "The worker is being stopped; nothing more is carried out."
            return await epoch.record(lambda c: c.turn_away(p.tool, p.args, time.time(), reason))
        with epoch.entering() as core:
            verdict = core.propose_unseen(p.tool, p.args, time.time(), p.rationale)
        if verdict is None:
            await epoch.see_world()
            with epoch.entering() as core:
                verdict = core.propose(p.tool, p.args, time.time(), p.rationale)
        if not verdict.allowed:
            await epoch.commit()
        return verdict

    async def _carry_out(self, verdict: Verdict, p: protocol.Act) -> ActionReport | str:
        """Run an allowed action once its verdict is durable; return how the executor died where that is so."""
        epoch = self._epoch
        if p.tool == "recall":
            await self._tell_allowed(verdict)
            return self._recall(p.args)
        began = time.monotonic()
        await epoch.snapshots.settled()
        try:
            executor = await epoch.executors.executor()
            await epoch.snapshots.before_action(executor)
            timeout_s, limit = epoch.action_limit(p.tool, p.args)
            epoch.work.said = ""
            await self._tell_allowed(verdict)
            request = RunRequest(
                seq=verdict.seq, tool=p.tool, args=p.args, timeout_s=timeout_s, limit=limit,
                output_bytes=epoch.settings.limits.output_bytes,
            )  # fmt: skip
            done = await executor.run(request, epoch.work.hear)
        except WorkspaceMissingError as error:
            return ActionReport("error", f"Nothing was done: {error}", changed=False)
        except ExecutorDied as error:
            await epoch.executors.died(str(error), expected=epoch.stopping)
            return str(error)
        return _report(done, self._marked(done.touched), time.monotonic() - began)

    async def _tell_allowed(self, verdict: Verdict) -> None:
        """Wait until a verdict is durable; a bridge is told then, since its model may have to know the number early."""
        await self._epoch.commit()
        if self._epoch.kind == "cli":
            self._epoch.notify("allowed", {"seq": verdict.seq})

    def _recall(self, args: dict[str, Any]) -> ActionReport:
        seq, found = args.get("seq"), None
        if type(seq) is int and 0 <= seq <= SEQ_MAX:
            found = output_of(self._epoch.parts.goals.ledger, self._epoch.goal_id, seq)
        if found is None:
            needed = "the number of an earlier action with an output"
            return ActionReport(
                "error", f"recall needs `seq`, {needed}, not {seq!r}", changed=False
            )
        return ActionReport("success", found, changed=False)

    # -- after an action -----------------------------------------------------------------------------

    async def _cut_off(self, verdict: Verdict, died: str, at: float) -> Judged:
        """Record that the effect of an action is unknown: its executor died, in this way."""
        epoch = self._epoch
        epoch.refuse_while_stopping()  # it was cut off: the end of the worker is recorded with it
        said = redact(epoch.work.said)
        with epoch.recording() as core:
            core.interrupt(
                "executor_died", at, counts=True, only=verdict.seq, detail=died, said=said
            )
        await epoch.see_world()  # else the next action would be taken for what this one did
        epoch.snapshots.executor_died(verdict.seq)
        await epoch.commit()
        return judged(verdict, outcome=CUT_OFF)

    async def _recorded(self, report: ActionReport) -> None:
        """Wait until an outcome is durable, and a snapshot shows what was too much to list."""
        await self._epoch.commit()
        if report.touched.own_cut:
            await self._epoch.snapshots.settled()

    async def _reported(
        self, p: protocol.Outcome | protocol.Record, flight: InFlight | None = None
    ) -> ActionReport:
        """Return what an agent reports, with the world where it leaves out `changed`.

        What an agent with its own tools has touched is measured, beside the commit where it says that it is nothing;
        the answer of the action in `flight` is read beside that look.
        """
        epoch, executors = self._epoch, self._epoch.executors
        output = None if p.output is None else redact(p.output)
        report = partial(
            ActionReport,
            p.result,
            output,
            p.changed,
            duration_s=p.duration_s or 0.0,
            exit_code=getattr(p, "exit_code", None),
        )
        if not epoch.own_tools:
            return report(world="" if p.changed is not None else await executors.digest())
        if p.changed is False:
            executors.look_aside()
            epoch.snapshots.acted(too_many=False)
            return report()
        request = digest_request(own=True, report=True, names_only=bool(p.changed))
        asked = executors.asked(request)
        reading = reading_of(flight, ActionReport(p.result, output)) if flight else None
        found = await executors.measured(request, asked)
        epoch.snapshots.acted(too_many=found.touched.own_cut)
        world = "" if p.changed else found.name
        return report(world=world, touched=self._marked(found.touched), reading=reading)

    def _marked(self, touched: Touched) -> Touched:
        """Return what an action has touched, with which of it judges by its name."""
        proof, judges = self._epoch.settings.proof, self._epoch.core.state.spec.judges
        known = Patterns((*proof.judges, *judges), proof.ignore)
        names = (path for path in plain_paths(touched.paths) if len(path) <= NAME_CHARS)
        found = tuple(path for path in names if is_judge(path, known))
        return touched.model_copy(update={"judges": found}) if found else touched


async def ask_about_step(epoch: Epoch, ran: Action, refused: str = "") -> None:
    """Hand the goal to a person with what is known of a step's last run; `refused` is the rule that refuses it now."""
    ledger, goal = epoch.parts.goals.ledger, epoch.goal_id
    end = end_of(ledger, goal, ran.seq)
    event = decode(end.body) if end else None
    cause = ""
    if isinstance(event, ev.ActionInterrupted):
        cause = cut_off(event.reason)
        cause += f": {event.detail}" if event.detail else ""
    changed = None if ran.changed is None else plain_paths(ran.paths)
    if ran.result == Result.INTERRUPTED:
        changed = await _changed_by_interrupted(epoch, ran)
    said, hint = output_of(ledger, goal, ran.seq) or "", ""
    with suppress(OSError, ValueError, TimeoutError):
        async with asyncio.timeout(HINT_S):
            known = (epoch.core.state.spec.workspace, epoch.parts.places, epoch.settings.sandbox)
            hint = await asyncio.to_thread(hidden, said, *known)
    asked = questions.step(
        epoch.core.state, ran, refused=refused, cause=cause, said=said, changed=changed, hint=hint
    )
    await epoch.record(lambda core: core.ask_about_step(ran, asked, time.time()))


async def _changed_by_interrupted(epoch: Epoch, ran: Action) -> list[str] | None:
    """Return what an action that was cut off has changed, by the snapshots around it; None where that is not known."""
    await epoch.snapshots.settled()
    if not epoch.core.state.snapshots.first:
        return None
    parts, goal, unknown = epoch.parts, epoch.goal_id, "step.changes_unknown"
    read = partial(changed_by, parts.goals.ledger, goal, action=ran.seq)
    return await from_store(parts, goal, CHANGED_S, read, unknown, action=ran.seq)


def _redacted(p: protocol.Act) -> protocol.Act:
    """Return a proposal as it is judged and recorded: without secret keys."""
    return protocol.Act.model_construct(
        tool=redact(p.tool), args=redacted(p.args), rationale=redact(p.rationale)
    )


def _report(done: ActionDone, touched: Touched, took_s: float) -> ActionReport:
    """Return what the core learns of an action; what the tool says of changes counts where nothing was measured."""
    world = done.world.name if done.world else ""
    return ActionReport(
        done.result,
        redact(done.output),
        done.changed if world == UNKNOWN else None,
        world,
        duration_s=done.duration_s or took_s,
        exit_code=done.exit_code,
        touched=touched,
    )


# -- answers -----------------------------------------------------------------------------------------


def noted(feedback: Feedback, **more: Any) -> Noted:
    told = {"intervention": feedback.intervention, "escalated_to": feedback.escalated_to}
    return Noted(**told, **more)


def judged(verdict: Verdict, feedback: Feedback = NO_FEEDBACK, **done: Any) -> Judged:
    return Judged(**_words(verdict, feedback), **done)


def outcome_of(report: ActionReport, feedback: Feedback) -> ActionOutcome:
    code = {} if report.exit_code is None else {"exit_code": report.exit_code}
    said = {"result": report.result, "output": report.output or "", **code}
    measured = {"duration_s": report.duration_s, "changed": feedback.changed}
    return ActionOutcome.model_validate(said | measured)


def _words(verdict: Verdict, feedback: Feedback = NO_FEEDBACK) -> dict[str, Any]:
    refused = {} if verdict.allowed else {"reason": verdict.reason, "message": verdict.message}
    return {
        "verdict": "allowed" if verdict.allowed else "blocked",
        "seq": verdict.seq,
        "intervention": feedback.intervention or verdict.intervention,
        "escalated_to": feedback.escalated_to or verdict.escalated_to,
        **refused,
    }
