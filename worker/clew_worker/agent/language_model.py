"""The model of an llm agent, asked in the richest form that the model and its server support.

Native tool calls, then JSON by a schema, then any JSON, then plain text: what a server refuses is not asked again.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

from clew_shared.prompt.view import REFLECT, PromptView, schema_of
from clew_shared.tools import Tool
from clew_worker.agent import json_mode
from clew_worker.agent.client import Disconnected, RpcError
from clew_worker.agent.json_mode import ModelAnswer
from clew_worker.agent.llm_client import CALLS_MAX, Completion, LlmClient
from clew_worker.agent.llm_faults import Misconfigured, Overflow, Unsupported
from clew_worker.agent.work import Work

TIGHTNESS_MAX = 4
ANSWER_TOKENS_MIN = 256
AFTER_REPETITION_TEMPERATURE = 0.7


class LanguageModel:
    """Answers questions about the goal; raises an LlmError where no form of a question is accepted."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._memory = work.memory
        self._form = work.memory.form
        hello = self._memory.hello
        self._auto = hello.options.agent.mode == "auto"
        self.withheld = ""
        """The tool that is not offered in the next question."""
        self._llm = LlmClient(hello.options.agent, hello.credential, slot=self._slot)
        self.close = self._llm.close

    async def ask(self) -> tuple[Completion, ModelAnswer]:
        """Ask until there is an answer, in a form that this server and this model support."""
        while True:
            layout = self._memory.laid_out()
            view = layout.view
            tools = self._offered(view)
            native = self._form.mode == "tools"
            form = json_mode.response_format(tools, self._form.rung, reflects=view.reflects)
            repeats = self._work.turn.refused or self._memory.fails_again
            try:
                completion = await self._llm.ask(
                    layout.messages,
                    tools=[schema_of(tool) for tool in tools] if native else (),
                    response_format=None if native else form,
                    max_tokens=self._answer_tokens(view),
                    # after a repetition the likeliest answer is not wanted
                    temperature_min=AFTER_REPETITION_TEMPERATURE if repeats else 0.0,
                )
            except Overflow as fault:
                self._form.tightness += 1  # folds harder
                if self._form.tightness > TIGHTNESS_MAX:
                    raise Misconfigured(
                        f"the prompt is too long for the model, however much is folded: {fault}. "
                        "Give the model a larger context, or set `[context] max_tokens` lower"
                    ) from None
            except Unsupported as fault:
                self._step_down(fault)
            else:
                self._form.calibrate(layout.chars, completion.usage.input)
                return completion, self._read(completion, view.tools)

    def _answer_tokens(self, view: PromptView) -> int:
        """Return how long an answer may be: half as long as the prompt, `[context] answer_tokens` if that is less."""
        most = view.max_tokens >> (1 + view.tightness)
        wanted = self._memory.hello.options.context.answer_tokens or most
        return max(min(wanted, most), ANSWER_TOKENS_MIN)

    def _offered(self, view: PromptView) -> tuple[Tool, ...]:
        """Return the tools without those that would be refused: the one just refused, `finish` while checks fail.

        With native tools `finish` goes only after it was called in vain, since another list costs the cached prompt.
        """
        withheld = {self.withheld}
        insists = self._form.mode == "json" or self._work.in_vain > 0
        if insists and not self._work.can_finish and not view.state.replan_required:
            withheld.add("finish")
        return tuple(t for t in view.tools if t.name not in withheld) or view.tools

    def _read(self, completion: Completion, tools: tuple[Tool, ...]) -> ModelAnswer:
        if completion.calls:
            known = {tool.name: tool for tool in tools}
            calls = (json_mode.request(c.name, c.arguments, known) for c in completion.calls)
            answer = ModelAnswer(tuple(calls), completion.text.strip())
        else:
            answer = json_mode.read(completion.text, tools)
        self._form.answered(completion, answer, auto=self._auto)
        return _without_reflect(answer)

    def _step_down(self, fault: Unsupported) -> None:
        """Ask for less: tools, then a schema per tool, one schema, any JSON, plain text."""
        if self._form.mode == "json" and self._form.rung < json_mode.RUNGS - 1:
            self._form.rung += 1
        elif self._form.mode == "tools" and self._auto:
            self._form.ask_for_json()
        else:
            hint = ' Try `mode = "json"`.' if self._form.mode == "tools" else ""
            raise Misconfigured(f"the server refuses what is asked: {fault}.{hint}") from None

    @asynccontextmanager
    async def _slot(self) -> AsyncIterator[None]:
        """Hold one of the endpoint's slots, for one HTTP call."""
        daemon, base_url = self._work.daemon, self._memory.hello.options.agent.base_url
        await daemon.call("llm_slot", open=True, base_url=base_url)
        try:
            yield
        finally:
            with suppress(Disconnected, RpcError):
                await daemon.call("llm_slot", open=False, base_url=base_url)


def _without_reflect(answer: ModelAnswer) -> ModelAnswer:
    """Move the reflect part out of the calls: it is a call beside them, or a field in the arguments of one."""
    parts = list(answer.hindsight)
    calls = []
    for call in answer.calls:
        if call.name == REFLECT.name:
            parts += json_mode.parts_of(call.args)
            continue
        args = dict(call.args)
        parts += json_mode.parts_of(args.pop(REFLECT.name, None))
        calls.append(replace(call, args=args))
    return ModelAnswer(tuple(calls[:CALLS_MAX]), answer.text, tuple(parts[: json_mode.PARTS_MAX]))
