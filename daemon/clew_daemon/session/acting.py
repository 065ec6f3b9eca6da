"""The methods that judge, carry out and record actions: `act`, `propose`, `outcome`, `record`.

A verdict and an outcome are durable before the agent learns of them (docs/guarantees.md).

Whose a change in the workspace is, the executor finds out for what it carries out. For an agent with its own tools it
looks while the verdict on `propose` becomes durable, and at the `outcome`: what changed while at least one of its
actions was in flight is the goal's, and reported with the first of them to end. A `record` comes after the fact: what
changed since the last look is its. Where a look fails, anything may have been changed by anyone. Other agents cannot
write to the workspace, so what they report to have done has changed nothing there.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

import structlog

from clew_daemon.host.git import program
from clew_daemon.processes.executor import ExecutorDied, OutOfResources, WorkspaceMissingError
from clew_daemon.record.changed_files import changed_by
from clew_daemon.record.store import end_of, output_of
from clew_daemon.session.checks import Checks
from clew_daemon.session.desk import GoalDesk
from clew_shared.core import questions
from clew_shared.core.answers import ActionReport, Advice, Feedback, LookFirst, Verdict, WrongState
from clew_shared.ledger.errors import SEQ_MAX
from clew_shared.record import events as ev
from clew_shared.record.codec import decode
from clew_shared.record.model import Action, Result
from clew_shared.record.touched import Touched
from clew_shared.record.worlds import UNKNOWN
from clew_shared.snapshots.store import StoreError, at
from clew_shared.text.plain import plain
from clew_shared.text.redact import redact, redacted
from clew_shared.text.words import ending
from clew_shared.views.publish import plain_paths
from clew_shared.wire import protocol
from clew_shared.wire.answers import ActionOutcome, Intervention, Judged, Noted, Recorded
from clew_shared.wire.executor import ActionDone

log = structlog.get_logger()

CHANGED_S = 20.0
"""How long a question waits for the names of the files that a step has changed."""


async def ask_about_step(desk: GoalDesk, ran: Action, refused: str = "") -> None:
    """Hand the goal to a person with what is known of a step's last run; `refused` is the rule that refuses it now."""
    ledger, goal = desk.parts.goals.ledger, desk.goal_id
    end = end_of(ledger, goal, ran.seq)
    event = decode(end.body) if end else None
    cause = ""
    if isinstance(event, ev.ActionInterrupted):
        stopped = event.reason == "stopped"
        cause = "its worker was stopped" if stopped else ending(event.reason)
        cause += f": {event.detail}" if event.detail else ""
    said = output_of(ledger, goal, ran.seq) or ""
    is_cut_off = ran.result == Result.INTERRUPTED
    changed = await _changed(desk, ran) if is_cut_off else _recorded(ran)
    asked = questions.step(
        desk.core.state, ran, refused=refused, cause=cause, said=said, changed=changed
    )
    await desk.record(lambda core: core.ask_about_step(ran, asked, time.time()))


def _recorded(ran: Action) -> list[str] | None:
    return None if ran.changed is None else plain_paths(ran.paths)


async def _changed(desk: GoalDesk, ran: Action) -> list[str] | None:
    """Return what an action that was cut off has changed, by the snapshots around it; None where that is not known."""
    await desk.snapshots.settled()
    if not desk.core.state.snapshots.first:
        return None
    parts, goal = desk.parts, desk.goal_id
    store = at(parts.places.snapshots / goal, program(parts.keys.env))
    try:
        with parts.children.starting_own():
            async with asyncio.timeout(CHANGED_S):
                return await asyncio.to_thread(changed_by, parts.goals.ledger, goal, store, ran.seq)
    except (StoreError, OSError, TimeoutError) as error:
        log.warning("step.changes_unknown", goal=goal, action=ran.seq, reason=plain(error))
        return None


_CUT_OFF = ActionOutcome(
    result="interrupted", output="", duration_s=0.0, changed=None, reason="executor_died"
)

NO_FEEDBACK = Feedback()

NO_RULE = ("budget", "replan_required", "stopped")
"""Why a proposal is refused without a look at what it is."""


