"""The llm agent: builds the prompt, asks the model, and sends its calls to the daemon, turn by turn.

It keeps no state of record and carries out nothing. Whatever the model or its server sends costs a turn, a wait or
a clear reason, never a crash. The model is asked in the richest form that it and its server support: native tool
calls, then JSON by a schema, then any JSON, then plain text; what a server refuses is not asked again.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

from clew_shared.prompt.messages import CUT_OFF, EMPTY_ANSWER, NO_CALL
from clew_shared.prompt.view import PromptView, schema_of
from clew_shared.text.redact import hide
from clew_shared.text.shorten import without_middle
from clew_shared.tools import Tool
from clew_shared.wire.answers import Noted
from clew_shared.wire.protocol import Usage
from clew_worker.agent import llm_client as llm
from clew_worker.agent import written
from clew_worker.agent.client import AgentClient, Disconnected, RpcError
from clew_worker.agent.llm_client import Completion, LlmClient, Misconfigured
from clew_worker.agent.work import AgentFinished, Memory, Work
from clew_worker.agent.written import Hindsight, ModelAnswer

NAME = "llm/1"
REPLAN_TURNS_MAX, TIGHTNESS_MAX = 4, 4
LAST_REPORT_S = 5.0
ANSWER_TOKENS_MIN = 256
AFTER_REPETITION_TEMPERATURE = 0.7
_THOUGHT_CHARS = 20_000
# of an answer that was cut off before its call; the next prompts carry the rest in vain
CUT_OFF_CHARS = 300


class LlmAgent:
    """Works on one goal with one model until it is done."""

    def __init__(self, daemon: AgentClient) -> None:
        self._daemon = daemon
        self._replanning = 0

    async def run(self) -> None:
        """Take turns until the goal is over; `CannotContinue` where the endpoint cannot be used."""
        hello = await self._daemon.greet(NAME)
        self._memory = Memory(hello)
        self._daemon.on("intervention", lambda p: self._memory.warn(str(p.get("message") or "")))
        self._work = Work(self._daemon, self._memory)
        hide([hello.credential] if hello.credential else [])
        self._llm = LlmClient(hello.options.agent, hello.credential, slot=self._slot)
        try:
            while True:
                await self._turn()
                self._memory.hello = await self._daemon.greet(NAME)
        except AgentFinished:
            return
        finally:
            await self._llm.close()

    async def _turn(self) -> None:
        self._replanning = self._replanning + 1 if self._memory.state.replan_required else 0
        if self._replanning > REPLAN_TURNS_MAX:
            raise AgentFinished  # cannot replan: the goal goes to a person
        completion, answer = await self._ask()
        if completion.finish_reason == "length" and not answer.calls:
            answer = replace(answer, text=without_middle(answer.text, CUT_OFF_CHARS))
        self._memory.refused = ""
        try:
            await self._do(answer)
        except (AgentFinished, RpcError, Disconnected, asyncio.CancelledError):
            # the turn still has its cost; the daemon may be busy, or gone
            with suppress(Disconnected, TimeoutError):
                async with asyncio.timeout(LAST_REPORT_S):
                    await self._reflect(completion.usage, answer.hindsight)
            raise
        if not answer.calls:
            said = answer.text or answer.hindsight
            cut_off = completion.finish_reason == "length"
            self._memory.note(CUT_OFF if cut_off else NO_CALL if said else EMPTY_ANSWER)
        await self._reflect(completion.usage, answer.hindsight)

    async def _do(self, answer: ModelAnswer) -> None:
        if answer.text:
            text, has_calls = answer.text[:_THOUGHT_CHARS], bool(answer.calls)
            noted = await self._daemon.think(text, has_tool_calls=has_calls)
            self._memory.note(answer.text, "assistant")
            self._show(noted)
        changes = self._memory.changes
        for call in answer.calls:
            if not await self._work.carry_out(call, answer.text):
                break
        last = self._memory.acted[-1:]
        changed = self._memory.changes > changes
        if changed and last and (last[0].result == "success" or last[0].changed):
            await self._work.check_after_change()

    def _show(self, noted: Noted) -> None:
        if noted.intervention:
            self._memory.warn(noted.intervention.message)

    async def _reflect(self, usage: Usage, hindsight: Hindsight) -> None:
        record: dict[str, object] = {
            "mode": "fast",
            "synthesis": " ".join(part["synthesis"] for part in hindsight if "synthesis" in part),
            "hindsight": [dict(part) for part in hindsight],
            **self._memory.report(usage.input + usage.output),
        }
        if assessed := [part["assessment"] for part in hindsight if "assessment" in part]:
            record["progress_assessment"] = assessed[-1]
        noted = await self._daemon.reflect(usage.model_dump(), record)
        self._show(noted)

    async def _ask(self) -> tuple[Completion, ModelAnswer]:
        """Ask until there is an answer, in a form that this server and this model support; else raise an LlmError."""
        while True:
            layout = self._memory.laid_out()
            view = layout.view
            tools = self._offered(view)
            native, rung = self._memory.prompt.mode == "tools", self._memory.prompt.rung
            form = written.response_format(tools, rung, reflects=view.reflects)
            repeats = self._memory.refused or self._memory.fails_again
            try:
                completion = await self._llm.ask(
                    layout.messages,
                    tools=[schema_of(tool) for tool in tools] if native else (),
                    response_format=None if native else form,
                    max_tokens=self._answer_tokens(view),
                    # after a repetition the likeliest answer is not wanted
                    temperature_min=AFTER_REPETITION_TEMPERATURE if repeats else 0.0,
                )
            except llm.Overflow as fault:
                self._memory.change(tightness=view.tightness + 1)  # folds harder
                if view.tightness >= TIGHTNESS_MAX:
                    why = f"the prompt is too long for the model, however much is folded: {fault}"
                    hint = "Give the model a larger context, or set `[context] max_tokens` lower"
                    raise Misconfigured(f"{why}. {hint}") from None
            except llm.Unsupported as fault:
                self._step_down(fault)
            else:
                self._memory.calibrate(completion.usage.input)
                return completion, self._read(completion, view.tools)

    def _answer_tokens(self, view: PromptView) -> int:
        """Return how long an answer may be: half as long as the prompt, `[context] answer_tokens` if that is less."""
        most = view.max_tokens >> (1 + view.tightness)
        wanted = self._memory.hello.options.context.answer_tokens or most
        return max(min(wanted, most), ANSWER_TOKENS_MIN)

    def _offered(self, view: PromptView) -> tuple[Tool, ...]:
        """Return the tools without the one just refused, and `finish` while checks fail (native: once in vain)."""
        memory, withheld = self._memory, set[str]()
        json = memory.prompt.mode == "json"
        if json or memory.refusals > 1:
            withheld.add(memory.refused)
        insists = json or self._work.in_vain > 0
        if insists and not self._work.can_finish and not view.state.replan_required:
            withheld.add("finish")
        return tuple(t for t in view.tools if t.name not in withheld) or view.tools

    def _read(self, completion: Completion, tools: tuple[Tool, ...]) -> ModelAnswer:
        if completion.calls:
            known = {tool.name: tool for tool in tools}
            calls = [written.request(*call, known) for call in completion.calls]
            text = completion.text.strip()
        else:
            calls, text = written.read(completion.text, tools)
        self._memory.answered(completion, calls)
        return written.answer_of(calls, text)

    def _step_down(self, fault: llm.Unsupported) -> None:
        """Ask for less: tools, then a schema per tool, one schema, any JSON, plain text."""
        mode, rung = self._memory.prompt.mode, self._memory.prompt.rung
        if mode == "json" and rung < written.RUNGS - 1:
            self._memory.change(rung=rung + 1)
        elif mode == "tools" and self._memory.auto:
            self._memory.change(mode="json", rung=0)
        else:
            hint = ' Try `mode = "json"`.' if mode == "tools" else ""
            raise Misconfigured(f"the server refuses what is asked: {fault}.{hint}") from None

    @asynccontextmanager
    async def _slot(self) -> AsyncIterator[None]:
        """Hold one of the endpoint's slots, for one HTTP call."""
        daemon, base_url = self._daemon, self._memory.hello.options.agent.base_url
        await daemon.call("llm_slot", open=True, base_url=base_url)
        try:
            yield
        finally:
            with suppress(Disconnected, RpcError):
                await daemon.call("llm_slot", open=False, base_url=base_url)
