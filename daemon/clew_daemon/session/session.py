"""One live worker: an agent and its executor, from spawn to the last process of it.

It starts and ends them, and returns in the end how it went; what follows from that is the supervisor's.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import structlog

from clew_daemon.parts import DaemonParts
from clew_daemon.processes import endings
from clew_daemon.processes.endings import Ended
from clew_daemon.processes.executor import ExecutorDied
from clew_daemon.processes.nursery import SpawnError
from clew_daemon.processes.workspace_guard import WorkspaceGuard
from clew_daemon.record.doing import Work
from clew_daemon.record.hello import thresholds
from clew_daemon.session.conversation import Conversation
from clew_daemon.session.desk import GoalDesk, block_goal
from clew_daemon.session.first_look import paths_there
from clew_daemon.session.launcher import AgentProcess, Launcher, WorkerOutput
from clew_daemon.session.lifetime import Lifetime
from clew_daemon.session.liveness import Liveness
from clew_daemon.session.methods import Methods
from clew_shared.config.agent_tables import LlmAgentSettings
from clew_shared.core.answers import WrongState
from clew_shared.core.questions import WHY, missing_tools
from clew_shared.ledger import LedgerError
from clew_shared.record import events as ev
from clew_shared.text.redact import redact

log = structlog.get_logger()

LAST_MESSAGES_S = 1.0
LOOK_S = 1.0

log = structlog.get_logger()


class EpochRecord:
    """Records one epoch; its worker's life counts from `begin` on."""

    def __init__(self, desk: GoalDesk) -> None:
        self._desk = desk
        self._began = time.monotonic()

    def begin(self) -> None:
        """Count the worker's life from now on; the goal's budget of time includes it."""
        self._began = time.monotonic()
        self._desk.core.lived_s = self.lived_s

    def lived_s(self) -> float:
        """Return how long the worker has lived, in seconds."""
        return time.monotonic() - self._began

    async def start(self, process: AgentProcess) -> None:
        """Record which process the worker is."""
        desk, state = self._desk, self._desk.core.state
        event = ev.WorkerStarted(
            at=time.time(),
            epoch=desk.epoch,
            agent=desk.agent_name,
            pid=process.cell.pid,
            created=process.created,
            probe=state.waits_for_time,
            span=desk.specs.trace.span,
            turns_needed=desk.parts.models.turns_needed(desk.traits.agent),
            there=await self._there(),
        )
        await desk.parts.goals.emit(desk.core, event)
        desk.parts.goals.judge_by(desk.core, desk.parts.settings_of(desk.goal_id))
        for warning in dict.fromkeys(w for cell in process.cells for w in cell.warnings):
            log.warning("sandbox.weaker", goal=desk.goal_id, epoch=desk.epoch, what=warning)

    async def _there(self) -> tuple[str, ...]:
        """Return some paths in the workspace, for a model that is asked to look first."""
        desk, state = self._desk, self._desk.core.state
        again = state.attempt.number > 1 and state.last_action < state.attempt.seq
        begins = not state.actions_total or again  # else the conversation has begun before
        guided = desk.settings.context.guidance and isinstance(desk.traits.agent, LlmAgentSettings)
        if not (begins and guided):
            return ()
        text = state.subtask.description if state.subtask else state.goal.description
        with suppress(TimeoutError):
            async with asyncio.timeout(LOOK_S):
                return await asyncio.to_thread(paths_there, Path(state.spec.workspace), text)
        return ()

    async def close(self, ended: Ended) -> Ended:
        """Record the end of the epoch, and what it left in flight."""
        core, lived_s = self._desk.core, self.lived_s()
        messages, core.messages, core.lived_s = core.messages, 0, None
        crash = ended.kind == "crash"
        at = time.time()
        await self._desk.parts.goals.whole(self._desk.goal_id)
        with self._desk.recording():
            reason, said = ended.reason if crash else "stopped", redact(self._desk.work.said)
            core.interrupt(reason, at, counts=crash, said=said)
            if core.state.working:
                probe = core.state.waits_for_time and not crash
                counts = self._desk.traits.is_command and not probe  # others report their turns
                core.emit(
                    ev.WorkerExited(
                        at=at,
                        epoch=self._desk.epoch,
                        reason=ended.reason,
                        code=ended.code,
                        crash=crash,
                        active_s=round(lived_s, 3),
                        probe=probe,
                        messages=messages if counts else 0,
                    )
                )
        await self._desk.commit()
        return replace(ended, lived_s=lived_s)


