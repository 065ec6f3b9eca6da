"""The daemon's side of the worker protocol in miniature, for tests of agents.

One goal, the real core with the real gate, real tools in a real folder, no ledger and no processes.
It serves one end of a socket pair on the test's own event loop.
"""

import asyncio
import contextlib
import itertools
import math
import subprocess
import time
import traceback
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import SimpleNamespace

from clew_daemon.record.hello import hello_answer
from clew_shared.config.agent_tables import LlmAgentSettings, RunbookAgentSettings
from clew_shared.config.tables import IGNORED, LoopSettings, Settings
from clew_shared.core import questions
from clew_shared.core.answers import ActionReport, WrongState
from clew_shared.core.core import Core
from clew_shared.record import events as ev
from clew_shared.record.codec import encode
from clew_shared.record.spec import PlannedStep, PlannedSubtask, PlannedTask, Spec
from clew_shared.record.state import State
from clew_shared.views.publish import state_view
from clew_shared.wire import protocol
from clew_worker.executor.tools.files import ToolContext
from clew_worker.executor.tools.registry import carry_out
from clew_worker.executor.workspace import Workspace
from clew_worker.executor.world.world import WorldWatch

ACTION_TIMEOUT_S = 60
INTERNAL_ERROR = -32603


def subtask(description, *steps):
    return PlannedSubtask(
        description=description, steps=tuple(PlannedStep(tool=t, args=a) for t, a in steps)
    )


def task(description, *subtasks):
    return PlannedTask(description=description, subtasks=subtasks)


