"""Ends subtasks and the goal as the model asks for it.

A subtask is completed when the model says so, a goal when its checks agree.
"""

from collections.abc import Mapping
from typing import Any

from clew_shared.guidance.notes import CheckNotes
from clew_shared.prompt.tools import is_small
from clew_shared.wire.answers import Checked, Finished
from clew_worker.agent.plans import plain_text, truth
from clew_worker.agent.rpc import RpcError
from clew_worker.agent.turn import AgentContext, AgentFinished

CHECKED = "The checks pass now."
NOTHING_DONE = "Nothing was done for it yet. Do it first. If it really is done, call {} again."


class GoalEnding:
    """Ends subtasks and the goal; raises `AgentFinished` where the goal is over for this agent."""

    def __init__(self, context: AgentContext) -> None:
        self._context = context
        self._daemon = context.daemon
        self._memory = context.memory
        self._asked_to_begin = False
        self._checked_at = -1
        self._notes = CheckNotes()
        self._slow = False
        self._tests_changed = ""
        self.in_vain = 0
        """How often finishing was asked for with nothing changed since the checks failed; -1: not even once refused."""

    @property
    def possible(self) -> bool:
        """Whether finishing makes sense: not while nothing was changed since the checks failed."""
        return self._checked_at != self._memory.changes

    # ---- the subtask

    async def complete_subtask(self, args: Mapping[str, Any]) -> None:
        """End the current subtask, or this attempt at it, as the model asks."""
        success = truth(args.get("success", True))
        summary = plain_text(args.get("summary") or args.get("failure") or args.get("reason"))
        if not success:
            await self.end_subtask(success=False, summary=summary)
        elif not self._must_begin("complete_subtask", args):
            await self.end_subtask(success=True, summary=summary)

    async def end_subtask(self, *, success: bool, summary: str) -> None:
        """End the current subtask, or this attempt at it, and advance to the next one."""
        self._context.turn.reached_daemon = True
        failure = "" if success else summary or "the agent gave up on this attempt"
        try:
            level = await self._daemon.complete_subtask(
                success=success, failure=failure, summary=summary
            )
            self._context.turn.moved = success
            if success and not level and not await self._daemon.advance():
                await self.try_finish(summary)
                return
        except RpcError as error:
            self._memory.note(f"Note: {_refusal(error)}")
        if not success:
            self._memory.note(f"This attempt is recorded as failed: {failure}")
        await self._context.refresh()

    # ---- the goal

    async def finish(self, args: Mapping[str, Any]) -> None:
        """End the goal as the model asks, if nothing speaks against it."""
        summary = plain_text(args.get("summary"))
        self._tests_changed = plain_text(args.get("tests_changed"))
        if "success" in args and not truth(args["success"]):
            await self._daemon.finish(success=False, summary=summary)
            raise AgentFinished
        if self._must_begin("finish", args):
            return
        if self._claims_all:
            await self.end_subtask(success=True, summary=summary)
        else:
            await self.try_finish(summary)

    async def try_finish(self, summary: str, *, asked: bool = True) -> None:
        """Ask the daemon to finish the goal, which its checks decide; `asked`: the model wants it.

        Where nothing was done since they failed, they are run once more only if that may end the attempt.
        """
        self._context.turn.reached_daemon = True
        again = not self.possible
        self.in_vain += again
        if again and not (asked and self.in_vain < 2 and self._memory.hello.attempt.limit > 1):
            text = "Nothing was done since the checks failed. Change something first."
            self._memory.answer("finish", {"summary": summary}, text)
            return
        why, self._tests_changed = self._tests_changed, ""
        try:
            answer = await self._daemon.finish(success=True, summary=summary, tests_changed=why)
        except RpcError as error:
            self._memory.answer("finish", {"summary": summary}, _refusal(error))
            return
        if answer.accepted:
            raise AgentFinished
        await self._context.refresh()
        if answer.failing_checks or not answer.message:
            self._checked_at, self.in_vain = self._memory.changes, self.in_vain if again else 0
        self._memory.answer("finish", {"summary": summary}, self._not_accepted(answer))

    async def check_after_change(self) -> None:
        """Have the checks of a small goal run after a change, and show the model what still fails.

        Else it learns only from a `finish` that is not accepted that a part is missing.
        """
        hello = self._memory.hello
        within_s = hello.options.context.check_within_s
        if self._slow or not (within_s and hello.checks and is_small(hello) and self.possible):
            return
        try:
            answer = Checked.model_validate(await self._daemon.call("check", within_s=within_s))
        except RpcError as error:
            _refusal(error)
            return
        self._slow = answer.passed is None
        if answer.passed:
            self._memory.note(CHECKED)
        elif answer.passed is False:
            # the model has not asked to finish yet: its first two requests still reach the daemon
            self._checked_at, self.in_vain = self._memory.changes, -1
            self._memory.note(self._notes.unasked(answer.failing_checks, hello.spec.workspace))
        await self._context.refresh()

    def _not_accepted(self, answer: Finished) -> str:
        if answer.failing_checks:
            workspace = self._memory.hello.spec.workspace
            failing = self._notes.refused(answer.failing_checks, workspace)
            return f"{failing}\n{answer.message}" if answer.message else failing
        left = ["this is still open:", *(f"- {name}" for name in answer.open_subtasks[:10])]
        return "Not finished: " + (answer.message or "\n".join(left))

    @property
    def _claims_all(self) -> bool:
        """Whether completing the current subtask completes a goal without checks."""
        state = self._memory.state
        is_last = state.subtask.open and len(state.open_subtasks) == 1
        return is_last and not self._memory.hello.checks

    def _must_begin(self, claim: str, args: Mapping[str, Any]) -> bool:
        """Answer the first claim of success, in a goal without checks, for which nothing was done."""
        memory = self._memory
        done = memory.last_call or memory.hello.checks or not memory.state.subtask.open
        if done or self._asked_to_begin:
            return False
        self._asked_to_begin = True
        memory.answer(claim, args, NOTHING_DONE.format(claim))
        return True


def _refusal(error: RpcError) -> str:
    """Return why the daemon refused; raises the error where it is because the worker is to stop."""
    if error.stopping:
        raise error
    return error.message
