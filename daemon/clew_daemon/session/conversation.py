"""The agent's messages, answered in order, one at a time: an agent that floods waits in its own socket."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from clew_daemon.processes import endings
from clew_daemon.processes.endings import ATTEMPT, Ended
from clew_daemon.processes.executor import ExecutorDied
from clew_daemon.processes.lines import WRITE_TIMEOUT_S, LineChannel, LineError
from clew_daemon.session.epoch import Epoch
from clew_daemon.session.lifetime import Lifetime
from clew_daemon.session.methods import JsonObject, Methods
from clew_shared.core.answers import WrongState
from clew_shared.core.questions import WHY
from clew_shared.ledger.errors import LedgerError
from clew_shared.text.redact import redact
from clew_shared.wire import protocol

BEFORE_THE_LOOK = ("hello", "llm_slot", "leave", "heartbeat")
"""Methods that are answered before the world was looked at: none of them is judged by it."""

STEPS = ("act", "propose", "record", "plan", "complete_subtask", "finish")
"""Methods that show that the agent gets on."""

OWED_REPLAN_MAX = 100
"""After this many messages without the replan that was asked for, the goal is handed to a person."""


class Conversation:
    """The daemon's side of the worker protocol with one agent."""

    def __init__(self, epoch: Epoch, methods: Methods, lifetime: Lifetime) -> None:
        self._epoch = epoch
        self._methods = methods
        self._lifetime = lifetime
        self._owed = 0

    async def hold(self, channel: LineChannel) -> None:
        """Answer until the agent hangs up or its worker ends; a broken line ends the worker."""
        try:
            while (line := await channel.receive()) is not None:
                message = protocol.parse(line)
                self._lifetime.heard()
                if self._lifetime.over and message.get("method") != "reflect":
                    continue  # what the last turn has cost is still recorded
                if message.get("method") == "heartbeat" and "id" not in message:
                    continue
                with self._lifetime.answering(), self._counting():
                    await self._answer(channel, message)
                await self._epoch.hold_to_limits()
                self._see_what_follows()
        except (LineError, protocol.ProtocolError) as error:
            self._lifetime.end(Ended("crash", "protocol", redact(str(error))))
        except LedgerError as error:
            self._lifetime.end(endings.by_fault(error))
        finally:
            self._lifetime.quiet.set()

    @contextmanager
    def _counting(self) -> Iterator[None]:
        """Count a message; a worker's first hello counts for nothing, and an outcome as part of its action."""
        core, work = self._epoch.core, self._epoch.work
        greeted, in_flight = work.greeted, len(core.state.in_flight)
        yield
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
        except ExecutorDied as error:
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
        return await self._methods.call(method, params)

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
