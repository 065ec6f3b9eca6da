"""The method `finish`: the claim that a goal is reached is checked before it is accepted (docs/goal-files.md)."""

from __future__ import annotations

import time
from dataclasses import dataclass

from clew_daemon.session.checks import Checks
from clew_daemon.session.epoch import Epoch
from clew_daemon.session.hello import FeedbackSeen
from clew_shared.record import events as ev
from clew_shared.record.model import Level
from clew_shared.text.redact import redact
from clew_shared.wire import protocol
from clew_shared.wire.answers import ActionOutcome, Checked, FailingCheck, Finished, Judged

FEEDBACK_CAME = "Feedback from a person arrived that you may not have considered yet. Consider it, then finish again."


@dataclass(frozen=True, slots=True)
class Objections:
    """What speaks against a finish: checks that fail, subtasks that are open, or something to consider first."""

    failing: tuple[FailingCheck, ...] = ()
    open_subtasks: tuple[str, ...] = ()
    message: str = ""

    def __bool__(self) -> bool:
        return bool(self.failing or self.open_subtasks or self.message)

    @property
    def counts(self) -> bool:
        """It was too early to ask, and asking again changes nothing."""
        return bool(self.failing or (self.open_subtasks and not self.message))


class Finishing:
    """Decides whether a goal is over."""

    def __init__(self, epoch: Epoch, checks: Checks, feedback: FeedbackSeen) -> None:
        self._epoch = epoch
        self._checks = checks
        self._feedback = feedback

    async def finish(self, p: protocol.Finish) -> Finished:
        """End the goal, or return why it cannot end; one that has ended stays unchanged."""
        state, summary = self._epoch.core.state, redact(p.summary)
        if state.ended:
            accepted = (state.goal.status == "completed") == p.success
            return Finished(accepted=accepted, failing_checks=(), open_subtasks=())
        if not p.success:
            await self._epoch.decide(lambda core: core.finish_failed(summary, time.time()))
            left = tuple(state.open_subtasks())
            return Finished(accepted=True, failing_checks=(), open_subtasks=left)
        self._feedback.finishing()
        self._epoch.core.need_no_replan()
        if objections := await self._objections():
            return await self._refuse(objections)
        self._epoch.snapshots.acted(too_many=False)  # the checks may have changed something
        await self._epoch.snapshots.end()
        reached = ev.GoalEnded(
            at=time.time(),
            status="completed",
            summary=summary,
            verified=state.checked,
            passed_before=state.passed_before,
        )
        await self._epoch.decide(lambda core: core.emit(reached))
        return Finished(accepted=True, failing_checks=(), open_subtasks=())

    async def check(self, p: protocol.Check) -> Checked:
        """Run the goal's checks before anyone asks to finish; they are recorded, and nothing follows from them."""
        self._epoch.core.need_no_replan()
        await self._epoch.require_workspace()
        failing = await self._checks.run_early(p.within_s)
        await self._epoch.require_workspace()
        await self._epoch.see_world()  # else the next action would be taken for what a check did
        await self._epoch.commit()
        if failing is None:
            return Checked(passed=None)
        return Checked(passed=not failing, failing_checks=tuple(failing))

    async def act(self, p: protocol.Act) -> Judged:
        """Finish by a tool call: the answer has the shape of an action's, and nothing is run."""
        await self._epoch.ready.wait()
        summary = p.args.get("summary")
        answer = await self.finish(
            protocol.Finish(success=True, summary=summary if isinstance(summary, str) else "")
        )
        lines = [_failing(check) for check in answer.failing_checks]
        lines += [f"still open: {name}" for name in answer.open_subtasks]
        lines += [answer.message] if answer.message else []
        return Judged(
            verdict="allowed",
            seq=self._epoch.core.state.seq,
            intervention=None,
            escalated_to=answer.escalated_to,
            outcome=ActionOutcome(
                result="success" if answer.accepted else "failure",
                output="accepted" if answer.accepted else "not accepted\n" + "\n".join(lines),
                duration_s=0.0,
                changed=False,
            ),
        )

    async def _objections(self) -> Objections:
        state = self._epoch.core.state
        await self._epoch.require_workspace()
        failing = tuple(await self._checks.run())
        await self._epoch.require_workspace()
        open_subtasks = tuple(state.open_subtasks()) if not state.spec.checks else ()
        message = self._feedback_came()
        if not (failing or message or len(open_subtasks) > 1) and self._epoch.kind == "llm":
            # once where the goal's last action failed; other agents know what they do
            message = await self._epoch.decide(lambda core: core.question_finish(time.time()))
        if not (failing or open_subtasks or message):
            await self._checks.run_suggested()
            await self._epoch.require_workspace()
            message = self._feedback_came()
        return Objections(failing, open_subtasks, message)

    def _feedback_came(self) -> str:
        return FEEDBACK_CAME if self._feedback.news() else ""

    async def _refuse(self, objections: Objections) -> Finished:
        """Answer why the goal cannot end; to repeat a claim that is refused is no progress, and counts."""
        await self._epoch.see_world()  # else the next action would be taken for what a check did
        await self._epoch.commit()
        level: Level | None = None
        if objections.counts:
            failing, own = tuple(one.name for one in objections.failing), self._epoch.own_tools
            level = await self._epoch.decide(
                lambda core: core.refuse_finish(failing, time.time(), own_tools=own)
            )
        said = {"message": objections.message} if objections.message else {}
        return Finished(
            accepted=False,
            failing_checks=objections.failing,
            open_subtasks=tuple(self._epoch.core.state.open_subtasks()),
            escalated_to=level,
            **said,
        )


def _failing(check: FailingCheck) -> str:
    """Return a failing check as an agent with its own prompts reads it."""
    code = "" if check.exit_code is None else f" with exit code {check.exit_code}"
    return f"check {check.name} fails{code}: {check.cmd}\n{check.output}"
