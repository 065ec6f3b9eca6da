"""What a call of clew's tools does: each is sent to the daemon, one at a time, and answered in words.

A call that takes long is answered before it has ended and goes on; `clew_wait` has its result. It stays one action,
also if the CLI has given up on it or has ended meanwhile.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

from clew_shared.guidance import CheckNotes
from clew_shared.tools import IDLE_TOOLS
from clew_shared.wire.hello import HelloAnswer, HelloState
from clew_worker.agent.client import (
    ENDED,
    AgentClient,
    CallRecord,
    Disconnected,
    RpcError,
    call_record,
)
from clew_worker.agent.written import plain_text, record_plan, truth
from clew_worker.bridge import tools
from clew_worker.bridge.tools import ToolAnswer, feedback_text, joined, next_subtask_text

PATIENCE_S = 45.0  # well below the time after which MCP clients give up on a call
RECORDS_MAX = 200  # as many as one `reflect` carries
# calls in a row that did nothing, after which a turn is over: else it would have no end
IDLE_CALLS_MAX = 10
OVER = ToolAnswer("The work on this goal is over for you. End your turn.", refused=True)
_IDLE = f"Your last {IDLE_CALLS_MAX} calls did nothing. End your turn; you will be asked again."
TURN_OVER = ToolAnswer(_IDLE, refused=True)
COMPLETED = ToolAnswer("The goal is completed. End your turn; there is nothing more to do.")
NOTHING_RUNS = ToolAnswer("No call is running. clew_recall shows an earlier output.", refused=True)


class ToolCalls:
    """The calls of one goal's CLI, and the goal as it works on it; `patience_s` is how long a call is waited for.

    `over` is set when nothing more is accepted from the CLI, `turn_over` in this turn. `effects` counts the calls of
    the present turn that reached the daemon.
    """

    def __init__(self, daemon: AgentClient, name: str, patience_s: float = PATIENCE_S) -> None:
        self.hello = HelloAnswer()
        self.over = asyncio.Event()
        self.turn_over = asyncio.Event()
        self.effects = self._idle_calls = 0
        self._daemon = daemon
        self._name = name
        self._patience_s = patience_s
        self._notes = CheckNotes()
        self._news: list[str] = []
        self._records: list[CallRecord] = []
        self._running: asyncio.Task[ToolAnswer] | None = None
        self._seq = 0  # the number of the running call's action, 0 while it has none
        self._arriving = asyncio.Lock()
        daemon.on("allowed", self._allowed)
        daemon.on("feedback", lambda params: self._news.append(str(params.get("text") or "")))

    @property
    def state(self) -> HelloState:
        return self.hello.state

    async def refresh(self) -> None:
        self.hello = await self._daemon.greet(self._name)

    def begin(self) -> None:
        self.effects = self._idle_calls = 0
        self.turn_over = asyncio.Event()

    def take_records(self) -> list[CallRecord]:
        """Return the entries of an iteration record since the last time."""
        taken, self._records = self._records, []
        return taken

    def take_news(self) -> list[str]:
        """Return the feedback that has come since the last time."""
        taken, self._news = self._news, []
        return taken

    async def call(self, name: str, args: Mapping[str, Any]) -> ToolAnswer:
        """Carry out a call, or continue to wait for the one that runs."""
        async with self._arriving:
            waits = name == tools.WAIT
            before = await self._result(self._running) if self._running else None
            if before and waits:
                return before
            if before:
                late = "the earlier one has ended. Call again if it is still needed. The earlier one's result:\n"
                why = "another one is " if self._running else late
                text = f"This call was not carried out: {why}{before.text}"
                return ToolAnswer(text, refused=True)
            if refused := self._refusal(waits=waits):
                return refused
            self._seq = 0
            self._running = asyncio.create_task(self._carry_out(name, args))
            return await self._result(self._running)

    def _refusal(self, *, waits: bool) -> ToolAnswer | None:
        """Count a call, and return its answer if there is nothing to carry out for it."""
        if self.over.is_set():
            return OVER
        self._idle_calls += 1  # a call that carries something out resets it
        if self._idle_calls > IDLE_CALLS_MAX:
            self.turn_over.set()
        if self.turn_over.is_set():
            return TURN_OVER
        return NOTHING_RUNS if waits else None

    def _allowed(self, params: Mapping[str, Any]) -> None:
        self._seq = int(params.get("seq") or 0)

    async def _result(self, running: asyncio.Task[ToolAnswer]) -> ToolAnswer:
        await asyncio.wait([running], timeout=self._patience_s)
        if not running.done():
            return tools.running_answer(self._seq)
        self._running = None
        return running.result()

    async def _carry_out(self, name: str, args: Mapping[str, Any]) -> ToolAnswer:
        try:
            return await self._sent(name, args)
        except RpcError as error:
            return ToolAnswer(error.message, refused=True)
        except ValueError as error:  # too long to be sent
            return ToolAnswer(str(error), refused=True)
        except Disconnected:
            self.over.set()
            return OVER

    async def _sent(self, name: str, args: Mapping[str, Any]) -> ToolAnswer:
        own = {tools.DONE: self._done, tools.PLAN: self._plan, tools.ASK: self._ask}
        if name in own:
            return await own[name](args)
        tool = tools.ACTIONS.get(name)
        if tool is None:
            return ToolAnswer(tools.UNKNOWN_TOOL.format(name[:80]), refused=True)
        judged = await self._daemon.act(tool, args)
        self.effects += 1
        if judged.outcome and tool not in IDLE_TOOLS:
            self._idle_calls = 0
        if len(self._records) < RECORDS_MAX:
            self._records.append(call_record(tool, args, judged.outcome, message=judged.message))
        if judged.reason in ENDED:
            self.over.set()
        answer = tools.judged_answer(judged)
        return ToolAnswer(joined(answer.text, feedback_text(self.take_news())), answer.refused)

    async def _done(self, args: Mapping[str, Any]) -> ToolAnswer:
        success = truth(args.get("success", True))
        summary = plain_text(args.get("summary"))
        if success and (news := feedback_text(self.take_news())):
            return ToolAnswer(f"{news}\nConsider this, then call clew_done again.")
        self.effects += 1
        level = await self._daemon.complete_subtask(success=success, summary=summary)
        if level or not success or await self._daemon.advance():
            await self.refresh()
            following = "" if level else next_subtask_text(self.state)
            recorded = "" if success else "This attempt at the subtask is recorded as failed."
            return ToolAnswer(joined(recorded, tools.replan_text(level), following))
        why = plain_text(args.get("tests_changed"))
        finished = await self._daemon.finish(success=True, summary=summary, tests_changed=why)
        if finished.accepted:
            self.over.set()
            return COMPLETED
        unfinished = self._notes.unfinished(finished, self.hello.spec.workspace)
        again = "Fix this, then call clew_done again."
        return ToolAnswer(joined(unfinished, again, feedback_text(self.take_news())))

    async def _plan(self, args: Mapping[str, Any]) -> ToolAnswer:
        await self.refresh()
        args = {"covers": "all", **args}  # it is not asked what its plan replaces
        if fault := await record_plan(self._daemon, args, self.state):
            return ToolAnswer(fault.replace(" plan ", " clew_plan "), refused=True)
        self.effects += 1
        await self.refresh()
        return ToolAnswer(joined("The plan is recorded.", next_subtask_text(self.state)))

    async def _ask(self, args: Mapping[str, Any]) -> ToolAnswer:
        question = plain_text(args.get("question"))
        if not question:
            return ToolAnswer("A question needs text: clew_ask {question}.", refused=True)
        await self._daemon.call("ask", question=question)
        self.over.set()
        return ToolAnswer("The person is asked, and the goal waits for the answer. End your turn.")
