"""The llm agent: build the prompt, ask the model, bring its calls before the daemon, turn by turn.

It holds no truth and has no hands. Whatever the model or its server sends costs a turn, a wait or
a clear reason, never a crash.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, replace
from typing import Any

from clew_shared.prompt.layout import merged, tools_chars
from clew_shared.prompt.messages import chars
from clew_shared.prompt.tools import REFLECT, schema_of
from clew_shared.prompt.view import Mode, View
from clew_shared.text.redact import hide
from clew_shared.wire.tools import Tool
from clew_worker.agent import json_mode, reflecting
from clew_worker.agent.client import AgentClient, Disconnected, RpcError
from clew_worker.agent.json_mode import Reading
from clew_worker.agent.life import Leave
from clew_worker.agent.llm_client import (
    CALLS_MAX,
    Completion,
    LlmClient,
    LlmError,
    Misconfigured,
    Overflow,
    Temporary,
    Unsupported,
    Usage,
)
from clew_worker.agent.memory import Memory
from clew_worker.agent.turns import Over, Turns

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
    """Works on one goal with one model until the daemon has no more for it to do.

    `memory` is what it has in mind, for those who want prompts of their own.
    """

    def __init__(
        self, daemon: AgentClient, options: Mapping[str, Any], memory: Memory | None = None
    ) -> None:
        self._daemon = daemon
        self._options = options
        self._memory = memory or Memory()
        self._turns = Turns(daemon, self._memory, NAME)
        self._auto = False
        self._rung = 0
        self._idle = 0
        self._replanning = 0
        self._stale = False
        self._withheld = ""
        self._extra = Usage()
        self._llm: LlmClient | None = None
        daemon.on("feedback", lambda _: self._outdated())
        daemon.on("thresholds", lambda _: self._outdated())
        daemon.on("intervention", self._turns.hear_notice)

    async def run(self) -> None:
        """Take turns until the goal is over; `Leave` where the endpoint cannot be used."""
        await self._turns.refresh()
        hello = self._memory.hello
        agent = (hello.get("options") or self._options).get("agent") or {}
        self._auto = agent.get("mode", "auto") == "auto"
        key = hello.get("credential")
        hide([key] if key else [])
        self._llm = llm = LlmClient(agent, key, slot=self._slot)
        if ((hello.get("options") or {}).get("playbook") or {}).get("llm_reflection"):
            self._turns.on_completed = self._learn_strategies
        try:
            while True:
                await self._turn(llm)
        except Over:
            return
        except Temporary as fault:
            raise Leave("temporary", str(fault), fault.retry_after_s) from None
        except Misconfigured as fault:
            raise Leave("configuration", str(fault)) from None
        finally:
            await llm.close()

    def _outdated(self) -> None:
        self._stale = True

    @asynccontextmanager
    async def _slot(self) -> AsyncIterator[None]:
        """Hold one of the endpoint's places, for one HTTP call."""
        base_url = (self._options.get("agent") or {}).get("base_url") or ""
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
            await self._turns.refresh()
        self._bound_replanning()
        self._extra = Usage()
        hindsight = await self._looked_back()
        if hindsight:
            self._memory.begin_turn(hindsight)
        completion, reading = await self._ask(llm)
        if not hindsight:
            hindsight = reading.hindsight
            self._memory.begin_turn(hindsight)
        self._turns.begin()
        await self._think(reading)
        try:
            for call in reading.calls:
                if not await self._turns.carry_out(call, reading.words):
                    break
        except Over:  # what this turn has cost is still to be told
            await self._reflect(completion, hindsight)
            raise
        self._withheld = self._turns.refused if self._may_withhold() else ""
        if not reading.calls:
            self._nudge(completion, reading)
        await self._reflect(completion, hindsight)
        self._stale = self._stale or self._turns.moved  # what was found last belongs to what ended
        await self._bound_idling()

    async def _think(self, reading: Reading) -> None:
        if not reading.words:
            return
        answer = await self._daemon.call(
            "think", text=reading.words[:_THOUGHT_CHARS], has_tool_calls=bool(reading.calls)
        )
        self._memory.said(reading.words)
        self._turns.hear(answer)

    def _nudge(self, completion: Completion, reading: Reading) -> None:
        """Say plainly to a model that only talked what is wanted of it."""
        if completion.finish_reason == "length":
            text = "Your answer was cut off because it was too long. Make one short call."
        elif reading.words or reading.hindsight:
            text = "You called no tool, so nothing was done. Call one tool now, or call finish."
        else:
            text = "Your answer was empty. Call one tool now, or call finish."
        self._memory.say(text)

    async def _reflect(self, completion: Completion, hindsight: Hindsight) -> None:
        """Tell of the turn: what it did and cost, what its prompt was, and what the last one had brought."""
        usage = completion.usage + self._extra
        record: dict[str, Any] = {
            "mode": "deep" if self._separate else "fast",
            "tool_calls": _costed(self._turns.records, usage),
            "synthesis": " ".join(part["synthesis"] for part in hindsight if "synthesis" in part),
            "hindsight": [dict(part) for part in hindsight],
            "turn": self._memory.turn(),
            "prompt": self._memory.told(),
        }
        if assessment := reflecting.assessment_of(hindsight):
            record["progress_assessment"] = assessment
        with suppress(RpcError, ValueError):  # a record that is refused is not worth a crash
            answer = await self._daemon.call("reflect", usage=asdict(usage), **record)
            self._turns.hear(answer)
        self._memory.iteration += 1

    # ---- questions besides the turn's own

    @property
    def _separate(self) -> bool:
        return self._agent.get("reflection") == "separate"

    @property
    def _agent(self) -> Mapping[str, Any]:
        return (self._memory.hello.get("options") or self._options).get("agent") or {}

    async def _looked_back(self) -> Hindsight:
        """Ask what the last results told, where that is to be a question of its own."""
        if not (self._separate and self._turns.records):
            return ()
        return reflecting.parts_of(await self._ask_aside(reflecting.ASK_REFLECTION))

    async def _learn_strategies(self) -> None:
        """Ask at a subtask's end what would help next time, and tell the daemon."""
        answer = await self._ask_aside(reflecting.ASK_STRATEGIES)
        if deltas := reflecting.strategies_of(answer):
            with suppress(RpcError, ValueError):  # what cannot be learned stops nothing
                await self._daemon.call("learn", deltas=deltas)

    async def _ask_aside(self, question: str) -> dict[str, Any]:
        """Ask one question at the end of the same prompt, so that its prefix is cached; {} without an answer."""
        assert self._llm is not None  # noqa: S101 - set before the first turn
        laid = self._memory.laid()
        view = laid.view
        messages = merged([*laid.messages, {"role": "user", "content": question}])
        wanted = {"type": "json_object"} if view.mode == "json" and self._rung < JSON_RUNG else None
        tools = [schema_of(tool) for tool in view.tools] if view.mode == "tools" else ()
        try:
            completion = await self._llm.ask(
                messages, tools=tools, response_format=wanted, max_tokens=ANSWER_TOKENS_MIN * 2
            )
        except LlmError:
            return {}  # the next question of the turn meets the fault, and says so
        self._extra += completion.usage
        asked = next((c.arguments for c in completion.calls if c.name == REFLECT.name), None)
        if isinstance(asked, Mapping):
            return dict(asked)
        return json_mode.first_object(asked if isinstance(asked, str) else completion.text)

    def _may_withhold(self) -> bool:
        """Offer a refused tool not in the next turn: a grammar then cannot repeat the call.

        With native tools only from the second refusal on, since it costs the cached prompt.
        """
        return self._memory.mode == "json" or self._memory.refusals > 1

    def _bound_replanning(self) -> None:
        self._replanning = self._replanning + 1 if self._memory.replan else 0
        if self._replanning > REPLAN_TURNS_MAX:
            raise Over  # cannot replan: the goal goes to a person

    async def _bound_idling(self) -> None:
        """Call turns without any effect a failed attempt, so that even an endless talker ends."""
        self._idle = 0 if self._turns.reached_daemon else self._idle + 1
        if self._idle < IDLE_TURNS_MAX or self._memory.replan:
            return
        self._idle = 0
        if not self._memory.subtask_open:
            raise Over
        summary = f"the model called no usable tool in {IDLE_TURNS_MAX} turns"
        await self._turns.end_subtask(success=False, summary=summary)

    # ---- one question

    async def _ask(self, llm: LlmClient) -> tuple[Completion, Reading]:
        """Ask until there is an answer, in the form that this server and this model can do."""
        while True:
            laid = self._memory.laid()
            view, messages = laid.view, laid.messages
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
                    # who has just repeated itself is to say something else, not the likeliest
                    temperature_min=AFTER_REFUSAL_TEMPERATURE if self._turns.refused else 0.0,
                )
            except Overflow as fault:
                self._fold_harder(fault)
            except Unsupported as fault:
                self._step_down(fault)
            else:
                size = chars(messages) + tools_chars(view)
                self._memory.calibrate(size, completion.usage.input)
                return completion, self._read(completion, view.tools)

    def _offered(self, view: View) -> tuple[Tool, ...]:
        """Leave out what would be refused: the call just refused, `finish` while checks fail.

        With native tools only after it was called in vain, since another list costs the cached prompt.
        """
        withheld = {self._withheld}
        insists = self._memory.mode == "json" or self._turns.finishes_in_vain > 0
        if insists and not self._turns.may_finish and not view.replan:
            withheld.add("finish")
        return tuple(t for t in view.tools if t.name not in withheld) or view.tools

    def _read(self, completion: Completion, tools: tuple[Tool, ...]) -> Reading:
        if not completion.calls:
            reading = json_mode.read(completion.text, tools)
            if reading.calls and self._memory.mode == "tools" and self._auto:
                self._switch("json")  # it writes its calls as text: ask it for that, properly
            return _without_reflect(reading)
        known = {tool.name: tool for tool in tools}
        calls = (json_mode.request(c.name, c.arguments, known) for c in completion.calls)
        return _without_reflect(Reading(tuple(calls), completion.text.strip()))

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


def _without_reflect(reading: Reading) -> Reading:
    """Take the reflect part out of the calls: it stands as a call beside them, or as a field in one's args."""
    parts = list(reading.hindsight)
    calls = []
    for call in reading.calls:
        if call.name == REFLECT.name:
            parts += reflecting.parts_of(call.args)
            continue
        args = dict(call.args)
        parts += reflecting.parts_of(args.pop(REFLECT.name, None))
        calls.append(replace(call, args=args))
    return Reading(tuple(calls[:CALLS_MAX]), reading.words, tuple(parts[: reflecting.PARTS_MAX]))


def _costed(records: list[dict[str, Any]], usage: Usage) -> list[dict[str, Any]]:
    """Share a turn's tokens among its calls."""
    share = (usage.input + usage.output) // max(len(records), 1)
    return [{**one, "cost": {**one["cost"], "tokens": share}} for one in records]