class Acting:
    """The actions of one worker, one after the other."""

    def __init__(self, desk: GoalDesk, checks: Checks) -> None:
        self._desk = desk
        self._checks = checks

    async def act(self, p: protocol.Act) -> Judged:
        """Judge an action, carry it out where it is allowed, and record its outcome."""
        desk = self._desk
        await desk.ready.wait()
        await self._checks.run_before()
        await desk.look_past_claims()
        clean = _redacted(p)
        if desk.traits.is_runbook:
            await self._ask_first(clean)
        verdict = await self._judge(clean)
        if not verdict.allowed:
            if desk.traits.is_runbook and verdict.reason not in NO_RULE:
                await self._ask_about_refusal(clean, verdict.reason)
            return _judged(verdict)
        report = await self._carry_out(verdict, p)
        at = time.time()
        if isinstance(report, str):
            return await self._cut_off(verdict, report, at)
        with desk.recording() as core:
            feedback = core.outcome(verdict.seq, report, at, last=desk.stopping)
        desk.snapshots.acted(too_many=report.touched.own_cut)
        await desk.commit()
        await self._shown(report)
        if report.result == "error":
            await desk.hand_over_if_missing()
        return _judged(verdict, feedback, outcome=_outcome(report, feedback), at=at)

    async def _cut_off(self, verdict: Verdict, died: str, at: float) -> Judged:
        """Record that the effect of an action is unknown: its executor died, in this way."""
        desk = self._desk
        desk.refuse_while_stopping()  # it was cut off: the end of the worker is recorded with it
        with desk.recording() as core:
            core.interrupt(
                "executor_died",
                at,
                counts=True,
                only=verdict.seq,
                detail=died,
                said=redact(desk.work.said),
            )
        await desk.look()  # else the next action would be taken for what this one did
        desk.snapshots.executor_died(verdict.seq)
        await desk.commit()
        return _judged(verdict, outcome=_CUT_OFF)

    async def propose(self, p: protocol.Propose) -> Judged:
        """Judge an action that the agent carries out itself."""
        desk = self._desk
        await desk.ready.wait()
        await self._checks.run_before()
        if desk.traits.own_tools:
            # In a snapshot that begins later, what has changed would count as the action's.
            await desk.snapshots.settled()
        acts_already = desk.agent_acts
        verdict = await self._judge(_redacted(p))
        if not verdict.allowed:
            return _judged(verdict)
        if desk.traits.own_tools:
            # What has changed until the agent learns of the verdict is not this action's.
            await desk.executors.digest(full=False, own=acts_already)
        await desk.commit()
        return _judged(verdict)

    async def outcome(self, p: protocol.Outcome) -> Noted:
        """Record the outcome of an allowed action that the agent has carried out; a second report changes nothing."""
        desk = self._desk
        if p.result == "interrupted":
            with desk.recording() as core:
                core.interrupt("the agent says so", time.time(), counts=False, only=p.seq)
            if not desk.stopping:
                await desk.look()  # else the next action would be taken for what this one did
            await desk.commit()
            return noted(NO_FEEDBACK)
        report = ActionReport(p.result)
        if p.seq in desk.core.state.in_flight:
            report = await self._reported(p)
        with desk.recording() as core:
            feedback = core.outcome(p.seq, report, time.time(), last=desk.stopping)
        if not feedback.known and not desk.knows_action(p.seq):
            raise WrongState(f"no action {p.seq} of this goal was allowed")
        await desk.commit()
        await self._shown(report)
        return noted(feedback)

    async def record(self, p: protocol.Record) -> Recorded:
        """Judge and record an action that the agent has already carried out."""
        desk = self._desk
        await desk.ready.wait()
        report = await self._reported(p)
        tool, args = redact(p.tool), redacted(p.args)
        verdict = await desk.record(lambda core: core.record(tool, args, report, time.time()))
        await self._shown(report)
        return Recorded(allowed=verdict.allowed, **_words(verdict))

    async def _shown(self, report: ActionReport) -> None:
        """Wait for the snapshot of what was too much to list: what is changed after the answer is not the action's."""
        if report.touched.own_cut:
            await self._desk.snapshots.settled()

    async def _judge(self, p: protocol.Act) -> Verdict:
        """Judge a proposal without secret keys; before a refusal, look whether the workspace is still what it was.

        A refusal is durable. An allowed action is still being recorded: await `commit` before telling or acting on it.
        """
        desk = self._desk
        if desk.stopping:
            return await self._turn_away(p)
        with desk.entering() as core:
            verdict = core.propose(p.tool, p.args, time.time(), p.rationale, fresh=False)
        if isinstance(verdict, LookFirst):
            await desk.look()
            with desk.entering() as core:
                verdict = core.propose(p.tool, p.args, time.time(), p.rationale)
        if not verdict.allowed:
            await desk.commit()
        return verdict

    async def _ask_first(self, p: protocol.Act) -> None:
        """Ask a person whether a step that was cut off, or has failed, may run again; then raise WrongState."""
        if not self._desk.stopping and (ran := self._desk.core.asks_first(p.tool, p.args)):
            await ask_about_step(self._desk, ran)
            raise WrongState("a person is asked whether this step may run again")

    async def _ask_about_refusal(self, p: protocol.Act, reason: str) -> None:
        """Ask a person about a step that a rule has refused: a runbook has no other way."""
        if ran := self._desk.core.last_run(p.tool, p.args):
            await ask_about_step(self._desk, ran, reason)

    async def _turn_away(self, p: protocol.Act) -> Verdict:
        """Refuse what a worker that is being stopped still proposes; recorded as any other refusal."""
        reason = "The worker is being stopped; nothing more is carried out."
        return await self._desk.record(lambda c: c.turn_away(p.tool, p.args, time.time(), reason))

    async def _carry_out(self, verdict: Verdict, p: protocol.Act) -> ActionReport | str:
        """Run an allowed action once its verdict is durable; where its effect is unknown, return how the executor died.

        What it needs is made ready while the verdict is being recorded.
        """
        desk = self._desk
        if p.tool == "recall":
            await self._tell_allowed(verdict)
            return self._recall(p.args)
        began = time.monotonic()
        await desk.snapshots.settled()
        try:
            executor = await desk.executors.executor()
            await desk.snapshots.before_action(executor)
            timeout_s, limit = desk.action_limit(p.tool, p.args)
            desk.work.said = ""
            await self._tell_allowed(verdict)
            done = await executor.run(
                verdict.seq,
                p.tool,
                p.args,
                timeout_s=timeout_s,
                limit=limit,
                output_bytes=desk.settings.limits.output_bytes,
                env=desk.specs.trace.of_action(verdict.seq, verdict.at),
                said=desk.work.hear,
            )
        except OutOfResources:
            raise  # the action has not begun and is not to blame: the worker waits
        except WorkspaceMissingError as error:
            return ActionReport("error", f"Nothing was done: {error}", changed=False)
        except ExecutorDied as error:
            await desk.executors.died(str(error))
            return str(error)
        return _report(done, time.monotonic() - began)

    async def _tell_allowed(self, verdict: Verdict) -> None:
        """Wait until a verdict is durable; a bridge is told then, since its model may have to know the number early."""
        await self._desk.commit()
        if self._desk.traits.is_cli:
            self._desk.notify("allowed", {"seq": verdict.seq})

    def _recall(self, args: dict[str, Any]) -> ActionReport:
        seq = args.get("seq")
        if not isinstance(seq, int) or isinstance(seq, bool) or not 0 <= seq <= SEQ_MAX:
            return ActionReport(
                "error", "recall needs `seq`, the number of an earlier action", False
            )
        found = output_of(self._desk.parts.goals.ledger, self._desk.goal_id, seq)
        if found is None:
            return ActionReport("error", f"no earlier action {seq} with an output", False)
        return ActionReport("success", found, False)

    async def _reported(self, p: protocol.Outcome | protocol.Record) -> ActionReport:
        """Return what an agent reports.

        The workspace is measured where the report leaves out `changed`, and for an agent with its own tools.
        """
        executors, world, touched = self._desk.executors, "", Touched()
        if self._desk.traits.own_tools:
            world, touched = await executors.digest_of_own()
            self._desk.snapshots.acted(too_many=touched.own_cut)
        elif p.changed is None:
            world = await executors.digest(full=False)
        return ActionReport(
            p.result,
            None if p.output is None else redact(p.output),
            p.changed,
            world if p.changed is None else "",
            p.duration_s or 0.0,
            getattr(p, "exit_code", None),
            touched,
        )


