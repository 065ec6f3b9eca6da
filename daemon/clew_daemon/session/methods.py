"""The methods of the worker protocol: which part of the session answers which, and the small ones themselves.

One call at a time for one agent. A method that changes anything ends by waiting until that is durable; only then is it
answered (docs/guarantees.md).
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol

from clew_daemon.learning.models import of_model
from clew_daemon.processes.llm_slots import Endpoint, calls_at
from clew_daemon.record.hello import subtask_view, task_view
from clew_daemon.record.shrink import fitted_state
from clew_daemon.session.acting import Acting, noted
from clew_daemon.session.checks import Checks
from clew_daemon.session.desk import GoalDesk
from clew_daemon.session.finishing import Finishing
from clew_daemon.session.greeting import FeedbackSeen, Greeting
from clew_shared.core.answers import WrongState
from clew_shared.core.questions import asks
from clew_shared.record import events as ev
from clew_shared.record.prompt_facts import COUNT_MAX, Prompt
from clew_shared.record.spec import PlannedSubtask, PlannedTask
from clew_shared.text.redact import redact, redacted
from clew_shared.views.publish import state_view
from clew_shared.wire import protocol
from clew_shared.wire.answers import Judged, Noted

RAW_OUTPUT_CHARS = 1_000


class WireAnswer(Protocol):
    """What a method answers; `as_json` is what is sent."""

    def as_json(self) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True)
class ViewAnswer:
    """An answer that shows a part of the state: JSON values already."""

    view: dict[str, Any]

    def as_json(self) -> dict[str, Any]:
        """Return the view."""
        return self.view


class Methods:
    """The methods of one agent."""

    def __init__(self, desk: GoalDesk) -> None:
        self._desk = desk
        self.feedback = FeedbackSeen(desk)
        self.leave: protocol.Leave | None = None
        """Why the agent is about to exit, where it has given a reason."""
        self._slot: Endpoint | None = None
        self._last_turn = False
        """The turn in which the work ended, or was stopped, is on record."""
        self._greeting = Greeting(desk, self.feedback)
        self.checks = Checks(desk)
        self._acting = Acting(desk, self.checks)
        self._finishing = Finishing(desk, self.checks, self.feedback)
        self._methods: dict[str, Callable[[Any], Awaitable[WireAnswer]]] = {
            "hello": self._greeting.hello,
            "heartbeat": self._heartbeat,
            "leave": self._leave,
            "llm_slot": self._llm_slot,
            "ask": self._ask,
            "think": self._think,
            "reflect": self._reflect,
            "act": self._act,
            "propose": self._acting.propose,
            "outcome": self._acting.outcome,
            "record": self._acting.record,
            "plan": self._plan,
            "complete_subtask": self._complete_subtask,
            "advance": self._advance,
            "learn": self._learn,
            "check": self._finishing.check,
            "finish": self._finishing.finish,
            "login": self._login,
        }

    async def call(self, name: str, params: Any) -> dict[str, Any]:
        """Carry out a method; returns its result, or raises ProtocolError or WrongState."""
        answer = await self._methods[name](params)
        return answer.as_json()

    def release(self) -> None:
        """Return the LLM slot, if the agent still holds it."""
        self._desk.work.llm_since = None
        if self._slot is not None:
            self._slot.release()
            self._slot = None

    async def _heartbeat(self, _: protocol.Heartbeat) -> ViewAnswer:
        return ViewAnswer({})

    async def _leave(self, p: protocol.Leave) -> ViewAnswer:
        self.leave = p.model_copy(update={"reason": redact(p.reason)})
        return ViewAnswer({})

    async def _login(self, p: protocol.Login) -> ViewAnswer:
        reason = await self._desk.refresh_login(p.place, p.text)
        return ViewAnswer({"written": not reason, "reason": reason})

    async def _llm_slot(self, p: protocol.LlmSlot) -> ViewAnswer:
        self.release()
        if p.open:
            self._desk.refuse_while_stopping()  # the answer of the model would be paid for and dropped
            self.feedback.prompted()
            work, endpoint = self._desk.work, self._desk.parts.slots.of(p.base_url)
            calls = calls_at(p.base_url, self._desk.settings.limits.llm_calls)
            work.llm_since, work.llm_queued = time.time(), endpoint.is_full(calls)
            await endpoint.acquire(calls)
            work.llm_since, work.llm_queued = time.time(), False
            self._slot = endpoint
        return ViewAnswer({"open": p.open})

    async def _ask(self, p: protocol.Ask) -> ViewAnswer:
        question = redact(p.question)
        await self._desk.decide(lambda core: core.ask(asks(core.state, question), time.time()))
        return ViewAnswer({})

    async def _think(self, p: protocol.Think) -> Noted:
        text, calls = redact(p.text), p.has_tool_calls
        return noted(
            await self._desk.decide(lambda c: c.think(text, time.time(), has_tool_calls=calls))
        )

    async def _reflect(self, p: protocol.Reflect) -> Noted:
        desk, before = self._desk, self._desk.core.state.prompt
        if self._last_turn:
            raise WrongState("the last turn is on record")
        self._last_turn = desk.stopping or not desk.core.state.workable
        prompt = of_model(p.prompt, desk.traits.agent)
        with desk.recording() as core:  # also while the worker stops: the turn has its cost
            feedback = core.reflect(_reflected(p, prompt, core.state.feedback_untold))
            left = core.turns_left()
        await desk.commit()
        if prompt and desk.traits.own_prompt:
            await desk.parts.models.learn(prompt, before)
        return noted(feedback).model_copy(update={"turns_left": left})

    async def _act(self, p: protocol.Act) -> Judged:
        return await (self._finishing if p.tool == "finish" else self._acting).act(p)

    async def _plan(self, p: protocol.Plan) -> ViewAnswer:
        tasks = tuple(
            PlannedTask(
                description=redact(t.description),
                subtasks=tuple(
                    PlannedSubtask(description=redact(s.description)) for s in t.subtasks
                ),
            )
            for t in p.tasks
        )
        checks = [  # a command that holds something like a key would be recorded, and run, without it
            (redact(one.name), one.cmd) for one in p.checks or () if redact(one.cmd) == one.cmd
        ]
        await self._desk.decide(
            lambda core: core.plan(tasks, p.replan, time.time(), checks, covers=p.covered)
        )
        return ViewAnswer(fitted_state({"state": state_view(self._desk.core.state)}))

    async def _complete_subtask(self, p: protocol.CompleteSubtask) -> ViewAnswer:
        told: dict[str, str] = {"failure": redact(p.failure), "summary": redact(p.summary)}
        level = await self._desk.decide(
            lambda core: core.complete_subtask(time.time(), success=p.success, **told)
        )
        view = {"state": state_view(self._desk.core.state), "escalated_to": level}
        return ViewAnswer(fitted_state(view))

    async def _advance(self, _: protocol.Advance) -> ViewAnswer:
        more = await self._desk.decide(lambda core: core.advance(time.time()))
        state = self._desk.core.state
        return ViewAnswer(
            {
                "subtask": subtask_view(state) if more else None,
                "task": task_view(state) if more else None,
            }
        )

    async def _learn(self, p: protocol.Learn) -> ViewAnswer:
        desk = self._desk
        learned = await desk.parts.playbook.learn(p.deltas, desk.core.state, desk.settings.playbook)
        return ViewAnswer({"playbook": learned})


def _reflected(p: protocol.Reflect, prompt: Prompt | None, new_feedback: list[str]) -> ev.Reflected:
    """Return the event of an iteration record, with the feedback from people since the last one."""
    record = p.model_dump(
        mode="json", exclude={"usage", "hindsight", "turn", "prompt", "unfinished"}
    )
    if new_feedback:
        lines = [str(record.get("user_feedback") or ""), *new_feedback]
        record["user_feedback"] = "\n".join(filter(None, lines))
    costs = [c.get("cost") for c in p.tool_calls]
    tokens = sum(_count(c.get("tokens")) for c in costs if isinstance(c, dict))
    return ev.Reflected(
        at=time.time(),
        iteration=p.iteration or 0,
        assessment=p.progress_assessment or "",
        record=_bounded(record),
        hindsight=tuple(redacted(p.hindsight)),
        turn=tuple(redacted(p.turn)),
        prompt=prompt,
        tokens=p.usage.input + p.usage.output or tokens,
        tokens_in=p.usage.input,
        tokens_out=p.usage.output,
        tokens_cached=p.usage.cached,
        llm_s=p.usage.seconds,
        unfinished=p.unfinished,
    )


def _count(value: Any) -> int:
    """Return a count of tokens, 0 for what is none, as in the records that people read."""
    is_count = isinstance(value, int | float) and 0 <= value <= COUNT_MAX
    return int(value) if is_count else 0


def _bounded(record: dict[str, Any]) -> dict[str, Any]:
    """Redact the texts of a record, then cut raw outputs: half a key is still one."""
    cleaned: dict[str, Any] = redacted(record)
    for call in cleaned.get("tool_calls", []):
        key = "raw_output" if "raw_output" in call else "result"
        if isinstance(call.get(key), str):
            call[key] = call[key][:RAW_OUTPUT_CHARS]
    return cleaned
