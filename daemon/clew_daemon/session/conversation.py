"""The agent's messages, answered in order, one at a time: an agent that floods waits in its own socket.

A method that changes anything ends by waiting until that is durable; only then is it answered (docs/guarantees.md).
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from clew_daemon.host.keys import place_of, secrets_of, write_back
from clew_daemon.learning.playbook import CHARS_MAX, continued, of_model
from clew_daemon.processes import endings
from clew_daemon.processes.endings import ATTEMPT, Ended
from clew_daemon.processes.executor import ExecutorFault
from clew_daemon.processes.lines import WRITE_TIMEOUT_S, LineChannel, LineError
from clew_daemon.processes.llm_slots import Endpoint, calls_at
from clew_daemon.record.hello import hello_answer, place_view
from clew_daemon.record.shrink import fitted_state
from clew_daemon.session.actions import Actions, noted
from clew_daemon.session.checks import Checks
from clew_daemon.session.epoch import Epoch
from clew_daemon.session.finishing import Finishing
from clew_daemon.session.lifetime import Lifetime
from clew_shared.config.agent_tables import CliAgentSettings
from clew_shared.core.answers import WrongState
from clew_shared.core.journal import turns_left
from clew_shared.core.questions import WHY, ask
from clew_shared.ledger.errors import LedgerError
from clew_shared.playbook.playbook import Bullet
from clew_shared.prompt.layout import playbook_chars
from clew_shared.record import events as ev
from clew_shared.record.spec import COUNT_MAX, PlannedTask, Prompt
from clew_shared.text.redact import hide, redact, redacted
from clew_shared.views.publish import state_view
from clew_shared.wire import protocol
from clew_shared.wire.answers import AnswerModel, Judged, Noted
from clew_shared.wire.hello import HelloAnswer

# methods that are answered before the world was looked at: none of them is judged by it
BEFORE_THE_LOOK = ("hello", "llm_slot", "leave", "heartbeat")
# methods that show that the agent gets on
STEPS = ("act", "propose", "record", "plan", "complete_subtask", "finish")
OWED_REPLAN_MAX = 100  # messages without the replan that was asked for, before a person is asked
RAW_OUTPUT_CHARS = 1_000

JsonObject = dict[str, Any]
Answer = AnswerModel | HelloAnswer | JsonObject  # the last is a view of the state


class Conversation:
    """The daemon's side of the worker protocol with one agent."""

    def __init__(self, epoch: Epoch, lifetime: Lifetime) -> None:
        self._epoch = epoch
        self._lifetime = lifetime
        self._owed = 0
        self.leave: protocol.Leave | None = None  # why the agent is about to exit, by its own word
        self._slot: Endpoint | None = None
        self._last_turn = False  # that in which the work ended, or was stopped, is on record
        self._strategies: list[JsonObject] = []
        self.checks = Checks(epoch)
        self._actions = Actions(epoch, self.checks)
        self._finishing = Finishing(epoch, self.checks)
        self._methods: dict[str, Callable[[Any], Awaitable[Answer]]] = {
            "hello": self._hello,
            "heartbeat": self._heartbeat,
            "leave": self._leave,
            "llm_slot": self._llm_slot,
            "login": self._login,
            "ask": self._ask,
            "think": self._think,
            "reflect": self._reflect,
            "learn": self._learn,
            "act": self._act,
            "propose": self._actions.propose,
            "outcome": self._actions.outcome,
            "record": self._actions.record,
            "plan": self._plan,
            "advance": self._advance,
            "complete_subtask": self._complete_subtask,
            "check": self._finishing.check,
            "finish": self._finishing.finish,
        }

    async def hold(self, channel: LineChannel) -> None:
        """Answer until the agent hangs up or its worker ends; a broken line ends the worker."""
        try:
            while (line := await channel.receive()) is not None:
                message = protocol.parse(line)
                if self._lifetime.over and message.get("method") != "reflect":
                    continue  # what the last turn has cost is still recorded
                if message.get("method") == "heartbeat" and "id" not in message:
                    self._lifetime.heard()
                    continue
                await self._take(channel, message)
                await self._epoch.hold_to_limits()
                self._see_what_follows()
        except (LineError, protocol.ProtocolError) as error:
            self._lifetime.end(Ended("crash", "protocol", redact(str(error))))
        except LedgerError as error:
            self._lifetime.end(endings.by_fault(error))
        finally:
            self._lifetime.quiet.set()

    async def _take(self, channel: LineChannel, message: JsonObject) -> None:
        before = self._epoch.work.greeted, len(self._epoch.core.state.in_flight)
        self._lifetime.heard(busy=True)
        try:
            await self._answer(channel, message)
        finally:
            self._lifetime.heard()
        self._count(*before)

    def _count(self, greeted: bool, in_flight: int) -> None:
        """Count a message; a worker's first hello counts for nothing, and an outcome as part of its action."""
        core, work = self._epoch.core, self._epoch.work
        is_first_hello = work.greeted and not greeted
        core.messages += not is_first_hello and len(core.state.in_flight) >= in_flight

    async def _answer(self, channel: LineChannel, message: JsonObject) -> None:
        request_id = None
        try:
            request_id, method, raw = protocol.request(message)
            params = protocol.params(method, raw)
            answer = protocol.result(request_id, await self._call(method, params))
        except protocol.ProtocolError as error:
            answer = protocol.error(request_id, error.code, str(error))
        except WrongState as error:
            code = protocol.STOPPING if self._epoch.stopping else protocol.WRONG_STATE
            answer = protocol.error(request_id, code, str(error))
        except ExecutorFault as error:
            self._lifetime.end(endings.by_fault(error))
            return
        if "id" in message:  # an id that is none is answered with null
            await channel.send(answer)
            if channel.unread:
                detail = f"took no answer for {WRITE_TIMEOUT_S:.0f} s"
                self._lifetime.end(Ended("crash", "deaf", detail))

    async def _call(self, method: str, params: Any) -> JsonObject:
        epoch = self._epoch
        if method not in BEFORE_THE_LOOK:
            await epoch.looked.wait()
            if epoch.core.state.waits_for_time:  # what it waited for is available again
                with epoch.entering() as core:
                    core.retry_succeeds(time.time())
        if method in STEPS:
            self._lifetime.acted()
        answer = await self._methods[method](params)
        return answer if isinstance(answer, dict) else answer.as_json()

    def _see_what_follows(self) -> None:
        """See what the last message means for the worker: it may be over, or need a person."""
        epoch, state = self._epoch, self._epoch.core.state
        epoch.snapshots.follow()
        self._owed = self._owed + 1 if state.plan.replan_required in ("task", "goal") else 0
        if self._owed and epoch.kind == "runbook":
            epoch.hand_over()
        elif self._owed >= OWED_REPLAN_MAX:
            epoch.hand_over(WHY["no_plan"].format(count=self._owed))
        if state.goal.status == "blocked":
            self._lifetime.stop(f"the goal waits for a person: {state.reason}")
        elif state.attempt.over or (state.workable and epoch.wants_another_agent):
            self._lifetime.stop(ATTEMPT)
        elif state.ended and not epoch.stopping:
            self._lifetime.spawn(self._lifetime.leave_to_exit())

    def release(self) -> None:
        self._epoch.work.llm_since = None
        if self._slot is not None:
            self._slot.release()
            self._slot = None

    async def _hello(self, p: protocol.Hello) -> HelloAnswer:
        """Answer with all that the agent needs; the first hello of an epoch is recorded."""
        if p.protocol != protocol.PROTOCOL_VERSION:
            what = f"protocol {p.protocol} is not spoken here; {protocol.PROTOCOL_VERSION} is"
            raise protocol.ProtocolError(what, protocol.INVALID_PARAMS)
        epoch = self._epoch
        if not epoch.work.greeted:
            self._record_hello(redact(p.agent))
        settings, state = epoch.settings, epoch.core.state
        shown = self._strategies if settings.playbook.enabled else []
        prompt = continued(epoch.agent, state.guidance.prompt)
        ledger = epoch.parts.goals.ledger  # the answer is made while that is written
        answer = hello_answer(state, settings, epoch.agent, ledger, shown, prompt=prompt)
        own: JsonObject = {"epoch": epoch.number, "credential": epoch.credential}
        if epoch.logins:
            own["logins"] = epoch.logins
        self._finishing.shown()
        await epoch.commit()
        return answer.model_copy(update=own)

    def _record_hello(self, agent: str) -> None:
        """Record the first hello of the epoch, and the strategies that its agent is shown."""
        epoch, at = self._epoch, time.time()
        epoch.work.greeted = True
        shown = self._choose_strategies()
        self._strategies = [bullet.to_dict() for bullet in shown]
        ids = tuple(bullet.id for bullet in shown)
        with epoch.recording() as core:
            probe = core.state.waits_for_time
            core.emit(ev.WorkerReady(at=at, epoch=epoch.number, agent=agent, probe=probe))
            if ids or core.state.guidance.strategies:
                core.emit(ev.StrategiesShown(at=at, epoch=epoch.number, ids=ids))

    def _choose_strategies(self) -> list[Bullet]:
        """Choose strategies once an epoch, so that its agent's prompt stays the same."""
        epoch, settings = self._epoch, self._epoch.settings
        if epoch.kind == "runbook":
            return []
        room = playbook_chars(settings.context.max_tokens) if epoch.kind == "llm" else CHARS_MAX
        return epoch.parts.playbook.chosen(epoch.core.state, settings.playbook, room)

    async def _heartbeat(self, _: protocol.Heartbeat) -> Answer:
        return {}

    async def _leave(self, p: protocol.Leave) -> Answer:
        self.leave = p.model_copy(update={"reason": redact(p.reason)})
        return {}

    async def _login(self, p: protocol.Login) -> Answer:
        """Write refreshed tokens of a coding agent back to the user's file; answer why not, "" if it was done."""
        epoch, agent, keys = self._epoch, self._epoch.agent, self._epoch.parts.keys
        reason, old, paths = "`refresh_credentials` is not set", epoch.logins.get(p.place), {}
        if isinstance(agent, CliAgentSettings) and agent.refresh_credentials:
            reason = "no login file has this place"
            paths = {place_of(path, keys.env): path for path in keys.login_files(agent)}
        if old is not None and p.place in paths:
            hide(list(secrets_of(p.text)))
            reason = await asyncio.to_thread(write_back, paths[p.place], old, p.text)
            if not reason:
                epoch.logins = {**epoch.logins, p.place: p.text}
        return {"written": not reason, "reason": reason}

    async def _llm_slot(self, p: protocol.LlmSlot) -> Answer:
        self.release()
        if p.open:
            self._epoch.refuse_while_stopping()  # the answer of the model would be paid for and dropped
            self._finishing.prompted()
            work, endpoint = self._epoch.work, self._epoch.parts.slots.of(p.base_url)
            calls = calls_at(p.base_url, self._epoch.settings.limits.llm_calls)
            work.llm_since, work.llm_queued = time.time(), endpoint.is_full(calls)
            await endpoint.acquire(calls)
            work.llm_since, work.llm_queued = time.time(), False
            self._slot = endpoint
        return {"open": p.open}

    async def _ask(self, p: protocol.Ask) -> Answer:
        question = redact(p.question)
        asked = ask(self._epoch.core.state, "asks", question=question)
        await self._epoch.decide(lambda core: core.ask(asked, time.time()))
        return {}

    async def _think(self, p: protocol.Think) -> Noted:
        text, calls, decide = redact(p.text), p.has_tool_calls, self._epoch.decide
        return noted(await decide(lambda c: c.think(text, time.time(), has_tool_calls=calls)))

    async def _reflect(self, p: protocol.Reflect) -> Noted:
        epoch = self._epoch
        if self._last_turn:
            raise WrongState("the last turn is on record")
        self._last_turn = epoch.stopping or not epoch.core.state.workable
        prompt = of_model(p.prompt, epoch.agent)
        with epoch.recording() as core:  # also while the worker stops: the turn has its cost
            feedback = core.reflect(_reflected(p, prompt, core.state.guidance.feedback_untold))
            left = turns_left(core.state, core.limits)
        await epoch.commit()
        return noted(feedback, turns_left=left)

    async def _act(self, p: protocol.Act) -> Judged:
        return await (self._finishing if p.tool == "finish" else self._actions).act(p)

    async def _plan(self, p: protocol.Plan) -> Answer:
        tasks = tuple(PlannedTask.model_validate(redacted(t.model_dump())) for t in p.tasks)
        checks = [  # a command that holds something like a key would be recorded, and run, without it
            (redact(one.name), one.cmd) for one in p.checks or () if redact(one.cmd) == one.cmd
        ]
        covers = "all" if p.covers is None else p.covers
        await self._epoch.decide(
            lambda core: core.plan(tasks, p.replan, time.time(), checks, covers=covers)
        )
        return fitted_state({"state": state_view(self._epoch.core.state)})

    async def _complete_subtask(self, p: protocol.CompleteSubtask) -> Answer:
        told: dict[str, str] = {"failure": redact(p.failure), "summary": redact(p.summary)}
        level = await self._epoch.decide(
            lambda core: core.complete_subtask(time.time(), success=p.success, **told)
        )
        return fitted_state({"state": state_view(self._epoch.core.state), "escalated_to": level})

    async def _advance(self, _: protocol.Advance) -> Answer:
        more = await self._epoch.decide(lambda core: core.advance(time.time()))
        return place_view(self._epoch.core.state) if more else {"subtask": None, "task": None}

    async def _learn(self, p: protocol.Learn) -> Answer:
        state, settings = self._epoch.core.state, self._epoch.settings.playbook
        return {"playbook": await self._epoch.parts.playbook.learn(p.deltas, state, settings)}