def _redacted(p: protocol.Act) -> protocol.Act:
    """Return a proposal as it is judged and recorded: without secret keys."""
    clean = {
        "tool": redact(p.tool),
        "args": redacted(p.args),
        "rationale": redact(p.rationale),
    }
    return p.model_copy(update=clean)


def noted(feedback: Feedback) -> Noted:
    """Return the answer to what the agent has reported."""
    return Noted(
        intervention=_intervention(feedback.intervention), escalated_to=feedback.escalated_to
    )


def _report(done: ActionDone, took_s: float) -> ActionReport:
    """Return what the core learns of an action; what the tool says of changes counts where nothing was measured."""
    world = done.world.name if done.world else ""
    return ActionReport(
        done.result,
        redact(done.output),
        done.changed if world == UNKNOWN else None,
        world,
        done.duration_s or took_s,
        done.exit_code,
        done.touched,
    )


def _outcome(report: ActionReport, feedback: Feedback) -> ActionOutcome:
    code = {} if report.exit_code is None else {"exit_code": report.exit_code}
    return ActionOutcome.model_validate(
        {
            "result": report.result,
            "output": report.output or "",
            "duration_s": report.duration_s,
            "changed": feedback.changed,
            **code,
        }
    )


def _judged(verdict: Verdict, feedback: Feedback = NO_FEEDBACK, **done: Any) -> Judged:
    """Return the answer to a proposal; `done` are the fields of an action that was carried out."""
    return Judged(**_words(verdict, feedback), **done)


def _words(verdict: Verdict, feedback: Feedback = NO_FEEDBACK) -> dict[str, Any]:
    """Return what an answer says of a verdict, and of what followed from it."""
    refused = {} if verdict.allowed else {"reason": verdict.reason, "message": verdict.message}
    return {
        "verdict": "allowed" if verdict.allowed else "blocked",
        "seq": verdict.seq,
        "intervention": _intervention(feedback.intervention or verdict.intervention),
        "escalated_to": feedback.escalated_to or verdict.escalated_to,
        **refused,
    }


def _intervention(advice: Advice | None) -> Intervention | None:
    return Intervention(kind=advice.kind, message=advice.message) if advice else None
