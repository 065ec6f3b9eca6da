"""One live worker: an agent and its executor, from spawn to the last process of it.

It watches (exit, heartbeat, stall, memory, budget), carries messages, and says in the end how it went; what to
do about that is the supervisor's. Every message of the agent is answered in order, one at a time.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import time
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import structlog

from clew_daemon.learning.selection import CHARS_MAX
from clew_daemon.processes import cells, endings, vitals
from clew_daemon.processes.endings import Ended
from clew_daemon.processes.executor import ExecutorDied
from clew_daemon.processes.nursery import Cell, SpawnError
from clew_daemon.record.hello import thresholds
from clew_daemon.session.channel import WRITE_TIMEOUT_S, Channel
from clew_daemon.session.executors import Hands
from clew_daemon.session.liveness import Vigil
from clew_daemon.session.methods import Methods
from clew_daemon.session.worker_output import Printed, drain
from clew_shared.config.settings import CommandAgentSettings, LlmAgentSettings, RunbookAgentSettings
from clew_shared.core.core import WrongState
from clew_shared.core.escalation import person_question
from clew_shared.exit_codes import ExitCode
from clew_shared.ledger import LedgerError
from clew_shared.prompt.layout import playbook_chars
from clew_shared.record import events as ev
from clew_shared.text.redact import redact
from clew_shared.wire import protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clew_daemon.parts import DaemonParts
    from clew_daemon.processes.workspace_guard import Ground, Lost
    from clew_daemon.record.doing import Work
    from clew_shared.config.settings import Settings
    from clew_shared.core.core import Core
    from clew_shared.playbook.bullet import Bullet

log = structlog.get_logger()

FINISHED_GRACE_S = 5.0
LAST_WORDS_S = 1.0
ASKING = ("hello", "llm_slot", "leave", "heartbeat")
"""What is answered before the world was looked at: none of it is judged by that."""

OWED_REPLAN_MAX = 100
"""So many messages without the replan that was asked for, and the goal goes to a person."""


class Session:
    """One incarnation of a goal's worker, on the folder that its goal works in."""

    def __init__(self, daemon: DaemonParts, goal_id: str, place: Ground) -> None:
        self._d = daemon
        self.goal_id = goal_id
        self.core: Core = daemon.book.cores[goal_id]
        self.epoch = self.core.state.epoch + 1
        self.agent: cells.Agent = self.settings.agents.get(self.core.state.spec.agent or None)
        self.credential = daemon.keys.of(self.agent)
        self.ready = asyncio.Event()
        self._looked = asyncio.Event()
        self.leave: protocol.Leave | None = None
        self._methods = Methods(self)
        self.channel: Channel | None = None
        self.cell: Cell | None = None
        self._ground = place
        self.hands = Hands(daemon, self.core.state, self.epoch, place)
        self._silence = asyncio.Event()
        self.busy = False
        self._greeted = False
        self.notified_feedback = 0
        self._owed = 0
        self._shown: list[dict[str, Any]] = []
        self._end: asyncio.Future[Ended] = asyncio.get_running_loop().create_future()
        self._tasks: list[asyncio.Task[Any]] = []
        self._began = time.monotonic()
        self.acted_at = time.monotonic()
        self._printed = Printed(self._log_printed)
        self.stopping = False
        self._vigil = Vigil(self)

    # -- what methods use --------------------------------------------------------------------------

    @property
    def settings(self) -> Settings:
        """The config as it is now, with the `[agents]` and `[limits]` that the goal started with."""
        return self._d.settings_of(self.goal_id)

    @property
    def book(self) -> Any:
        """The book of goals."""
        return self._d.book

    @property
    def playbook(self) -> Any:
        """What was learned across goals."""
        return self._d.playbook

    @property
    def strategies(self) -> list[dict[str, Any]]:
        """The strategies that this epoch's agent is shown: chosen once, so that its prompt stays the same."""
        return self._shown if self.settings.playbook.enabled else []

    @property
    def slots(self) -> Any:
        """The slots for LLM calls."""
        return self._d.slots

    @property
    def llm_open(self) -> bool:
        """An LLM call of the agent is under way."""
        return self._methods.llm_open

    @property
    def work(self) -> Work:
        """What is under way that the record does not tell."""
        return self._methods.work

    @contextmanager
    def entering(self) -> Iterator[Core]:
        """Bracket commands to the core; see `Book.entering`."""
        if self.stopping:
            raise WrongState("the worker is being stopped")
        with self._d.book.entering(self.core):
            yield self.core

    async def commit(self) -> None:
        """Wait until all that was said so far is durable; and see to what it means for the worker."""
        await self._d.book.commit(self.core)

    async def look(self) -> None:
        """Take in the world as it is now: somebody else may have changed it."""
        world = await self.hands.digest(anew=True)
        with self.entering() as core:
            core.see_world(world, time.time())

    async def look_past_claims(self) -> None:
        """Go by the disk where only an agent that cannot write has claimed a change.

        What its executor may do is not to depend on what it says: a lie would lead out of every block.
        """
        if self.own_tools or not self.core.goes_by_a_claim:
            return
        world = await self.hands.digest(anew=True)
        with self.entering() as core:
            core.drop_claim(world, time.time())

    @property
    def reads_feedback(self) -> bool:
        """A person's feedback reaches somebody: a runbook reads none."""
        return not isinstance(self.agent, RunbookAgentSettings)

    @property
    def own_prompt(self) -> bool:
        """The agent's prompts are built by clew, of what `hello` tells."""
        return isinstance(self.agent, LlmAgentSettings)

    @property
    def is_questioned(self) -> bool:
        """A `finish` of the agent is questioned after a failed action; agents of others know what they do."""
        return self.own_prompt

    @property
    def own_tools(self) -> bool:
        """The agent may change the workspace by itself, and need not say so."""
        return isinstance(self.agent, CommandAgentSettings) and self.agent.own_tools

    async def ground_lost(self) -> Lost | None:
        """Say what is wrong with the workspace, None where it is as it should be."""
        return await asyncio.to_thread(self._ground.lost)

    async def hand_over_if_lost(self) -> Lost | None:
        """Hand the goal to a person where its workspace is lost; says what is wrong with it."""
        if lost := await self.ground_lost():
            await self.hand_over_lost(lost)
        return lost

    async def hand_over_lost(self, lost: Lost) -> None:
        """Hand the goal to a person, whose workspace is lost."""
        with self._d.book.entering(self.core):
            self.core.block_goal(
                lost.reason,
                time.time(),
                question=lost.question(self.goal_id),
                stranger=lost.stranger,
                gone=lost.gone,
            )
        await self.commit()

    def knows_action(self, seq: int) -> bool:
        """Tell whether an action of that number was ever allowed; for outcomes that are told twice."""
        row = next(iter(self._d.book.ledger.read(self.goal_id, seq - 1, 1)), None)
        return row is not None and row.seq == seq and row.kind == "action_allowed"

    def _choose(self) -> list[Bullet]:
        """Choose strategies for an agent that can read; a runbook cannot."""
        if isinstance(self.agent, RunbookAgentSettings):
            return []
        room = playbook_chars(self.settings.context.max_tokens) if self.own_prompt else CHARS_MAX
        return self._d.playbook.chosen(self.core.state, self.settings.playbook, room)

    def greeted(self, agent: str) -> None:
        """Note the first hello of this epoch; to be committed before it is answered."""
        if not self._greeted:
            self._greeted = True
            at = time.time()
            shown = self._choose()
            self._shown = [bullet.to_dict() for bullet in shown]
            with self._d.book.entering(self.core):
                probe = self.core.state.waits_for_time
                self.core.emit(ev.WorkerReady(at=at, epoch=self.epoch, agent=agent, probe=probe))
                ids = tuple(bullet.id for bullet in shown)
                if ids or self.core.state.strategies:
                    self.core.emit(ev.StrategiesShown(at=at, epoch=self.epoch, ids=ids))

    # -- what the supervisor uses --------------------------------------------------------------------

    async def run(self) -> Ended:
        """Run the worker to its end, and leave nothing of it behind."""
        try:
            ended = self._by_memory(await self._live())
        finally:
            await self._tear_down()
        return await self._close(ended)

    async def _live(self) -> Ended:
        try:
            await self._start()
            return await self._end
        except WrongState as error:  # told to stop before it had started
            return Ended("stopped", str(error))
        except (SpawnError, ExecutorDied, OSError) as error:
            return endings.by_fault(error)
        except LedgerError as error:
            return endings.by_fault(error)
        except Exception as error:
            log.exception("goal.run_failed", goal=self.goal_id, epoch=self.epoch, error=repr(error))
            return endings.by_surprise(error)

    def stop(self, reason: str) -> None:
        """Ask the worker to stop; it gets `stop_grace_s`, then it is killed with its whole tree."""
        self._spawn(self._stop(reason))

    def notify(self, method: str, params: dict[str, Any]) -> None:
        """Send the agent a notification, if it is there."""
        if self.channel:
            self._spawn(self.channel.send(protocol.notification(method, params)))

    def tell_feedback(self, seq: int, text: str) -> None:
        """Send the agent the feedback of event `seq`, if it is there."""
        if self.channel:
            self.notified_feedback = max(self.notified_feedback, seq)
        self.notify("feedback", {"text": text})

    def thresholds_changed(self) -> None:
        """Tell the agent the new numbers."""
        self.notify("thresholds", thresholds(self.settings))

    # -- life --------------------------------------------------------------------------------------

    async def _start(self) -> None:
        output = await self._connect()
        assert self.cell is not None  # noqa: S101 - connected
        self._began = self.acted_at = time.monotonic()
        self.core.lived_s = self._lived_s
        self._spawn(self._drain(output))
        self._spawn(self._wait_exit(self.cell))
        await self._record_start(self.cell)
        with self.entering() as core:
            core.start(time.time())
        await self.commit()
        self.ready.set()
        for coroutine in (self._serve(), self._watch(), self._look_first()):
            self._spawn(coroutine)

    async def _look_first(self) -> None:
        """See the world while the agent takes in what it was told; what it wants then waits for this."""
        try:
            await self.look()
        except (SpawnError, ExecutorDied, OSError) as error:
            self._finish(endings.by_fault(error))
            return
        except WrongState:  # it is being stopped, and told so whatever it wants
            pass
        self._looked.set()

    async def _connect(self) -> int:
        """Spawn the agent at the other end of a new channel; gives the pipe of what it prints."""
        await self.hands.prepare()
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        output, output_w = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        os.set_blocking(output_w, True)
        try:
            with theirs:
                spec = self.hands.agent_spec(self.agent)
                self.cell = await self._d.nursery.spawn(
                    spec, theirs.fileno(), output_w, self.hands.leaf(spec)
                )
        except BaseException:
            ours.close()
            os.close(output)
            raise
        finally:
            os.close(output_w)
        self.channel = await Channel.over(ours)
        return output

    async def _record_start(self, cell: Cell) -> None:
        event = ev.WorkerStarted(
            at=time.time(),
            epoch=self.epoch,
            agent=self.core.state.spec.agent,
            pid=cell.pid,
            created=vitals.created(cell.pid),
            probe=self.core.state.waits_for_time,
        )
        await self._d.book.emit(self.core, event)
        for warning in cell.warnings:
            log.warning("sandbox.weaker", goal=self.goal_id, epoch=self.epoch, what=warning)

    async def _serve(self) -> None:
        """Answer the agent's messages in order, one at a time; a broken line ends the worker.

        While one is answered, nothing is read: an agent that floods waits in its own socket.
        """
        assert self.channel is not None  # noqa: S101 - started
        try:
            while (message := await self.channel.receive()) is not None:
                if self._end.done():
                    return
                if message.get("method") == "heartbeat" and "id" not in message:
                    continue
                await self._attend(self.channel, message)
            if self._looked.is_set():
                self.hands.strike()  # nobody can ask them for anything any more: they end beside the agent
        except protocol.ProtocolError as error:
            self._finish(Ended("crash", "protocol", redact(str(error))))
        except LedgerError as error:
            self._finish(endings.by_fault(error))
        finally:
            self._silence.set()

    async def _attend(self, channel: Channel, message: dict[str, Any]) -> None:
        self.busy = True
        try:
            await self._handle(message)
        finally:
            self.busy = False
            channel.heard_at = time.monotonic()  # the wait for our answer counts as life
        self._after()

    async def _handle(self, message: dict[str, Any]) -> None:
        request_id = None
        try:
            request_id, method, raw = protocol.request(message)
            params = protocol.params(method, raw)
            if method not in ASKING:
                await self._looked.wait()
                self._count_as_back()
            if method in ("act", "propose", "record", "plan", "complete_subtask", "finish"):
                self.acted_at = time.monotonic()
            answer = protocol.result(request_id, await self._methods.call(method, params))
        except protocol.ProtocolError as error:
            answer = protocol.error(request_id, error.code, str(error))
        except WrongState as error:
            code = protocol.STOPPING if self.stopping else protocol.WRONG_STATE
            answer = protocol.error(request_id, code, str(error))
        except ExecutorDied as error:
            self._finish(endings.by_fault(error))
            return
        if "id" in message and self.channel:  # an id that is none is answered with null
            await self.channel.send(answer)
            if self.channel.unread:
                self._finish(Ended("crash", "deaf", f"took no answer for {WRITE_TIMEOUT_S:.0f} s"))

    def _count_as_back(self) -> None:
        """End the goal's wait at the first thing that its worker does: what it waited for is there again."""
        if self.core.state.waits_for_time:
            with self.entering() as core:
                core.retry_succeeds(time.time())

    def _after(self) -> None:
        """See what the last message means for the worker: it may be over, or need a person."""
        state = self.core.state
        self._owed = self._owed + 1 if state.replan_required in ("task", "goal") else 0
        if isinstance(self.agent, RunbookAgentSettings) and self._owed:
            self._hand_over("the runbook cannot replan")
        elif self._owed >= OWED_REPLAN_MAX:
            self._hand_over(f"the agent sent {self._owed} messages instead of replanning")
        if state.goal.status == "blocked":
            self.stop(f"the goal waits for a person: {state.reason}")
        elif state.ended and not self.stopping:
            self._spawn(self._let_go())

    def _hand_over(self, why: str) -> None:
        subtask = self.core.state.subtask
        failure = subtask.last_failure if subtask else ""
        reason = f"{why}: {failure}" if failure else why
        asked = person_question(
            self.core.state, reason, hears=not isinstance(self.agent, RunbookAgentSettings)
        )
        with self._d.book.entering(self.core):
            self.core.block_goal(reason, time.time(), question=asked)

    async def _let_go(self) -> None:
        """Let the agent exit by itself for a little while: the goal is over."""
        assert self.cell is not None  # noqa: S101 - started
        await asyncio.wait([self.cell.guard.ended], timeout=FINISHED_GRACE_S)
        self._finish(Ended("finished", "finished"))

    async def _stop(self, reason: str) -> None:
        if self.stopping or self._end.done():
            return
        self.stopping = True
        grace_s = self.settings.restart.stop_grace_s
        if self.channel:
            note = protocol.notification("stop", {"reason": reason, "grace_s": grace_s})
            self._spawn(self.channel.send(note))
        if self.cell:
            await asyncio.wait([self.cell.guard.ended], timeout=grace_s)
        self._finish(Ended("stopped", reason))

    async def _wait_exit(self, cell: Cell) -> None:
        code = await cell.guard.ended
        await asyncio.sleep(0)
        if self.ready.is_set():  # what it said before it went is still heard
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LAST_WORDS_S):
                    await self._silence.wait()
        self._finish(self._exit(code))

    def _exit(self, code: int) -> Ended:
        """Say what an agent's exit means."""
        state = self.core.state
        if state.ended:
            return Ended("finished", "finished", code=code)
        if self.stopping or not state.workable:
            return Ended("stopped", "stopped", code=code)
        if code in (ExitCode.TEMPORARY, ExitCode.CONFIGURATION):
            return endings.left(code, self.leave, self._printed.tail)
        if code < vitals.SIGNAL_BASE and state.replan_required in ("task", "goal"):
            self._hand_over("the agent ended instead of replanning")
            return Ended("stopped", "left_instead_of_replanning", code=code)
        reason = vitals.exit_words(code) if code else "exited_unfinished"
        return Ended("crash", reason, self._printed.tail, code)

    async def _watch(self) -> None:
        self._finish(await self._vigil.keep())

    def _by_memory(self, ended: Ended) -> Ended:
        """Name the reason where the kernel has ended the worker out of memory: it looks like any other SIGKILL."""
        if ended.kind != "crash" or not self.hands.out_of_memory():
            return ended
        allowed = f"{self.settings.limits.memory_mb} MB allowed"
        detail = f"ended by the kernel, out of memory: {allowed}"
        return replace(ended, reason="memory", detail=detail)

    async def spend(self) -> None:
        """Notice a budget of time that runs out while nobody proposes anything."""
        state = self.core.state
        if state.spec.budget_wall_s is None or state.goal.status != "in_progress":
            return
        if spent := self.core.budget_spent(time.time()):
            with self._d.book.entering(self.core):
                self.core.out_of_budget(spent, time.time())
            await self.commit()
            self.stop(spent)

    async def _drain(self, fd: int) -> None:
        await drain(fd, self._printed)

    def _log_printed(self, line: str) -> None:
        log.info("worker.output", goal=self.goal_id, epoch=self.epoch, line=line)

    # -- the end -------------------------------------------------------------------------------------

    def _finish(self, ended: Ended) -> None:
        if not self._end.done():
            self._end.set_result(ended)

    async def _tear_down(self) -> None:
        """End every process of the worker and every task of the session."""
        self.stopping = True
        if self.cell is not None:
            await self.cell.kill()
        await self.hands.end()
        current = asyncio.current_task()
        tasks = [t for t in self._tasks if t is not current]
        await asyncio.sleep(0)  # the drain sees the end of its pipe
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._methods.release()
        if self.channel:
            self.channel.close()

    async def _close(self, ended: Ended) -> Ended:
        lived_s, self.core.lived_s = self._lived_s(), None
        crash = ended.kind == "crash"
        at = time.time()
        with self._d.book.entering(self.core):
            self.core.interrupt(ended.reason if crash else "stopped", at, counts=crash)
            if self.core.state.working:
                self.core.emit(
                    ev.WorkerExited(
                        at=at,
                        epoch=self.epoch,
                        reason=ended.reason,
                        code=ended.code,
                        crash=crash,
                        active_s=round(lived_s, 3),
                        probe=self.core.state.waits_for_time and not crash,
                    )
                )
        await self.commit()
        return Ended(
            ended.kind, ended.reason, ended.detail, ended.code, lived_s, ended.retry_after_s
        )

    def _lived_s(self) -> float:
        return time.monotonic() - self._began

    def _spawn(self, coroutine: Any) -> None:
        self._tasks = [t for t in self._tasks if not t.done()]
        task = asyncio.ensure_future(coroutine)
        task.add_done_callback(self._task_done)
        self._tasks.append(task)

    def _task_done(self, task: asyncio.Task[Any]) -> None:
        """End the worker when a part of its session fails: better a restart than nobody watching."""
        if task.cancelled() or (error := task.exception()) is None:
            return
        if isinstance(error, LedgerError):  # no bug: the daemon is about to stop
            self._finish(endings.by_fault(error))
            return
        if isinstance(error, OSError) and endings.is_short(error):
            self._finish(endings.by_fault(error))
            return
        log.error("daemon.bug", goal=self.goal_id, error=repr(error), exc_info=error)
        self._finish(endings.by_surprise(error))
