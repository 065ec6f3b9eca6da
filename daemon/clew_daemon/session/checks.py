"""Runs the checks of a goal; what follows from them is decided elsewhere."""

import time
from dataclasses import astuple, replace
from math import inf
from os.path import expanduser
from pathlib import PurePath

from clew_daemon.processes.cells import executor_env
from clew_daemon.processes.executor import (
    ExecutorDied,
    ExecutorProcess,
    OutOfResources,
    WorkspaceMissingError,
)
from clew_daemon.session import check_tools
from clew_daemon.session.epoch import Epoch
from clew_shared.proof.checks import count
from clew_shared.proof.label import Run
from clew_shared.record import events as ev
from clew_shared.record.scope import is_measured
from clew_shared.text.redact import redact
from clew_shared.text.shell_tests import explanation
from clew_shared.text.shorten import without_middle
from clew_shared.wire.answers import FailingCheck
from clew_shared.wire.executor import CheckRequest

TOOLS_S = 10.0
TOOLS_BYTES = 65_536
CHECK_OUTPUT_CHARS = 4_000
TRACE_CHARS = 1_000
TRACE_S = 30.0
VALUE_CHARS_MIN = 4  # Shorter values of variables are no keys
CHECK_TRIES = 2  # A check changes nothing that counts: where the executor dies, it may be run again