class Session:
    """One epoch of a goal, in the folder that the goal works in; raises KeyFileError where its key cannot be read."""

    def __init__(
        self, parts: DaemonParts, goal_id: str, guard: WorkspaceGuard, launcher: Launcher
    ) -> None:
        self._launcher = launcher
        self._desk = GoalDesk(parts, parts.goals.cores[goal_id], guard, launcher)
        self._lifetime = Lifetime(self._desk)
        self._desk.notify = self._lifetime.notify
        self._liveness = Liveness(self._desk, launcher, self._lifetime)
        self._methods = Methods(self._desk)
        self._printed = asyncio.Event()
        self._epoch = EpochRecord(self._desk)
        self.gone = asyncio.Event()
        """Nothing of the worker is left; its end may not be on record yet."""
        about = {"goal": goal_id, "epoch": self._desk.epoch}
        self._output = WorkerOutput(lambda line: log.info("worker.output", **about, line=line))

    # -- what the supervisor and people use --------------------------------------------------------------

    @property
    def work(self) -> Work:
        """What is under way that is not in the record."""
        return self._desk.work

    async def run(self) -> Ended:
        """Run the worker to its end, and leave nothing of it behind."""
        try:
            ended = _by_memory(self._desk, await self._live())
        finally:
            await self._tear_down()
            self.gone.set()
        return await self._epoch.close(ended)

    def stop(self, reason: str, *, after_action: bool = False, at_once: bool = False) -> None:
        """Ask the worker to stop, as `Lifetime.stop`; then it is killed with its whole tree."""
        self._lifetime.stop(reason, after_action=after_action, at_once=at_once)

    def send_feedback(self, seq: int, text: str) -> None:
        """Send the agent the feedback of event `seq`, if there is an agent."""
        if self._lifetime.process:
            self._methods.feedback.sent(seq)
        self._lifetime.notify("feedback", {"text": text})

    def thresholds_changed(self) -> None:
        """Send the agent the new numbers."""
        self._lifetime.notify("thresholds", thresholds(self._desk.settings))

    # -- life ------------------------------------------------------------------------------------------

    async def _live(self) -> Ended:
        try:
            await self._start()
            return await self._lifetime.ended
        except WrongState as error:  # it was to stop before it had started
            return Ended("stopped", str(error))
        except (SpawnError, ExecutorDied, OSError, LedgerError) as error:
            return endings.by_fault(error)
        except Exception as error:
            goal, epoch = self._desk.goal_id, self._desk.epoch
            log.exception("goal.run_failed", goal=goal, epoch=epoch, error=repr(error))
            return endings.by_surprise(error)

    async def _start(self) -> None:
        desk, spawn = self._desk, self._lifetime.spawn
        if missing := await self._methods.checks.missing_tools():
            await block_goal(desk.parts.goals, desk.core, missing_tools(desk.core.state, missing))
            raise WrongState("a check cannot run, and a person is asked")
        process = await self._connect()
        self._epoch.begin()
        self._liveness.heard()
        self._liveness.acted()
        spawn(self._read_output(process))
        spawn(self._wait_exit(process))
        await self._epoch.start(process)
        await desk.decide(lambda core: core.start(time.time()))
        desk.ready.set()
        spawn(self._serve(process))
        spawn(self._liveness.watch(process))
        spawn(self._look_first())

    async def _connect(self) -> AgentProcess:
        """Start the agent at the other end of a new channel."""
        executors = self._desk.executors
        await executors.prepare()
        agent = self._desk.traits.agent
        process = await self._launcher.agent(self._desk.specs, agent, executors.leaf)
        self._lifetime.process = process
        return process

    async def _look_first(self) -> None:
        """See the world while the agent takes in the answer to its hello; what it asks for next waits for this."""
        for step in (self._desk.look, self._check_before):
            try:
                await step()
            except (SpawnError, ExecutorDied, OSError) as error:
                self._lifetime.end(endings.by_fault(error))
                return
            except WrongState:  # it is being stopped, and so is all that it asks for answered
                pass
        self._desk.looked.set()

    async def _check_before(self) -> None:
        """Begin the snapshots; have the checks run where the agent may act without asking."""
        self._desk.snapshots.start()
        if self._desk.traits.own_tools:
            await self._methods.checks.run_before()

    async def _serve(self, process: AgentProcess) -> None:
        conversation = Conversation(self._desk, self._methods, self._liveness, self._lifetime)
        try:
            await conversation.hold(process.channel)
            if self._desk.looked.is_set() and self._desk.snapshots.complete:
                self._desk.executors.kill_nowait()  # nothing more is asked of them: they end beside the agent
        finally:
            self._lifetime.quiet.set()

    async def _read_output(self, process: AgentProcess) -> None:
        try:
            await process.drain(self._output)
        finally:
            self._printed.set()

    async def _wait_exit(self, process: AgentProcess) -> None:
        code = await process.cell.guard.ended
        await asyncio.sleep(0)
        desk = self._desk
        if desk.stopping:
            await self._lifetime.gone()
        await self._last_messages()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_MESSAGES_S):
                await self._printed.wait()
        ended = endings.by_exit(
            code,
            desk.core.state,
            stopping=desk.stopping,
            stop_reason=self._lifetime.stop_reason,
            leave=self._methods.leave,
            output=self._output.tail,
            greeted=desk.work.greeted,
        )
        if ended.reason == endings.OWES_REPLAN:
            desk.hand_over(WHY["ended"])
        self._lifetime.end(ended)

    async def _last_messages(self) -> None:
        """Wait a little until what the agent sent before it ended is answered."""
        if self._desk.ready.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LAST_MESSAGES_S):
                    await self._lifetime.quiet.wait()

    async def _tear_down(self) -> None:
        """End every process of the worker and every task of the session."""
        process = self._lifetime.process
        self._desk.stopping = True
        if process:
            await process.kill()
        await self._desk.snapshots.close()
        await self._desk.executors.end()
        await self._last_messages()  # an action that ran until now kept them waiting
        await asyncio.sleep(0)  # the drain sees the end of its pipe
        await self._lifetime.cancel()
        self._methods.release()
        if process:
            process.channel.close()


def _by_memory(desk: GoalDesk, ended: Ended) -> Ended:
    """Name the reason where the kernel has ended the worker out of memory: it looks like any other SIGKILL."""
    if ended.kind != "crash" or not desk.executors.out_of_memory():
        return ended
    allowed = f"{desk.settings.limits.memory_mb} MB allowed"
    return replace(ended, reason="memory", detail=f"ended by the kernel, out of memory: {allowed}")
