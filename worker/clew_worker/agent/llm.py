"""The llm agent: builds the prompt, asks the model, and sends its calls to the daemon, turn by turn.

It keeps no state of record and carries out nothing. Whatever the model or its server sends costs a turn, a wait or
a clear reason, never a crash.
"""

import asyncio
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from typing import Any

from clew_shared.prompt.messages import CUT_OFF, EMPTY_ANSWER, NO_CALL
from clew_shared.text.redact import hide
from clew_shared.text.shorten import without_middle
from clew_shared.wire.answers import Noted
from clew_worker.agent import reflecting
from clew_worker.agent.calls import CallHandler
from clew_worker.agent.client import AgentClient
from clew_worker.agent.completion import CallUsage, Completion
from clew_worker.agent.finishing import GoalEnding
from clew_worker.agent.json_mode import ModelAnswer
from clew_worker.agent.language_model import LanguageModel
from clew_worker.agent.life import CannotContinue
from clew_worker.agent.llm_faults import Misconfigured, Temporary
from clew_worker.agent.memory import Memory
from clew_worker.agent.rpc import Disconnected, RpcError
from clew_worker.agent.turn import AgentContext, AgentFinished, Turn

NAME = "llm/1"
IDLE_TURNS_MAX = 6
LAST_REPORT_S = 5.0
REPLAN_TURNS_MAX = 4
_THOUGHT_CHARS = 20_000
CUT_OFF_CHARS = 300
"""What is kept of an answer that was cut off before its call: all the next prompts would carry the rest."""

Hindsight = tuple[dict[str, str], ...]


