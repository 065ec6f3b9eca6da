"""The llm agent: build the prompt, ask the model, bring its calls before the daemon, turn by turn.

It holds no truth and has no hands. Whatever the model or its server sends costs a turn, a wait or
a clear reason, never a crash.
"""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict
from typing import Any

from clew_shared.prompt import build, size_chars
from clew_shared.prompt_tools import schema_of
from clew_shared.prompt_view import Mode, Said, View
from clew_shared.tools import Tool

from . import json_mode
from .client import AgentClient, Disconnected, RpcError
from .json_mode import Reading
from .life import Leave
from .llm_client import Completion, LlmClient, Misconfigured, Overflow, Temporary, Unsupported
from .memory import Memory
from .turns import Over, Turns

NAME = "llm/1"
IDLE_TURNS_MAX = 6
REPLAN_TURNS_MAX = 4
TIGHTNESS_MAX = 4
ANSWER_TOKENS_MIN = 256
AFTER_REFUSAL_TEMPERATURE = 0.7
_THOUGHT_CHARS = 20_000


class LlmAgent:
    """Works on one goal with one model until the daemon has no more for it to do."""

    def __init__(self, daemon: AgentClient, options: Mapping[str, Any]) -> None:
        self._daemon = daemon
        self._options = options
        self._memory = Memory()
        self._turns = Turns(daemon, self._memory, NAME)
        self._auto = False
        self._rung = 0
        self._idle = 0
        self._replanning = 0
        self._stale = False
        self._withheld = ""
        daemon.on("feedback", lambda _: self._outdated())
        daemon.on("thresholds", lambda _: self._outdated())
        daemon.on("intervention", self._turns.hear_notice)

    async def run(self) -> None:
        """Take turns until the goal is over; `Leave` where the endpoint cannot be used."""
        await self._turns.refresh()
        hello = self._memory.hello
        agent = (hello.get("options") or self._options).get("agent") or {}
        self._auto = agent.get("mode", "auto") == "auto"
        self._memory.mode = "json" if agent.get("mode") == "json" else "tools"
        llm = LlmClient(agent, hello.get("credential"), slot=self._slot)
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
        completion, reading = await self._ask(llm)
        self._turns.begin()
        await self._think(reading)
        try:
            for call in reading.calls:
                if not await self._turns.carry_out(call, reading.words):
                    break
        except Over:  # what this turn has cost is still to be told
            await self._reflect(completion, reading)
            raise
        self._withheld = self._turns.refused if self._may_withhold() else ""
        if not reading.calls:
            self._nudge(completion, reading)
        await self._reflect(completion, reading)
        await self._bound_idling()

    async def _think(self, reading: Reading) -> None:
        if not reading.words:
            return
        answer = await self._daemon.call(
            "think", text=reading.words[:_THOUGHT_CHARS], has_tool_calls=bool(reading.calls)
        )
        self._memory.transcript.append(Said("assistant", reading.words))
        self._turns.hear(answer)

    def _nudge(self, completion: Completion, reading: Reading) -> None:
        """Say plainly to a model that only talked what is wanted of it."""
        if completion.finish_reason == "length":
            text = "Your answer was cut off because it was too long. Make one short call."
        elif reading.words:
            text = "You called no tool, so nothing was done. Call one tool now, or call finish."
        else:
            text = "Your answer was empty. Call one tool now, or call finish."
        self._memory.say(text)

    async def _reflect(self, completion: Completion, reading: Reading) -> None:
        record: dict[str, Any] = {"mode": "fast", "tool_calls": self._turns.records}
        record |= {key: value for key, value in reading.reflection.items() if key != "relevance"}
        if record.get("progress_assessment") not in ("advancing", "stuck", "regressing"):
            record.pop("progress_assessment", None)
        with suppress(RpcError, ValueError):  # a record that is refused is not worth a crash
            answer = await self._daemon.call("reflect", usage=asdict(completion.usage), **record)
            self._turns.hear(answer)
        self._memory.iteration += 1

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
            view = self._memory.view()
            tools = self._offered(view)
            messages = build(view)
            answer_tokens = max(view.max_tokens // 2 ** (1 + view.tightness), ANSWER_TOKENS_MIN)
            json_wanted = self._memory.mode == "json"
            try:
                completion = await llm.ask(
                    messages,
                    tools=() if json_wanted else [schema_of(tool) for tool in tools],
                    response_format=json_mode.response_format(tools, self._rung)
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
                listed = 0 if view.mode == "json" else len(json.dumps([*map(schema_of, tools)]))
                self._memory.calibrate(size_chars(messages) + listed, completion.usage.input)
                return completion, self._read(completion, view.tools)

    def _offered(self, view: View) -> tuple[Tool, ...]:
        """Leave out what would be refused: the call just refused, `finish` while checks fail."""
        withheld = {self._withheld}
        if self._memory.mode == "json" and not self._turns.may_finish and not view.replan:
            withheld.add("finish")
        return tuple(t for t in view.tools if t.name not in withheld) or view.tools

    def _read(self, completion: Completion, tools: tuple[Tool, ...]) -> Reading:
        if completion.calls:
            known = {tool.name: tool for tool in tools}
            calls = (json_mode.request(c.name, c.arguments, known) for c in completion.calls)
            return Reading(tuple(calls), completion.text.strip())
        reading = json_mode.read(completion.text, tools)
        if reading.calls and self._memory.mode == "tools" and self._auto:
            self._switch("json")  # it writes its calls as text: ask it for that, properly
        return reading

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