def _reflected(p: protocol.Reflect, prompt: Prompt | None, new_feedback: list[str]) -> ev.Reflected:
    """Return the event of an iteration record, with the feedback from people since the last one."""
    apart = {"usage", "hindsight", "turn", "prompt", "unfinished"}
    record = p.model_dump(mode="json", exclude=apart)
    if new_feedback:
        lines = [str(record.get("user_feedback") or ""), *new_feedback]
        record["user_feedback"] = "\n".join(filter(None, lines))
    costs = [c.get("cost") for c in p.tool_calls]
    tokens = sum(_count(c.get("tokens")) for c in costs if isinstance(c, dict))
    used = p.usage
    return ev.Reflected(
        at=time.time(), iteration=p.iteration or 0, assessment=p.progress_assessment or "",
        record=_bounded(record), hindsight=tuple(redacted(p.hindsight)), prompt=prompt,
        turn=tuple(redacted(p.turn)), unfinished=p.unfinished, llm_s=used.seconds,
        tokens=used.input + used.output or tokens,
        tokens_in=used.input, tokens_out=used.output, tokens_cached=used.cached,
    )  # fmt: skip


def _count(value: Any) -> int:
    """Return a count of tokens, 0 for what is none, as in the records that people read."""
    is_count = isinstance(value, int | float) and 0 <= value <= COUNT_MAX
    return int(value) if is_count else 0


def _bounded(record: JsonObject) -> JsonObject:
    """Redact the texts of a record, then cut raw outputs: half a key is still one."""
    cleaned: JsonObject = redacted(record)
    for call in cleaned.get("tool_calls", []):
        key = "raw_output" if "raw_output" in call else "result"
        if isinstance(call.get(key), str):
            call[key] = call[key][:RAW_OUTPUT_CHARS]
    return cleaned