class LlmAgent:
    """Works on one goal with one model until it is done; another `memory` builds other prompts."""

    def __init__(self, daemon: AgentClient, memory: Memory | None = None) -> None:
        self._daemon = daemon
        self._memory = memory or Memory()
        self._context = AgentContext(daemon, self._memory, NAME)
        self._finishing = GoalEnding(self._context)
        self._calls = CallHandler(self._context, self._finishing)
        self._idle = 0
        self._replanning = 0
        self._stale = False
        daemon.on("feedback", lambda _: self._outdated())
        daemon.on("thresholds", lambda _: self._outdated())
        daemon.on("intervention", lambda p: self._memory.warn(str(p.get("message") or "")))

    async def run(self) -> None:
        """Take turns until the goal is over; `CannotContinue` where the endpoint cannot be used."""
        await self._context.refresh()
        hello = self._memory.hello
        hide([hello.credential] if hello.credential else [])
        model = LanguageModel(self._context, self._finishing)
        if hello.options.playbook.llm_reflection:
            self._finishing.on_completed = partial(self._learn_strategies, model)
        try:
            while True:
                await self._turn(model)
        except AgentFinished:
            return
        except Temporary as fault:
            raise CannotContinue("temporary", str(fault), fault.retry_after_s) from None
        except Misconfigured as fault:
            raise CannotContinue("configuration", str(fault)) from None
        finally:
            await model.close()

    def _outdated(self) -> None:
        self._stale = True

    # ---- one turn

    async def _turn(self, model: LanguageModel) -> None:
        if self._stale:
            self._stale = False
            await self._context.refresh()
        self._bound_replanning()
        model.aside = CallUsage()
        hindsight = await self._looked_back(model)
        if hindsight:
            self._memory.begin_turn(hindsight)
        completion, answer = await model.ask()
        if completion.finish_reason == "length" and not answer.calls:
            answer = replace(answer, text=without_middle(answer.text, CUT_OFF_CHARS))
        if not hindsight:
            hindsight = answer.hindsight
            self._memory.begin_turn(hindsight)
        self._context.turn, acted = Turn(), self._memory.actions
        try:
            await self._do(answer)
        except (AgentFinished, RpcError, asyncio.CancelledError):  # the turn still has its cost
            await self._reflect_at_last(completion.usage + model.aside, hindsight)
            raise
        model.withheld = self._context.turn.refused if self._may_withhold() else ""
        if not answer.calls:
            self._nudge(completion, answer)
        await self._reflect(completion.usage + model.aside, hindsight)
        self._stale |= self._context.turn.moved  # this turn belongs to what ended
        self._stale |= bool(self._memory.actions and not acted)  # the checks ran before it
        await self._bound_idling()

    async def _do(self, answer: ModelAnswer) -> None:
        await self._think(answer)
        changes = self._memory.changes
        for call in answer.calls:
            if not await self._calls.carry_out(call, answer.text):
                break
        last = self._memory.last_call
        changed = self._memory.changes > changes
        if changed and last and (last.result == "success" or last.changed):
            await self._finishing.check_after_change()

    async def _think(self, answer: ModelAnswer) -> None:
        if not answer.text:
            return
        noted = await self._daemon.call(
            "think", text=answer.text[:_THOUGHT_CHARS], has_tool_calls=bool(answer.calls)
        )
        self._memory.add_thought(answer.text)
        self._show(noted)

    def _show(self, answer: Any) -> Noted:
        noted = Noted.model_validate(answer or {})
        self._context.show(noted.intervention)
        return noted

    def _nudge(self, completion: Completion, answer: ModelAnswer) -> None:
        """Ask a model that made no call for one."""
        if completion.finish_reason == "length":
            text = CUT_OFF
        elif answer.text or answer.hindsight:
            text = NO_CALL
        else:
            text = EMPTY_ANSWER
        self._memory.note(text)

    async def _reflect(self, usage: CallUsage, hindsight: Hindsight) -> None:
        """Report the turn: its calls, cost and prompt, and what the last one had brought."""
        record: dict[str, Any] = {
            "mode": "deep" if self._separate else "fast",
            "tool_calls": _costed(self._context.turn.records, usage),
            "synthesis": " ".join(part["synthesis"] for part in hindsight if "synthesis" in part),
            "hindsight": [dict(part) for part in hindsight],
            "turn": self._memory.turn(),
            "prompt": self._memory.prompt_report(),
        }
        if assessment := reflecting.assessment_of(hindsight):
            record["progress_assessment"] = assessment
        answer = await self._daemon.reflect(asdict(usage), record)
        self._memory.left = self._show(answer).turns_left
        self._memory.iteration += 1

    async def _reflect_at_last(self, usage: CallUsage, hindsight: Hindsight) -> None:
        """Report a turn that was cut short, before the agent ends; the daemon may be busy, or gone."""
        with suppress(Disconnected, TimeoutError):
            async with asyncio.timeout(LAST_REPORT_S):
                await self._reflect(usage, hindsight)

    # ---- questions besides the turn's own

    @property
    def _separate(self) -> bool:
        return self._memory.hello.options.agent.reflection == "separate"

    async def _looked_back(self, model: LanguageModel) -> Hindsight:
        """Ask what was learned from the last results, where that is a question of its own."""
        if not (self._separate and self._context.turn.records):
            return ()
        return reflecting.parts_of(await model.ask_aside(reflecting.ASK_REFLECTION))

    async def _learn_strategies(self, model: LanguageModel) -> None:
        """Ask at a subtask's end what would help next time, and send it to the daemon."""
        answer = await model.ask_aside(reflecting.ASK_STRATEGIES)
        if deltas := reflecting.strategies_of(answer):
            with suppress(RpcError, ValueError):  # the work does not depend on it
                await self._daemon.call("learn", deltas=deltas)

    def _may_withhold(self) -> bool:
        """Return whether to withhold a refused tool in the next turn: a grammar then cannot repeat the call.

        With native tools only from the second refusal on, since another list of tools costs the cached prompt.
        """
        return self._memory.mode == "json" or self._memory.refusals > 1

    def _bound_replanning(self) -> None:
        self._replanning = self._replanning + 1 if self._memory.state.replan_required else 0
        if self._replanning > REPLAN_TURNS_MAX:
            raise AgentFinished  # cannot replan: the goal goes to a person

    async def _bound_idling(self) -> None:
        """Count a series of turns without effect as a failed attempt, so that a model without calls ends."""
        self._idle = 0 if self._context.turn.reached_daemon else self._idle + 1
        if self._idle < IDLE_TURNS_MAX or self._memory.state.replan_required:
            return
        self._idle = 0
        if not self._memory.state.subtask.open:
            raise AgentFinished
        summary = f"the model called no usable tool in {IDLE_TURNS_MAX} turns"
        await self._finishing.end_subtask(success=False, summary=summary)


def _costed(records: list[dict[str, Any]], usage: CallUsage) -> list[dict[str, Any]]:
    """Return the records with the turn's tokens shared equally among them."""
    share = (usage.input + usage.output) // max(len(records), 1)
    return [{**one, "cost": {**one["cost"], "tokens": share}} for one in records]