@dataclass
class GoalDaemon:
    folder: Path
    description: str = "Create hello.txt containing hello"
    notes: str = ""
    checks: dict = field(default_factory=dict)
    tasks: tuple = ()
    agent: dict = field(default_factory=dict)
    context: dict = field(default_factory=dict)
    runbook: bool = False
    heartbeat_s: float = 5.0
    loops: LoopSettings = field(default_factory=LoopSettings)

    def __post_init__(self):
        self.workspace = Workspace(str(self.folder))
        self.world = WorldWatch(str(self.folder), IGNORED)
        spec = Spec(
            description=self.description,
            notes=self.notes,
            checks=self.checks,
            workspace=str(self.folder),
            on_interrupt="ask",
        )
        self.recorded = []
        self.core = Core(State(), self.loops, itertools.count(1).__next__, runbook=self.runbook)
        self.emit(ev.GoalAccepted(goal_id="hello-1", spec=spec, tasks=self.tasks))
        self.emit(ev.GoalStarted())
        self.begin_epoch()
        self.heard = []  # (method, params) of everything that the agent sent
        self.left = None
        self.finished = None
        self.slots_open = 0
        self.writer = None
        self.arrived = asyncio.Event()
        self.hold = {}  # method -> event to wait for before answering
        self.silent_from = {}  # method -> the request, counted from 1, that gets no answer

    @property
    def state(self):
        return self.core.state

    def emit(self, event):
        return self.core.emit(event.model_copy(update={"at": time.time()}))

    def begin_epoch(self):
        self.silent_from = {}
        self.emit(ev.WorkerStarted(epoch=self.state.epoch + 1))
        self.core.start(time.time())

    async def serve(self, sock):
        reader, self.writer = await asyncio.open_connection(
            sock=sock, limit=protocol.LINE_BYTES_MAX + 1
        )
        answering = set()
        try:
            while line := await reader.readline():
                answering.add(asyncio.create_task(self._answer(protocol.parse(line))))
        except ConnectionError:
            pass
        finally:
            self.writer.close()  # before any wait, which may be cut short
            for one in answering:
                one.cancel()
            await asyncio.gather(*answering, return_exceptions=True)
            with contextlib.suppress(ConnectionError):
                await self.writer.wait_closed()

    def notify(self, method, **params):
        self.writer.write(protocol.notification(method, params))

    async def _answer(self, message):
        request_id, method, raw = protocol.request(message)
        self.heard.append((method, raw))
        self.arrived.set()
        if self.count(method) >= self.silent_from.get(method, math.inf):
            return
        if method in self.hold:
            await self.hold[method].wait()
        try:
            params = protocol.params(method, raw)
            answer = await getattr(self, "_" + method)(params)
        except protocol.ProtocolError as error:
            self.writer.write(protocol.error(request_id, error.code, str(error)))
        except WrongState as error:
            self.writer.write(protocol.error(request_id, protocol.WRONG_STATE, str(error)))
        except Exception as error:  # noqa: BLE001 - a bug here must fail the test, not hang it
            traceback.print_exc()
            self.writer.write(protocol.error(request_id, INTERNAL_ERROR, repr(error)))
        else:
            if request_id is not None:
                self.writer.write(protocol.result(request_id, answer))
        self._record()

    def _record(self):
        self.recorded += self.core.take()

    async def until(self, holds):
        """Wait for what the agent sends until a condition holds."""
        async with asyncio.timeout(60):
            while not holds():
                self.arrived.clear()
                with contextlib.suppress(TimeoutError):  # it may hold before the next message
                    await asyncio.wait_for(self.arrived.wait(), 0.05)

    def count(self, method):
        return sum(name == method for name, _ in self.heard)

    def params(self, method):
        return [params for name, params in self.heard if name == method]

    # -- what hello says

    def hello(self):
        settings = Settings(loops=self.loops, context=self.context)
        agent = RunbookAgentSettings() if self.runbook else LlmAgentSettings(**self.agent)
        self._record()
        answer = hello_answer(
            self.state, settings, agent, self, [], prompt=self.state.guidance.prompt
        )
        given = ("notes", "checks", "heartbeat_s")  # which tests set as they go
        return answer.as_json() | {name: getattr(self, name) for name in given}

    def read(self, _goal, after=0, limit=None):
        """Give the events on record, as a ledger does."""
        for one in [one for one in self.recorded if one.seq > after][:limit]:
            yield SimpleNamespace(seq=one.seq, kind=one.event.kind, body=encode(one.event))

    def output(self, seq):
        return next((one.output for one in self.recorded if one.seq == seq), None)

    # -- methods

    async def _hello(self, _params):
        return self.hello()

    async def _heartbeat(self, _params):
        return None

    async def _act(self, params):
        if ran := self.core.asks_first(params.tool, params.args):
            self.core.ask_about_step(ran, questions.step(self.state, ran), time.time())
            raise WrongState("a person is asked")
        verdict = self.core.propose(params.tool, params.args, time.time(), params.rationale)
        answer = {
            "verdict": "allowed" if verdict.allowed else "blocked",
            "seq": verdict.seq,
            "intervention": asdict(verdict.intervention) if verdict.intervention else None,
            "escalated_to": verdict.escalated_to,
        }
        if not verdict.allowed:
            return {**answer, "reason": verdict.reason, "message": verdict.message}
        report = await self._carry_out(params.tool, params.args)
        heard = self.core.outcome(verdict.seq, report, time.time())
        shown = ("result", "output", "duration_s", "changed", "exit_code")
        answer["outcome"] = {name: getattr(report, name) for name in shown}
        if heard.intervention:
            answer["intervention"] = asdict(heard.intervention)
        answer["escalated_to"] = heard.escalated_to or verdict.escalated_to
        return answer

    async def _carry_out(self, tool, args):
        before, started = self.world.digest().digest, time.monotonic()
        if tool == "run_cmd":
            cmd = args.get("cmd", "")
            result, output, code = await asyncio.to_thread(_shell, cmd, self.folder)
        else:
            context = ToolContext(self.workspace, None, None, ACTION_TIMEOUT_S, 65536)
            outcome = carry_out(tool, args, context)
            result, output, code = outcome.result, outcome.output, outcome.exit_code
        after = self.world.digest().digest
        return ActionReport(
            result=result,
            output=output,
            changed=after != before,
            world=after,
            duration_s=time.monotonic() - started,
            exit_code=code,
        )

    async def _think(self, params):
        heard = self.core.think(params.text, time.time(), has_tool_calls=params.has_tool_calls)
        return {"intervention": asdict(heard.intervention) if heard.intervention else None}

    async def _reflect(self, params):
        event = ev.Reflected(
            at=time.time(),
            iteration=self.state.iteration + 1,
            assessment=params.progress_assessment or "",
            record=params.model_dump(exclude={"usage", "hindsight", "turn", "prompt"}),
            tokens=params.usage.input + params.usage.output,
            hindsight=tuple(params.hindsight),
            turn=tuple(params.turn),
            prompt=params.prompt,
        )
        heard = self.core.reflect(event)
        return {"intervention": asdict(heard.intervention) if heard.intervention else None}

    async def _plan(self, params):
        tasks = tuple(
            task(t.description, *(subtask(s.description) for s in t.subtasks)) for t in params.tasks
        )
        checks = [(one.name, one.cmd) for one in params.checks or ()]
        covers = "all" if params.covers is None else params.covers
        self.core.plan(tasks, params.replan, time.time(), checks, covers=covers)
        return {"state": state_view(self.state)}

    async def _complete_subtask(self, params):
        level = self.core.complete_subtask(
            time.time(), success=params.success, failure=params.failure, summary=params.summary
        )
        return {"state": state_view(self.state), "escalated_to": level}

    async def _advance(self, _params):
        if not self.core.advance(time.time()):
            return {"subtask": None, "task": None}
        return {
            "subtask": {"description": self.state.subtask.description},
            "task": {"description": self.state.task.description},
        }

    async def _finish(self, params):
        if not params.success:
            self.finished = (False, params.summary)
            return {"accepted": True, "failing_checks": [], "open_subtasks": []}
        failing = []
        for name, command in self.checks.items():
            result, output, code = await asyncio.to_thread(_shell, command, self.folder)
            if result != "success":
                failing.append({"name": name, "cmd": command, "exit_code": code, "output": output})
        still_open = not self.checks and self.state.open_subtasks()
        accepted = not (failing or still_open) and not self.state.plan.replan_required
        if accepted:
            self.finished = (True, params.summary)
        return {
            "accepted": accepted,
            "failing_checks": failing,
            "open_subtasks": self.state.open_subtasks(),
        }

    async def _llm_slot(self, params):
        self.slots_open += 1 if params.open else -1
        return {}

    async def _leave(self, params):
        self.left = params
        return {}


def _shell(cmd, folder):
    argv = ["sh", "-c", cmd] if isinstance(cmd, str) else cmd
    both = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "stdin": subprocess.DEVNULL}
    how = {"timeout": ACTION_TIMEOUT_S, "text": True, "errors": "replace"}
    try:
        done = subprocess.run(argv, cwd=folder, check=False, **both, **how)
    except OSError as error:
        return "error", str(error), None
    return ("success" if done.returncode == 0 else "failure"), done.stdout, done.returncode
