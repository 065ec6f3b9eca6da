"""Runs the checks of a goal, and those that its agent suggested; what follows from them is decided elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from os.path import expanduser
from pathlib import PurePath

from clew_daemon.processes.cells import executor_env
from clew_daemon.processes.executor import ExecutorDied, OutOfResources, WorkspaceMissingError
from clew_daemon.session import check_tools
from clew_daemon.session.desk import GoalDesk
from clew_shared.core import suggestions
from clew_shared.core.core import Core
from clew_shared.record import events as ev
from clew_shared.record.worlds import is_measured
from clew_shared.text.redact import redact
from clew_shared.text.shell_tests import explanation
from clew_shared.text.shorten import without_middle
from clew_shared.wire.answers import FailingCheck
from clew_shared.wire.executor import CheckDone

SUGGESTED_S = 60.0
"""How long all checks that an agent suggested may take together."""

TOOLS_S = 10.0
TOOLS_BYTES = 65_536
CHECK_OUTPUT_CHARS = 4_000
TRACE_CHARS = 1_000
COMMAND_CHARS = 200
TRACE_S = 30.0
VALUE_CHARS_MIN = 4
"""Shorter values of variables are no keys."""

CHECK_TRIES = 2
"""A check changes nothing that counts: where the executor dies, it may be run again."""

UNSTEADY = (
    "The checks changed the workspace, ran a second time, and this one changed it again; what it leaves behind is not "
    "what was checked. Let it write to $TMPDIR, or name the files that it writes in `[loops] ignore`."
)


@dataclass(frozen=True, slots=True)
class CheckRun:
    """How one run of a check ended; `exit_code` is None where it did not run to its end, `late` if it took too long."""

    passed: bool
    output: str
    exit_code: int | None = None
    late: bool = False
    duration_s: float = 0.0

    @property
    def silent(self) -> bool:
        """Whether it ran to its end and failed without a word."""
        return not (self.passed or self.output.strip()) and bool(self.exit_code)


class Checks:
    """The checks of one goal."""

    def __init__(self, desk: GoalDesk) -> None:
        self._desk = desk

    async def run(self) -> list[FailingCheck]:
        """Run the goal's checks; returns those that fail (docs/goal-files.md).

        A check may undo what an earlier one has seen. Where they changed the workspace they run once more, and one
        that changes it again fails: what it leaves behind is not what was checked.
        """
        failing, changing = await self._run_each()
        if changing and not failing:
            failing, changing = await self._run_each()
        if changing and not failing:
            failing = [await self._fail(name, CheckRun(False, UNSTEADY)) for name in changing]
        return failing

    async def missing_tools(self) -> dict[str, str]:
        """Return which checks cannot run whatever is done in the workspace, and why; the executor is asked."""
        desk = self._desk
        due = check_tools.due(desk.core.state)
        if not due or self._may_add_programs():
            return {}
        try:
            executor = await desk.executors.executor()
            done = await executor.check(
                "", check_tools.probe(due.values()), timeout_s=TOOLS_S, output_bytes=TOOLS_BYTES
            )
        except OutOfResources:
            raise
        except ExecutorDied as error:  # what is wrong is found out by what comes next
            await desk.executors.died(str(error))
            return {}
        return check_tools.missing(due, done.output)

    def _may_add_programs(self) -> bool:
        """Return whether an action can write to a folder of the PATH."""
        desk = self._desk
        roots = [desk.core.state.spec.workspace, *map(expanduser, desk.settings.sandbox.write)]
        path = executor_env(desk.settings, desk.parts.keys.env, {}).get("PATH", "")
        folders = [PurePath(one) for one in path.split(":")]
        return any(
            not folder.is_absolute() or any(folder.is_relative_to(root) for root in roots)
            for folder in folders
        )

    async def run_before(self) -> None:
        """Run each check that was never run, before the goal's first action: one that passes already proves nothing.

        All of them may take as long as one; what is not run by then is not known.
        """
        desk = self._desk
        state = desk.core.state
        due = [name for name in state.spec.checks if name not in state.checked_before]
        if state.actions_total or not due or desk.stopping:
            return
        await desk.snapshots.settled()  # the goal's first one shows the workspace as it was
        await desk.snapshots.before_action(await desk.executors.executor())
        until = time.monotonic() + desk.settings.limits.check_timeout_s
        for name in due:
            began = time.monotonic()
            if began >= until:
                break
            with self._running(name):
                run = await self._run_once(name, state.spec.checks[name], until - began)
            self._note_before(name, run)
        await desk.require_workspace()
        await desk.look()  # else the first action would be taken for what a check did
        await desk.commit()

    async def run_early(self, within_s: float) -> list[FailingCheck] | None:
        """Run each check once, all in at most `within_s` seconds; returns those that fail, None where one took longer.

        One that took longer is stopped, and not recorded: it has neither passed nor failed. The trace of one that fails
        silently has its own limit.
        """
        failing: list[FailingCheck] = []
        until = time.monotonic() + within_s
        for name, cmd in self._desk.core.state.spec.checks.items():
            if (left_s := until - time.monotonic()) <= 0:
                return None
            with self._running(name):
                run = await self._run_once(name, cmd, left_s)
                if run.late or run.exit_code is None:
                    return None
                self._note_before(name, run)
                if run.silent:
                    run = await self._traced(name, cmd, run)
            if run.passed:
                self._pass(name, run)
            else:
                failing.append(await self._fail(name, run))
        return failing

    async def run_suggested(self) -> None:
        """Run the checks that the agent suggested, each at most once, in a bounded time; none decides anything.

        That one is about to run is durable first: if anything dies of it, it is not run again.
        """
        desk, until = self._desk, time.monotonic() + SUGGESTED_S
        for name, cmd in suggestions.due(desk.core.state):
            left_s = until - time.monotonic()
            if left_s < 1.0:
                return
            await desk.decide(_emits(ev.CheckStarted(at=time.time(), name=name)))
            with self._running(name):
                run = await self._run_once(name, cmd, left_s)
            await desk.decide(_emits(_finished(name, run, suggested=True)))

    async def _run_once(self, name: str, cmd: str, left_s: float) -> CheckRun:
        """Run a check in at most `left_s` seconds; raises WrongState, WorkspaceMissingError."""
        try:
            return await self._run(name, cmd, left_s)
        except WorkspaceMissingError:
            await self._desk.require_workspace()
            raise
        except ExecutorDied as error:
            return await self._broken(error)

    async def _run_each(self) -> tuple[list[FailingCheck], list[str]]:
        """Run each check once; returns those that fail, and the names of those that changed the workspace."""
        desk = self._desk
        failing: list[FailingCheck] = []
        changing: list[str] = []
        checks = desk.core.state.spec.checks
        world = await desk.executors.digest(full=False, own=desk.agent_acts) if checks else ""
        for name, cmd in checks.items():
            with self._running(name):
                run = await self._run_to_its_end(name, cmd)
                self._note_before(name, run)
                if run.silent:
                    run = await self._traced(name, cmd, run)
            before, world = world, await desk.executors.digest(full=False, own=desk.agent_acts)
            if is_measured(before) and is_measured(world) and before != world:
                changing.append(name)
            if not run.passed:
                failing.append(await self._fail(name, run))
            else:
                self._pass(name, run)
        await desk.commit()
        return failing, changing

    async def _run_to_its_end(self, name: str, cmd: str) -> CheckRun:
        """Run a check; once more where the executor died of something else, or of it."""
        broken = CheckRun(False, "")
        for _ in range(CHECK_TRIES):
            try:
                return await self._run(name, cmd, self._desk.settings.limits.check_timeout_s)
            except OutOfResources:
                raise
            except ExecutorDied as error:
                broken = await self._broken(error)
        return broken

    async def _traced(self, name: str, cmd: str, silent: CheckRun) -> CheckRun:
        """Run a check that failed and printed nothing once more, and return its failure with the trace of the shell.

        The first run decides; the trace only shows with which command it ended.
        """
        try:
            run = await self._run(name, f"set -x\n{cmd}", TRACE_S)
        except OutOfResources:
            raise
        except ExecutorDied as error:
            await self._broken(error)
            return silent
        trace = self._without_values(run.output).strip()
        if run.passed or run.exit_code is None or not trace:
            return silent
        return replace(silent, output=_trace(trace, cmd))

    def _without_values(self, trace: str) -> str:
        """Return a trace without the values of the variables that the config passes on: they may be keys."""
        env = self._desk.parts.keys.env
        for name in self._desk.settings.sandbox.env:
            if len(value := env.get(name, "")) >= VALUE_CHARS_MIN:
                trace = trace.replace(value, f"${name}")
        return trace

    async def _run(self, name: str, cmd: str, most_s: float) -> CheckRun:
        limits = self._desk.settings.limits
        timeout_s = min(limits.check_timeout_s, most_s)
        executor = await self._desk.executors.executor()
        done = await executor.check(
            name, cmd, timeout_s=timeout_s, output_bytes=limits.output_bytes
        )
        return _run_of(done, timeout_s)

    async def _broken(self, error: ExecutorDied) -> CheckRun:
        await self._desk.executors.died(str(error))
        return CheckRun(False, redact(f"the check did not run to its end: {error}"))

    def _note_before(self, name: str, run: CheckRun) -> None:
        """Record the first result of a check while nothing has been done yet, as far as clew can see."""
        state = self._desk.core.state
        if state.actions_total or name in state.checked_before:
            return
        with self._desk.entering() as core:
            core.emit(_ran_before(name, run))

    def _pass(self, name: str, run: CheckRun) -> None:
        with self._desk.entering() as core:
            core.emit(_finished(name, run))

    async def _fail(self, name: str, run: CheckRun) -> FailingCheck:
        event = _finished(name, run)
        await self._desk.decide(_emits(event))
        cmd = self._desk.core.state.spec.checks[name]
        return FailingCheck(name=name, cmd=cmd, exit_code=run.exit_code, output=event.output)

    @contextmanager
    def _running(self, name: str) -> Iterator[None]:
        """Show while the block lasts that a check is running."""
        work = self._desk.work
        work.check, work.check_since = name, time.time()
        try:
            yield
        finally:
            work.check = ""


def _emits(event: ev.Event) -> Callable[[Core], int]:
    return lambda core: core.emit(event)


def _trace(trace: str, cmd: str) -> str:
    """Return with which command a check failed, and why, where that is known; else the end of the trace."""
    if why := explanation(trace, cmd, command_chars=COMMAND_CHARS):
        return why
    shown = trace[-TRACE_CHARS:]
    if len(shown) == TRACE_CHARS and "\n+ " in shown:
        shown = shown[shown.index("\n+ ") + 1 :]
    return f"It printed nothing. These commands ran:\n{shown}\n"


def _run_of(done: CheckDone, timeout_s: float) -> CheckRun:
    """Return how a check ended, with its redacted output, and a note where it took too long."""
    late = done.result == "timeout"
    note = f"\n(not finished within {timeout_s:.0f} s)" if late else ""
    output = redact(done.output) + note
    return CheckRun(done.result == "success", output, done.exit_code, late, done.duration_s)


def _ran_before(name: str, run: CheckRun) -> ev.CheckedBefore:
    return ev.CheckedBefore(
        at=time.time(),
        name=name,
        passed=run.passed,
        exit_code=run.exit_code,
        duration_s=round(run.duration_s, 3),
        output=without_middle(run.output, CHECK_OUTPUT_CHARS),
    )


def _finished(name: str, run: CheckRun, *, suggested: bool = False) -> ev.CheckFinished:
    text = without_middle(run.output, CHECK_OUTPUT_CHARS)
    return ev.CheckFinished(
        at=time.time(), name=name, passed=run.passed, output=text, suggested=suggested
    )
