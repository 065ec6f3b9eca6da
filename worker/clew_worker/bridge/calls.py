"""What a call of clew's tools does: each is sent to the daemon, one at a time, and answered in words.

A call that takes long is answered before it has ended and goes on; `clew_wait` has its result. It stays one action,
also if the CLI has given up on it or has ended meanwhile.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from clew_shared.wire.answers import Advanced, Finished, Judged
from clew_shared.wire.hello import StateAnswer
from clew_worker.agent.plans import plain_text, plan_fault, read_checks, read_plan, truth
from clew_worker.agent.rpc import Disconnected, RpcError
from clew_worker.bridge.goal import IDLE_CALLS_MAX, GoalView
from clew_worker.bridge.prompts import feedback_text
from clew_worker.bridge.tools import (
    ACTIONS,
    ASK,
    DONE,
    PLAN,
    UNKNOWN_TOOL,
    WAIT,
    ToolAnswer,
    finished_answer,
    joined,
    judged_answer,
    next_subtask_text,
    replan_text,
    running_answer,
)

PATIENCE_S = 45.0
"""Well below the time after which MCP clients give up on a call."""

_ENDED = ("stopped", "budget")
OVER = ToolAnswer("The work on this goal is over for you. End your turn.", refused=True)
TURN_OVER = ToolAnswer(
    f"Your last {IDLE_CALLS_MAX} calls did nothing. End your turn; you will be asked again.",
    refused=True,
)
NOTHING_RUNS = ToolAnswer("No call is running. clew_recall shows an earlier output.", refused=True)


@dataclass(slots=True)
class RunningCall:
    """A call that the daemon works on; `seq` is the number of its action, 0 while it has none."""

    task: asyncio.Task[ToolAnswer]
    seq: int = 0


class ToolCalls:
    """The calls of one goal's CLI; `patience_s` is how long one is waited for."""

    def __init__(self, goal: GoalView, patience_s: float = PATIENCE_S) -> None:
        self._goal = goal
        self._daemon = goal.daemon
        self._patience_s = patience_s
        self._running: RunningCall | None = None
        self._arriving = asyncio.Lock()
        self._daemon.on("allowed", lambda params: self._number(params.get("seq")))

    async def call(self, name: str, args: Mapping[str, Any]) -> ToolAnswer:
        """Carry out a call, or continue to wait for the one that runs."""
        async with self._arriving:
            waits = name == WAIT and "seconds" not in args
            if waits and self._running:
                return await self._result()
            before = await self._result() if self._running else None
            if self._running:
                return self._busy(self._running)
            if refused := self._refusal(waits=waits):
                return refused
            self._running = RunningCall(asyncio.create_task(self._carry_out(name, args)))
            answer = await self._result()
            if before is None:
                return answer
            late = f"The result of your earlier call:\n{before.text}\n\nThe result of this one:"
            return ToolAnswer(joined(late, answer.text), answer.refused)

    def _refusal(self, *, waits: bool) -> ToolAnswer | None:
        """Count a call, and return its answer if there is nothing to carry out for it."""
        if self._goal.over.is_set():
            return OVER
        self._goal.called()
        if self._goal.turn_over.is_set():
            return TURN_OVER
        return NOTHING_RUNS if waits else None

    def _number(self, seq: object) -> None:
        if self._running and isinstance(seq, int):
            self._running.seq = seq

    def _busy(self, running: RunningCall) -> ToolAnswer:
        text = running_answer(running.seq).text
        return ToolAnswer(f"This call was not carried out: another one is {text}", refused=True)

    async def _result(self) -> ToolAnswer:
        """Return the result of the running call, or that it is still running."""
        running = self._running
        assert running is not None  # noqa: S101 - the callers look
        await asyncio.wait([running.task], timeout=self._patience_s)
        if not running.task.done():
            return running_answer(running.seq)
        self._running = None
        return running.task.result()

    # -- the calls

    async def _carry_out(self, name: str, args: Mapping[str, Any]) -> ToolAnswer:
        try:
            return await self._sent(name, args)
        except RpcError as error:
            if not error.stopping:
                return ToolAnswer(error.message, refused=True)
        except Disconnected:
            pass
        except ValueError as error:  # too long to be sent
            return ToolAnswer(str(error), refused=True)
        self._goal.over.set()
        return OVER

    async def _sent(self, name: str, args: Mapping[str, Any]) -> ToolAnswer:
        own: dict[str, Callable[[Mapping[str, Any]], Awaitable[ToolAnswer]]] = {
            DONE: self._done,
            PLAN: self._plan,
            ASK: self._ask,
        }
        tool = "wait" if name == WAIT else ACTIONS.get(name)
        if tool is not None:
            return await self._act(tool, args)
        if name in own:
            return await own[name](args)
        return ToolAnswer(UNKNOWN_TOOL.format(name[:80]), refused=True)

    async def _act(self, tool: str, args: Mapping[str, Any]) -> ToolAnswer:
        judged = Judged.model_validate(await self._daemon.call("act", tool=tool, args=dict(args)))
        self._goal.acted(tool, args, judged)
        if judged.reason in _ENDED:
            self._goal.over.set()
        elif judged.escalated_to or judged.reason == "replan_required":
            await self._goal.refresh()
        answer = judged_answer(judged)
        news = feedback_text(self._goal.take_news())
        return ToolAnswer(joined(answer.text, news), answer.refused)

    async def _done(self, args: Mapping[str, Any]) -> ToolAnswer:
        success = truth(args.get("success", True))
        summary = plain_text(args.get("summary"))
        if success and (news := self._goal.take_news()):
            return ToolAnswer(f"{feedback_text(news)}\nConsider this, then call clew_done again.")
        self._goal.moved()
        failure = "" if success else summary or "the agent gave up on this attempt"
        raw = await self._daemon.call(
            "complete_subtask", success=success, failure=failure, summary=summary
        )
        level = StateAnswer.model_validate(raw).escalated_to
        if level or not success:
            await self._goal.refresh()
            again = "" if level else next_subtask_text(self._goal.state)
            recorded = "" if success else "This attempt at the subtask is recorded as failed."
            return ToolAnswer(joined(recorded, replan_text(level), again))
        advanced = Advanced.model_validate(await self._daemon.call("advance"))
        if advanced.subtask is not None:
            await self._goal.refresh()
            return ToolAnswer(next_subtask_text(self._goal.state))
        return await self._finish(summary)

    async def _finish(self, summary: str) -> ToolAnswer:
        finished = Finished.model_validate(
            await self._daemon.call("finish", success=True, summary=summary)
        )
        if finished.accepted:
            self._goal.over.set()
            return finished_answer(finished)
        await self._goal.refresh()
        news = feedback_text(self._goal.take_news())
        return ToolAnswer(joined(finished_answer(finished).text, news))

    async def _plan(self, args: Mapping[str, Any]) -> ToolAnswer:
        await self._goal.refresh()
        replan = self._goal.state.replan_required
        tasks = read_plan(args, replan)
        if fault := plan_fault(tasks):
            return ToolAnswer(fault.replace(" plan ", " clew_plan "), refused=True)
        await self._daemon.call("plan", tasks=tasks, replan=replan, checks=read_checks(args))
        self._goal.moved()
        await self._goal.refresh()
        return ToolAnswer(joined("The plan is recorded.", next_subtask_text(self._goal.state)))

    async def _ask(self, args: Mapping[str, Any]) -> ToolAnswer:
        question = plain_text(args.get("question"))
        if not question:
            return ToolAnswer("A question needs text: clew_ask {question}.", refused=True)
        await self._daemon.call("ask", question=question)
        self._goal.over.set()
        return ToolAnswer("The person is asked, and the goal waits for the answer. End your turn.")