class Checks:
    """The checks of one goal."""

    def __init__(self, epoch: Epoch) -> None:
        self._epoch = epoch
        self.finish: dict[str, Run] = {}
        """How each check ended when they were run for a finish."""

    async def missing_tools(self) -> dict[str, str]:
        """Return which checks cannot run whatever is done in the workspace, and why; the executor is asked."""
        epoch = self._epoch
        due = check_tools.due(epoch.core.state)
        if not due or self._may_add_programs():
            return {}
        cmd = check_tools.probe(due.values())
        probe = CheckRequest(name="", cmd=cmd, timeout_s=TOOLS_S, output_bytes=TOOLS_BYTES)
        try:
            done = await (await epoch.executors.executor()).check(probe)
        except OutOfResources:
            raise
        except ExecutorDied as error:  # what is wrong is found out by what comes next
            await epoch.executors.died(str(error))
            return {}
        return check_tools.missing(due, done.output)

    def _may_add_programs(self) -> bool:
        epoch = self._epoch
        roots = [epoch.core.state.spec.workspace, *map(expanduser, epoch.settings.sandbox.write)]
        path = executor_env(epoch.settings, epoch.parts.keys.env, {}).get("PATH", "")
        folders = [PurePath(one) for one in path.split(":")]
        return any(not f.is_absolute() or any(map(f.is_relative_to, roots)) for f in folders)

    async def run(self) -> list[FailingCheck]:
        """Run the goal's checks, once more where they changed the workspace; returns those that fail."""
        epoch = self._epoch
        if not epoch.core.state.spec.checks:
            return []
        before = await epoch.executors.digest(own=epoch.agent_acts)
        failing = await self.run_each()
        after = await epoch.executors.digest(own=epoch.agent_acts)
        if not failing and before != after and is_measured(before) and is_measured(after):
            failing = await self.run_each()
        return failing or []

    async def run_before(self) -> None:
        """Run each check that was never run, before the first action, all of them no longer than one may take."""
        epoch, state = self._epoch, self._epoch.core.state
        if state.actions_total or epoch.stopping:
            return
        due = [name for name in state.spec.checks if name not in state.proofs.before]
        if not due:
            return
        await epoch.snapshots.settled()  # the goal's first one shows the workspace as it was
        await epoch.snapshots.before_action(await epoch.executors.executor())
        until = time.monotonic() + epoch.settings.limits.check_timeout_s
        for name in due:
            if (left_s := until - time.monotonic()) <= 0:
                break
            await self._ran(name, state.spec.checks[name], left_s)
        await epoch.require_workspace()
        await epoch.see_world()  # else the first action would be taken for what a check did
        await epoch.commit()

    async def run_each(self, within_s: float = inf) -> list[FailingCheck] | None:
        """Run each check for a finish, or `within_s` before it; return those that fail, None if the time runs out."""
        failing: list[FailingCheck] = []
        until, finish = time.monotonic() + within_s, within_s == inf
        for name, cmd in self._epoch.core.state.spec.checks.items():
            if (left_s := until - time.monotonic()) <= 0:
                return None
            run = await self._ran(name, cmd, left_s, finish=finish)
            if finish:
                self.finish[name] = run
            elif run.exit_code is None:
                return None
            failing += await self._finish(name, await self._traced(name, cmd, run))
        await self._epoch.commit()
        return failing

    async def _ran(self, name: str, cmd: str, left_s: float = inf, *, finish: bool = False) -> Run:
        """Run a check in at most `left_s` seconds, for a `finish` again where the executor dies; as `run` otherwise."""
        work, run = self._epoch.work, Run()
        work.check, work.check_since = name, time.time()
        try:
            for _ in range(CHECK_TRIES if finish else 1):
                try:
                    own_tmp = finish and self._epoch.settings.proof.mode != "off"
                    executor = await self._epoch.executors.executor()
                    run = await self.run_in(executor, name, cmd, left_s, own_tmp)
                    break
                except OutOfResources:
                    raise
                except WorkspaceMissingError:
                    await self._epoch.require_workspace()
                    raise
                except ExecutorDied as error:
                    await self._epoch.executors.died(str(error))
                    text = f"the check did not run to its end: {error}"
                    run = Run(output=redact(text))
        finally:
            work.check = ""
        self._note_before(name, run)
        return run

    async def run_in(
        self, there: ExecutorProcess, name: str, cmd: str, most_s: float = inf, fresh: bool = False
    ) -> Run:
        """Have an executor run a check in at most `most_s` seconds, and no more than the config allows."""
        limits = self._epoch.settings.limits
        most_s, size = min(limits.check_timeout_s, most_s), limits.output_bytes
        request = CheckRequest(
            name=name, cmd=cmd, timeout_s=most_s, output_bytes=size, fresh_tmp=fresh
        )
        done = await there.check(request)
        is_late, output = done.result == "timeout", redact(done.output)
        tests = count(output)
        output += f"\n(not finished within {most_s:.0f} s)" if is_late else ""
        return Run(None if is_late else done.exit_code, tests, round(done.duration_s, 3), output)

    async def _traced(self, name: str, cmd: str, run: Run) -> Run:
        """Run a check that failed without a word once more, and return its failure with the trace of the shell."""
        if run.passed or run.output.strip() or not run.exit_code:
            return run
        traced = await self._ran(name, f"set -x\n{cmd}", TRACE_S)
        trace = self._without_values(traced.output.strip())
        if traced.passed or traced.exit_code is None or not trace:
            return run
        ran = f"It printed nothing. These commands ran:\n{trace[-TRACE_CHARS:]}\n"
        return replace(run, output=explanation(trace, cmd) or ran)

    def _without_values(self, text: str) -> str:
        """Return a text without the values of the variables that the config passes on: they may be keys."""
        env = self._epoch.parts.keys.env
        for variable in self._epoch.settings.sandbox.env:
            if len(value := env.get(variable, "")) >= VALUE_CHARS_MIN:
                text = text.replace(value, f"${variable}")
        return text

    def _note_before(self, name: str, run: Run) -> None:
        """Record the first result of a check while nothing has been done yet, as far as clew can see."""
        state = self._epoch.core.state
        if state.actions_total or name in state.proofs.before or name not in state.spec.checks:
            return
        measured = {"exit_code": run.exit_code, "duration_s": round(run.seconds, 3)}
        tests, output = astuple(run.count) if run.count else None, _shown(run)
        event = ev.CheckedBefore(
            at=time.time(), name=name, passed=run.passed, output=output, tests=tests, **measured
        )
        with self._epoch.entering() as core:
            core.emit(event)

    async def _finish(self, name: str, run: Run) -> list[FailingCheck]:
        output = _shown(run)
        event = ev.CheckFinished(at=time.time(), name=name, passed=run.passed, output=output)
        with self._epoch.entering() as core:
            core.emit(event)
        if run.passed:
            return []
        await self._epoch.commit()
        cmd = self._epoch.core.state.spec.checks[name]
        return [FailingCheck(name=name, cmd=cmd, exit_code=run.exit_code, output=output)]


def _shown(run: Run) -> str:
    return without_middle(run.output, CHECK_OUTPUT_CHARS)
