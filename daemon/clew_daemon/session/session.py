"""One live worker: an agent and its executor, from spawn to the last process of it."""

import asyncio
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import structlog

from clew_daemon.host.tasks import within
from clew_daemon.parts import DaemonParts
from clew_daemon.processes import endings
from clew_daemon.processes.endings import Ended
from clew_daemon.processes.executor import ExecutorFault
from clew_daemon.processes.nursery import SpawnError
from clew_daemon.processes.workspace_guard import WorkspaceGuard
from clew_daemon.record.doing import Work
from clew_daemon.record.hello import thresholds
from clew_daemon.session.conversation import Conversation
from clew_daemon.session.epoch import Epoch, block_goal
from clew_daemon.session.first_look import paths_there
from clew_daemon.session.lifetime import Lifetime
from clew_daemon.session.worker import AgentProcess, WorkerOutput
from clew_shared.core.answers import WrongState
from clew_shared.core.questions import WHY, missing_tools
from clew_shared.ledger.errors import LedgerError
from clew_shared.record import events as ev
from clew_shared.text.redact import redact

log = structlog.get_logger()

LAST_MESSAGES_S = 1.0
LOOK_S = 1.0


class Session:
    """One epoch of a goal, in the folder that the goal works in; raises KeyFileError where its key cannot be read."""

    def __init__(self, parts: DaemonParts, goal_id: str, guard: WorkspaceGuard) -> None:
        self._epoch = Epoch(parts, parts.goals.cores[goal_id], guard)
        self._lifetime = Lifetime(self._epoch)
        self.stop = self._lifetime.stop
        self.notify = self._epoch.notify = self._lifetime.notify
        self._conversation = Conversation(self._epoch, self._lifetime)
        self._began = time.monotonic()
        # set when nothing of the worker is left; its end may not be on record yet
        self.gone = asyncio.Event()
        about = {"goal": goal_id, "epoch": self._epoch.number}
        self._output = WorkerOutput(lambda line: log.info("worker.output", **about, line=line))

    @property
    def work(self) -> Work:
        return self._epoch.work

    async def run(self) -> Ended:
        """Run the worker to its end, and leave nothing of it behind."""
        try:
            ended = await self._live()
            if ended.kind == "crash" and self._epoch.executors.out_of_memory():
                # it looks like any other SIGKILL
                allowed = f"{self._epoch.settings.limits.memory_mb} MB allowed"
                detail = f"ended by the kernel, out of memory: {allowed}"
                ended = replace(ended, reason="memory", detail=detail)
        finally:
            await self._tear_down()
            self.gone.set()
        return await self._record_end(ended)

    def thresholds_changed(self) -> None:
        self._lifetime.notify("thresholds", thresholds(self._epoch.settings))

    def lived_s(self) -> float:
        return time.monotonic() - self._began

    async def _live(self) -> Ended:
        try:
            await self._start()
            return await self._lifetime.ended
        except WrongState as error:  # it was to stop before it had started
            return Ended("stopped", str(error))
        except (SpawnError, ExecutorFault, OSError, LedgerError) as error:
            return endings.by_fault(error)
        except Exception as error:
            goal, epoch = self._epoch.goal_id, self._epoch.number
            log.exception("goal.run_failed", goal=goal, epoch=epoch, error=repr(error))
            return endings.by_surprise(error)

    async def _start(self) -> None:
        epoch, spawn = self._epoch, self._lifetime.spawn
        if missing := await self._conversation.checks.missing_tools():
            asked = missing_tools(epoch.core.state, missing)
            await block_goal(epoch.parts.goals, epoch.core, asked)
            raise WrongState("a check cannot run, and a person is asked")
        await epoch.executors.prepare()
        if epoch.own_tools:
            await epoch.snapshots.first()
        rules, group = epoch.executors.rules, epoch.executors.leaf
        process = await epoch.executors.launcher.agent(rules, epoch.agent, group)
        epoch.process = process
        self._began, epoch.core.lived_s = time.monotonic(), self.lived_s  # a budget includes it
        self._lifetime.heard()
        self._lifetime.acted()
        self._draining = spawn(process.drain(self._output))
        spawn(self._wait_exit(process))
        await self._record_start(process)
        await epoch.decide(lambda core: core.start(time.time()))
        self._lifetime.quiet.clear()
        spawn(self._conversation.hold(process.channel))
        spawn(self._lifetime.watch())
        spawn(self._lifetime.watch_workspace())
        spawn(self._look_first())

    async def _record_start(self, process: AgentProcess) -> None:
        epoch, state = self._epoch, self._epoch.core.state
        event = ev.WorkerStarted(
            at=time.time(),
            epoch=epoch.number,
            agent=epoch.agent_name,
            pid=process.cell.pid,
            created=process.created,
            probe=state.waits_for_time,
            there=await self._paths_there(),
            turns_needed=epoch.parts.models.turns_needed(epoch.agent),
        )
        await epoch.parts.goals.emit(epoch.core, event)
        epoch.parts.goals.judge_by(epoch.core, epoch.parts.settings_of(epoch.goal_id))
        for warning in dict.fromkeys(w for cell in process.cells for w in cell.warnings):
            log.warning("sandbox.weaker", goal=epoch.goal_id, epoch=epoch.number, what=warning)

    async def _paths_there(self) -> tuple[str, ...]:
        """Return some paths in the workspace, for a model that is asked to look first."""
        epoch, state = self._epoch, self._epoch.core.state
        again = state.attempt.number > 1 and state.proofs.last_action < state.attempt.seq
        begins = not state.actions_total or again  # else the conversation has begun before
        if not (begins and epoch.kind == "llm" and epoch.settings.context.guidance):
            return ()
        text = "\n".join([(state.subtask or state.goal).description, *state.spec.checks.values()])
        look = asyncio.to_thread(paths_there, Path(state.spec.workspace), text)
        return await within(LOOK_S, look) or ()

    async def _look_first(self) -> None:
        """See the world while the agent takes in the answer to its hello; what it asks for next waits for this.

        Snapshots begin; where the agent may act without asking, the checks run.
        """
        epoch = self._epoch
        try:
            # WrongState: it is being stopped, and all that it asks for is answered so
            with suppress(WrongState):
                await epoch.see_world()
            epoch.snapshots.start()
            with suppress(WrongState):
                if epoch.own_tools:
                    await self._conversation.checks.run_before()
        except (SpawnError, ExecutorFault, OSError) as error:
            self._lifetime.end(endings.by_fault(error))
            return
        epoch.looked.set()

    async def _wait_exit(self, process: AgentProcess) -> None:
        code = await process.cell.guard.ended
        await asyncio.sleep(0)
        epoch = self._epoch
        if epoch.stopping:
            await self._lifetime.gone()
        # what the agent sent before it ended is still answered
        await within(LAST_MESSAGES_S, self._lifetime.quiet.wait())
        await asyncio.wait([self._draining], timeout=LAST_MESSAGES_S)
        ended = endings.by_exit(
            code, epoch.core.state, stopping=epoch.stopping, stop_reason=self._lifetime.stop_reason,
            leave=self._conversation.leave, output=self._output.tail, greeted=epoch.work.greeted,
        )  # fmt: skip
        if ended.reason == endings.OWES_REPLAN:
            epoch.hand_over(WHY["ended"])
        self._lifetime.end(ended)

    async def _tear_down(self) -> None:
        process = self._epoch.process
        self._epoch.stopping = True
        if process:
            await process.kill()
        await self._epoch.snapshots.close()
        await self._epoch.executors.end()
        # an action that ran until now kept messages waiting
        await within(LAST_MESSAGES_S, self._lifetime.quiet.wait())
        await asyncio.sleep(0)  # the drain sees the end of its pipe
        await self._lifetime.cancel()
        self._conversation.release()
        if process:
            process.channel.close()

    async def _record_end(self, ended: Ended) -> Ended:
        epoch, core = self._epoch, self._epoch.core
        lived_s, at, crash = self.lived_s(), time.time(), ended.kind == "crash"
        messages, core.messages, core.lived_s = core.messages, 0, None
        await epoch.parts.goals.whole(epoch.goal_id)
        with epoch.recording():
            is_told = crash or ended.reason == "paused"
            reason, said = ended.reason if is_told else "stopped", redact(epoch.work.said)
            core.interrupt(reason, at, counts=crash, said=said)
            if core.state.working:
                probe = core.state.waits_for_time and not crash
                counts = epoch.kind == "command" and not probe  # others report their turns
                event = ev.WorkerExited(
                    at=at, epoch=epoch.number, reason=ended.reason, code=ended.code, crash=crash,
                    probe=probe, active_s=round(lived_s, 3), messages=messages if counts else 0,
                )  # fmt: skip
                core.emit(event)
        await epoch.commit()
        return replace(ended, lived_s=lived_s)
