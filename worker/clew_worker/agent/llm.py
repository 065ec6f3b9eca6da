"""The llm agent: builds the prompt, asks the model, and sends its calls to the daemon, turn by turn.

It keeps no state of record and carries out nothing. Whatever the model or its server sends costs a turn, a wait or
a clear reason, never a crash.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, replace
from typing import Any

from clew_shared.prompt.layout import merged, tools_chars
from clew_shared.prompt.messages import chars
from clew_shared.prompt.tools import REFLECT, schema_of
from clew_shared.prompt.view import PromptView
from clew_shared.text.redact import hide
from clew_shared.tools import Tool
from clew_shared.wire.answers import Noted
from clew_shared.wire.hello import AgentOptions, Mode
from clew_worker.agent import json_mode, reflecting
from clew_worker.agent.calls import CallHandler
from clew_worker.agent.client import AgentClient, Disconnected, RpcError
from clew_worker.agent.finishing import GoalEnding
from clew_worker.agent.json_mode import ModelAnswer
from clew_worker.agent.life import CannotContinue
from clew_worker.agent.llm_client import (
    CALLS_MAX,
    CallUsage,
    Completion,
    LlmClient,
    LlmError,
    Misconfigured,
    Overflow,
    Temporary,
    Unsupported,
)
from clew_worker.agent.memory import Memory
from clew_worker.agent.turn import AgentContext, AgentFinished, Turn

NAME = "llm/1"
IDLE_TURNS_MAX = 6
REPLAN_TURNS_MAX = 4
TIGHTNESS_MAX = 4
ANSWER_TOKENS_MIN = 256
AFTER_REFUSAL_TEMPERATURE = 0.7
JSON_RUNG = 3
"""From this rung on the server knows no `response_format`."""

_THOUGHT_CHARS = 20_000

Hindsight = tuple[dict[str, str], ...]


class LlmAgent:
    """Works on one goal with one model until it is done; another `memory` builds other prompts."""

    def __init__(self, daemon: AgentClient, memory: Memory | None = None) -> None:
        self._daemon = daemon
        self._memory = memory or Memory()
        self._context = AgentContext(daemon, self._memory, NAME)
        self._finishing = GoalEnding(self._context)
        self._calls = CallHandler(self._context, self._finishing)
        self._auto = False
        self._rung = 0
        self._idle = 0
        self._replanning = 0
        self._stale = False
        self._withheld = ""
        self._extra = CallUsage()
        self._llm: LlmClient | None = None
        daemon.on("feedback", lambda _: self._outdated())
        daemon.on("thresholds", lambda _: self._outdated())
        daemon.on("intervention", lambda p: self._memory.warn(str(p.get("message") or "")))

    async def run(self) -> None:
        """Take turns until the goal is over; `CannotContinue` where the endpoint cannot be used."""
        await self._context.refresh()
        hello = self._memory.hello
        self._auto = self._agent.mode == "auto"
        hide([hello.credential] if hello.credential else [])
        self._llm = llm = LlmClient(self._agent, hello.credential, slot=self._slot)
        if hello.options.playbook.llm_reflection:
            self._finishing.on_completed = self._learn_strategies
        try:
            while True:
                await self._turn(llm)
        except AgentFinished:
            return
        except Temporary as fault:
            raise CannotContinue("temporary", str(fault), fault.retry_after_s) from None
        except Misconfigured as fault:
            raise CannotContinue("configuration", str(fault)) from None
        finally:
            await llm.close()

    def _outdated(self) -> None:
        self._stale = True

    @asynccontextmanager
    async def _slot(self) -> AsyncIterator[None]:
        """Hold one of the endpoint's slots, for one HTTP call."""
        base_url = self._agent.base_url
        await self._daemon.call("llm_slot", open=True, base_url=base_url)
        try:
            yield
        finally:
            with suppress(Disconnected, RpcError):
                await self._daemon.call("llm_slot", open=False, base_url=base_url)

    # ---- one turn

    async def _turn(self, llm: LlmClient) -> None:
        if self._stale:
            self._stale = False
            await self._context.refresh()
        self._bound_replanning()
        self._extra = CallUsage()
        hindsight = await self._looked_back()
        if hindsight:
            self._memory.begin_turn(hindsight)
        completion, answer = await self._ask(llm)
        if not hindsight:
            hindsight = answer.hindsight
            self._memory.begin_turn(hindsight)
        self._context.turn = Turn()
        await self._think(answer)
        try:
            for call in answer.calls:
                if not await self._calls.carry_out(call, answer.text):
                    break
        except AgentFinished:  # the cost of this turn is still to be reported
            await self._reflect(completion, hindsight)
            raise
        self._withheld = self._context.turn.refused if self._may_withhold() else ""
        if not answer.calls:
            self._nudge(completion, answer)
        await self._reflect(completion, hindsight)
        self._stale = self._stale or self._context.turn.moved  # this turn belongs to what ended
        await self._bound_idling()

    async def _think(self, answer: ModelAnswer) -> None:
        if not answer.text:
            return
        noted = await self._daemon.call(
            "think", text=answer.text[:_THOUGHT_CHARS], has_tool_calls=bool(answer.calls)
        )
        self._memory.add_thought(answer.text)
        self._show(noted)

    def _show(self, noted: Any) -> None:
        self._context.show(Noted.model_validate(noted or {}).intervention)

    def _nudge(self, completion: Completion, answer: ModelAnswer) -> None:
        """Ask a model that made no call for one."""
        if completion.finish_reason == "length":
            text = "Your answer was cut off because it was too long. Make one short call."
        elif answer.text or answer.hindsight:
            text = "You called no tool, so nothing was done. Call one tool now, or call finish."
        else:
            text = "Your answer was empty. Call one tool now, or call finish."
        self._memory.note(text)

    async def _reflect(self, completion: Completion, hindsight: Hindsight) -> None:
        """Report the turn: its calls, cost and prompt, and what the last one had brought."""
        usage = completion.usage + self._extra
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
        with suppress(RpcError, ValueError):  # a refused record is not worth a crash
            self._show(await self._daemon.call("reflect", usage=asdict(usage), **record))
        self._memory.iteration += 1

    # ---- questions besides the turn's own

    @property
    def _separate(self) -> bool:
        return self._agent.reflection == "separate"

    @property
    def _agent(self) -> AgentOptions:
        return self._memory.hello.options.agent

    async def _looked_back(self) -> Hindsight:
        """Ask what was learned from the last results, where that is a question of its own."""
        if not (self._separate and self._context.turn.records):
            return ()
        return reflecting.parts_of(await self._ask_aside(reflecting.ASK_REFLECTION))

    async def _learn_strategies(self) -> None:
        """Ask at a subtask's end what would help next time, and send it to the daemon."""
        answer = await self._ask_aside(reflecting.ASK_STRATEGIES)
        if deltas := reflecting.strategies_of(answer):
            with suppress(RpcError, ValueError):  # the work does not depend on it
                await self._daemon.call("learn", deltas=deltas)

    async def _ask_aside(self, question: str) -> dict[str, Any]:
        """Ask one question at the end of the same prompt, whose prefix is cached; {} without an answer."""
        assert self._llm is not None  # noqa: S101 - set before the first turn
        layout = self._memory.laid_out()
        view = layout.view
        messages = merged([*layout.messages, {"role": "user", "content": question}])
        wanted = {"type": "json_object"} if view.mode == "json" and self._rung < JSON_RUNG else None
        tools = [schema_of(tool) for tool in view.tools] if view.mode == "tools" else ()
        try:
            completion = await self._llm.ask(
                messages, tools=tools, response_format=wanted, max_tokens=ANSWER_TOKENS_MIN * 2
            )
        except LlmError:
            return {}  # the turn's main question meets the same fault and reports it
        self._extra += completion.usage
        asked = next((c.arguments for c in completion.calls if c.name == REFLECT.name), None)
        if isinstance(asked, Mapping):
            return dict(asked)
        return json_mode.first_object(asked if isinstance(asked, str) else completion.text)

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

    # ---- one question

    async def _ask(self, llm: LlmClient) -> tuple[Completion, ModelAnswer]:
        """Ask until there is an answer, in a form that this server and this model support."""
        while True:
            layout = self._memory.laid_out()
            view, messages = layout.view, layout.messages
            tools = self._offered(view)
            answer_tokens = max(view.max_tokens // 2 ** (1 + view.tightness), ANSWER_TOKENS_MIN)
            json_wanted = self._memory.mode == "json"
            try:
                completion = await llm.ask(
                    messages,
                    tools=() if json_wanted else [schema_of(tool) for tool in tools],
                    response_format=json_mode.response_format(
                        tools, self._rung, reflects=view.reflects
                    )
                    if json_wanted
                    else None,
                    max_tokens=answer_tokens,
                    # after a repetition the likeliest answer is not wanted
                    temperature_min=AFTER_REFUSAL_TEMPERATURE
                    if self._context.turn.refused
                    else 0.0,
                )
            except Overflow as fault:
                self._fold_harder(fault)
            except Unsupported as fault:
                self._step_down(fault)
            else:
                size = chars(messages) + tools_chars(view)
                self._memory.calibrate(size, completion.usage.input)
                return completion, self._read(completion, view.tools)

    def _offered(self, view: PromptView) -> tuple[Tool, ...]:
        """Return the tools without those that would be refused: the one just refused, `finish` while checks fail.

        With native tools `finish` goes only after it was called in vain, since another list costs the cached prompt.
        """
        withheld = {self._withheld}
        insists = self._memory.mode == "json" or self._finishing.in_vain > 0
        if insists and not self._finishing.possible and not view.replan:
            withheld.add("finish")
        return tuple(t for t in view.tools if t.name not in withheld) or view.tools

    def _read(self, completion: Completion, tools: tuple[Tool, ...]) -> ModelAnswer:
        if not completion.calls:
            answer = json_mode.read(completion.text, tools)
            if answer.calls and self._memory.mode == "tools" and self._auto:
                self._switch("json")  # it writes its calls as text
            return _without_reflect(answer)
        known = {tool.name: tool for tool in tools}
        calls = (json_mode.request(c.name, c.arguments, known) for c in completion.calls)
        return _without_reflect(ModelAnswer(tuple(calls), completion.text.strip()))

    def _fold_harder(self, fault: Overflow) -> None:
        self._memory.tightness += 1
        if self._memory.tightness > TIGHTNESS_MAX:
            raise Misconfigured(
                f"the prompt is too long for the model, however much is folded: {fault}. "
                "Give the model a larger context, or set `[context] max_tokens` lower"
            ) from None

    def _step_down(self, fault: Unsupported) -> None:
        """Ask for less: tools, then a schema per tool, one schema, any JSON, plain text."""
        if self._memory.mode == "json" and self._rung < json_mode.RUNGS - 1:
            self._rung += 1
        elif self._memory.mode == "tools" and self._auto:
            self._switch("json")
        else:
            hint = ' Try `mode = "json"`.' if self._memory.mode == "tools" else ""
            raise Misconfigured(f"the server refuses what is asked: {fault}.{hint}") from None

    def _switch(self, mode: Mode) -> None:
        self._memory.mode = mode
        self._rung = 0


def _without_reflect(answer: ModelAnswer) -> ModelAnswer:
    """Move the reflect part out of the calls: it is a call beside them, or a field in the arguments of one."""
    parts = list(answer.hindsight)
    calls = []
    for call in answer.calls:
        if call.name == REFLECT.name:
            parts += reflecting.parts_of(call.args)
            continue
        args = dict(call.args)
        parts += reflecting.parts_of(args.pop(REFLECT.name, None))
        calls.append(replace(call, args=args))
    return ModelAnswer(tuple(calls[:CALLS_MAX]), answer.text, tuple(parts[: reflecting.PARTS_MAX]))


def _costed(records: list[dict[str, Any]], usage: CallUsage) -> list[dict[str, Any]]:
    """Return the records with the turn's tokens shared equally among them."""
    share = (usage.input + usage.output) // max(len(records), 1)
    return [{**one, "cost": {**one["cost"], "tokens": share}} for one in records]
