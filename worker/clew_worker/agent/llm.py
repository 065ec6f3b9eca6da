"""The llm agent: builds the prompt, asks the model, and sends its calls to the daemon, turn by turn.

It keeps no state of record and carries out nothing. Whatever the model or its server sends costs a turn, a wait or
a clear reason, never a crash.
"""

import asyncio
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Any

from clew_shared.prompt.messages import CUT_OFF, EMPTY_ANSWER, NO_CALL
from clew_shared.text.redact import hide
from clew_shared.text.shorten import without_middle
from clew_shared.wire.answers import Noted
from clew_worker.agent.client import AgentClient, Disconnected, RpcError
from clew_worker.agent.json_mode import Hindsight, ModelAnswer
from clew_worker.agent.language_model import LanguageModel
from clew_worker.agent.llm_client import CallUsage
from clew_worker.agent.memory import Memory
from clew_worker.agent.work import AgentFinished, Turn, Work

NAME = "llm/1"
IDLE_TURNS_MAX = 6
LAST_REPORT_S = 5.0
REPLAN_TURNS_MAX = 4
_THOUGHT_CHARS = 20_000
CUT_OFF_CHARS = 300
"""What is kept of an answer that was cut off before its call: all the next prompts would carry the rest."""


class LlmAgent:
    """Works on one goal with one model until it is done."""

    def __init__(self, daemon: AgentClient) -> None:
        self._daemon = daemon
        self._memory = Memory()
        self._work = Work(daemon, self._memory, NAME)
        self._idle = self._replanning = 0
        self._outdated = asyncio.Event()
        daemon.on("feedback", lambda _: self._outdated.set())
        daemon.on("thresholds", lambda _: self._outdated.set())
        daemon.on("intervention", lambda p: self._memory.warn(str(p.get("message") or "")))

    async def run(self) -> None:
        """Take turns until the goal is over; `CannotContinue` where the endpoint cannot be used."""
        await self._work.refresh()
        hello = self._memory.hello
        hide([hello.credential] if hello.credential else [])
        model = LanguageModel(self._work)
        try:
            while True:
                await self._turn(model)
        except AgentFinished:
            return
        finally:
            await model.close()

    async def _turn(self, model: LanguageModel) -> None:
        if self._outdated.is_set():
            self._outdated.clear()
            await self._work.refresh()
        self._replanning = self._replanning + 1 if self._memory.state.replan_required else 0
        if self._replanning > REPLAN_TURNS_MAX:
            raise AgentFinished  # cannot replan: the goal goes to a person
        completion, answer = await model.ask()
        if completion.finish_reason == "length" and not answer.calls:
            answer = replace(answer, text=without_middle(answer.text, CUT_OFF_CHARS))
        self._memory.begin_turn(answer.hindsight)
        turn, acted = Turn(), self._memory.actions
        self._work.turn = turn
        try:
            await self._do(answer)
        except (AgentFinished, RpcError, asyncio.CancelledError):  # the turn still has its cost
            with suppress(Disconnected, TimeoutError):  # the daemon may be busy, or gone
                async with asyncio.timeout(LAST_REPORT_S):
                    await self._reflect(completion.usage, answer.hindsight)
            raise
        # a grammar then cannot repeat the call; another list of native tools costs the cached prompt
        withholds = self._memory.mode == "json" or self._memory.refusals > 1
        model.withheld = turn.refused if withholds else ""
        if not answer.calls:
            said = answer.text or answer.hindsight
            cut_off = completion.finish_reason == "length"
            self._memory.note(CUT_OFF if cut_off else NO_CALL if said else EMPTY_ANSWER)
        await self._reflect(completion.usage, answer.hindsight)
        if turn.moved or (self._memory.actions and not acted):
            self._outdated.set()  # this turn belongs to what ended, or the checks ran before it
        await self._bound_idling()

    async def _do(self, answer: ModelAnswer) -> None:
        if answer.text:
            text, has_calls = answer.text[:_THOUGHT_CHARS], bool(answer.calls)
            noted = await self._daemon.call("think", text=text, has_tool_calls=has_calls)
            self._memory.add_thought(answer.text)
            self._show(noted)
        changes = self._memory.changes
        for call in answer.calls:
            if not await self._work.carry_out(call, answer.text):
                break
        last = self._memory.last_call
        changed = self._memory.changes > changes
        if changed and last and (last.result == "success" or last.changed):
            await self._work.check_after_change()

    def _show(self, answer: Any) -> Noted:
        noted = Noted.model_validate(answer or {})
        if noted.intervention:
            self._memory.warn(noted.intervention.message)
        return noted

    async def _reflect(self, usage: CallUsage, hindsight: Hindsight) -> None:
        """Report the turn: its calls, cost and prompt, and what the last one had brought."""
        records = self._work.turn.records
        tokens = (usage.input + usage.output) // max(len(records), 1)
        record: dict[str, Any] = {
            "mode": "fast",
            "tool_calls": [{**one, "cost": {**one["cost"], "tokens": tokens}} for one in records],
            "synthesis": " ".join(part["synthesis"] for part in hindsight if "synthesis" in part),
            "hindsight": [dict(part) for part in hindsight],
            "turn": self._memory.turn(),
            "prompt": self._memory.prompt_report(),
        }
        if assessed := [part["assessment"] for part in hindsight if "assessment" in part]:
            record["progress_assessment"] = assessed[-1]
        answer = await self._daemon.reflect(asdict(usage), record)
        self._memory.left = self._show(answer).turns_left
        self._memory.iteration += 1

    async def _bound_idling(self) -> None:
        """Count a series of turns without effect as a failed attempt, so that a model without calls ends."""
        self._idle = 0 if self._work.turn.reached_daemon else self._idle + 1
        if self._idle < IDLE_TURNS_MAX or self._memory.state.replan_required:
            return
        self._idle = 0
        if not self._memory.state.subtask.open:
            raise AgentFinished
        summary = f"the model called no usable tool in {IDLE_TURNS_MAX} turns"
        await self._work.end_subtask(success=False, summary=summary)
