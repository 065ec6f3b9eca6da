"""The method `finish`: the claim that a goal is reached is checked before it is accepted (docs/goal-files.md)."""

import time
from collections.abc import Iterable

from clew_daemon.session.checks import Checks
from clew_daemon.session.epoch import Epoch
from clew_daemon.session.proving import Proving, stopped
from clew_shared.record import events as ev
from clew_shared.record.model import Level
from clew_shared.record.state import State
from clew_shared.text.redact import redact
from clew_shared.wire import protocol
from clew_shared.wire.answers import ActionOutcome, Checked, FailingCheck, Finished, Judged

FEEDBACK_CAME = "Feedback from a person arrived that you may not have considered yet. Consider it, then finish again."


class Finishing:
    """Decides whether a goal is over: no agent finishes before it has considered all feedback.

    A model considers what was in its last prompt; any other agent, what it was sent before it called `finish`.
    """

    def __init__(self, epoch: Epoch, checks: Checks) -> None:
        self._epoch = epoch
        self._checks = checks
        self._proving = Proving(epoch, checks)
        self._shown = self._considered = 0

    def shown(self) -> None:
        """Note that the answer to `hello` has all feedback."""
        self._shown = self._epoch.core.state.guidance.feedback_seq

    def prompted(self) -> None:
        """Note that a prompt was built from the last answer to `hello`."""
        self._considered = max(self._considered, self._shown)

    def _news(self) -> str:
        """Return, once, that there is feedback which the agent cannot have considered; "" for none."""
        seq = self._epoch.core.state.guidance.feedback_seq
        if seq <= self._considered or self._epoch.kind == "runbook":
            return ""
        self._considered = seq
        return FEEDBACK_CAME

    async def finish(self, p: protocol.Finish) -> Finished:
        """End the goal, or return why it cannot end; one that has ended stays unchanged."""
        epoch, state, summary = self._epoch, self._epoch.core.state, redact(p.summary)
        if state.ended:
            await epoch.commit()  # a person may have ended it a moment ago
            accepted = (state.goal.status == "completed") == p.success
            return _answer(accepted)
        if not p.success:
            await epoch.decide(lambda core: core.finish_failed(summary, time.time()))
            return _answer(True, (), state.open_subtasks())
        if epoch.kind != "llm":
            self._considered = state.guidance.feedback_seq
        epoch.core.need_no_replan()
        with stopped(epoch):
            await self._proving.clean()
            refused = await self._objection()
            refused = refused or await self._proving.refusal(redact(p.tests_changed.strip()))
        if refused:
            return refused
        if not self._proving.on:  # else it has just been taken
            epoch.snapshots.acted(too_many=False)  # the checks may have changed something
            await epoch.snapshots.end()
        label = state.proofs.made.label if state.proofs.made and state.spec.checks else ""
        reached = completed(state, time.time(), summary, label)
        await epoch.decide(lambda core: core.emit(reached))
        return _answer(True)

    async def _objection(self) -> Finished | None:
        """Return what speaks against a finish: failing checks, open subtasks, or something to consider first."""
        epoch, state = self._epoch, self._epoch.core.state
        await epoch.require_workspace()
        failing = tuple(await self._checks.run())
        await epoch.require_workspace()
        open_subtasks = state.open_subtasks() if not state.spec.checks else []
        message = self._news()
        if not (failing or open_subtasks or message):
            return None
        await epoch.see_world()  # else the next action would be taken for what a check did
        await epoch.commit()
        level: Level | None = None
        if failing or not message:  # asking again changes nothing, so it counts
            names = tuple(one.name for one in failing)
            own = epoch.own_tools
            level = await epoch.decide(
                lambda core: core.refuse_finish(names, time.time(), own_tools=own)
            )
        answer = _answer(False, failing, state.open_subtasks(), message)
        return answer.model_copy(update={"escalated_to": level})

    async def check(self, p: protocol.Check) -> Checked:
        """Run the goal's checks before anyone asks to finish; they are recorded, and nothing follows from them."""
        epoch = self._epoch
        epoch.core.need_no_replan()
        await epoch.require_workspace()
        failing = await self._checks.run_each(p.within_s)
        await epoch.require_workspace()
        await epoch.see_world()  # else the next action would be taken for what a check did
        await epoch.commit()
        if failing is None:
            return Checked(passed=None)
        return Checked(passed=not failing, failing_checks=tuple(failing))

    async def act(self, p: protocol.Act) -> Judged:
        """Finish by a tool call: the answer has the shape of an action's, and nothing is run."""
        given = (p.args.get(name) for name in ("summary", "tests_changed"))
        summary, reason = (one if isinstance(one, str) else "" for one in given)
        reason = reason[: protocol.DESCRIPTION_CHARS_MAX]
        asked = protocol.Finish(success=True, summary=summary, tests_changed=reason)
        answer = await self.finish(asked)
        lines = [_failing(check) for check in answer.failing_checks]
        lines += [f"still open: {name}" for name in answer.open_subtasks]
        lines += [answer.message] if answer.message else []
        output = "accepted" if answer.accepted else "\n".join(["not accepted", *lines])
        result = "success" if answer.accepted else "failure"
        outcome = ActionOutcome(result=result, output=output, duration_s=0.0, changed=False)
        seq, level = self._epoch.core.state.seq, answer.escalated_to
        return Judged(
            verdict="allowed", seq=seq, intervention=None, escalated_to=level, outcome=outcome
        )


def completed(state: State, at: float, summary: str, label: str) -> ev.GoalEnded:
    """Return the event of a goal that is reached; `label` is that of its proof."""
    verified, before = state.checked, state.passed_before
    return ev.GoalEnded(
        at=at, status="completed", summary=summary, verified=verified, proof=label, passed_before=before
    )  # fmt: skip


def _answer(
    accepted: bool, failing: Iterable[FailingCheck] = (), left: Iterable[str] = (), message: str = ""
) -> Finished:  # fmt: skip
    return Finished(
        accepted=accepted, failing_checks=tuple(failing), open_subtasks=tuple(left), message=message
    )


def _failing(check: FailingCheck) -> str:
    code = "" if check.exit_code is None else f" with exit code {check.exit_code}"
    return f"check {check.name} fails{code}: {check.cmd}\n{check.output}"
