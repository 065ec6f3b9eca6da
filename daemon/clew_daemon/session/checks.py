"""Runs the checks of a goal; what follows from them is decided elsewhere."""

import re
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import astuple, replace
from math import inf
from os.path import expanduser
from pathlib import PurePath
from typing import NamedTuple

from clew_daemon.processes.cell_rules import executor_env
from clew_daemon.processes.executor import (
    ExecutorDied,
    ExecutorProcess,
    WorkspaceMissingError,
)
from clew_daemon.session.epoch import Epoch
from clew_daemon.session.shell_tests import explanation
from clew_shared.proof.label import Run
from clew_shared.proof.runners import count, words
from clew_shared.record import events as ev
from clew_shared.record.scope import is_measured
from clew_shared.record.state import State
from clew_shared.text.redact import redact
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
        self.finish: dict[str, Run] = {}  # how each check ended when they were run for a finish

    async def missing_tools(self) -> dict[str, str]:
        """Return which checks cannot run whatever is done in the workspace, and why; the executor is asked."""
        epoch = self._epoch
        due = tools_due(epoch.core.state)
        if not due or self._may_add_programs():
            return {}
        cmd = tools_probe(due.values())
        probe = CheckRequest(name="", cmd=cmd, timeout_s=TOOLS_S, output_bytes=TOOLS_BYTES)
        try:
            done = await (await epoch.executors.executor()).check(probe)
        except ExecutorDied as error:  # what is wrong is found out by what comes next
            await epoch.executors.died(str(error))
            return {}
        return not_found(due, done.output)

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
        tests, output = run.count and astuple(run.count)[: 3 + run.count.cut], _shown(run)
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


# What a check needs before it can run at all: a program on the PATH, or a test runner's module. A person is asked for
# it before anything is spent. In doubt a check can run: a path, or what the goal's text speaks of, is never missing.

_MODULES = words(lambda one: one.packages and one.programs)
# well-known programs: a goal that names one does not mean to make it
_TOOLS = (
    "bash bun cabal cc clang composer curl deno docker g++ gcc git jq make meson mix ninja npm npx perl pip pip3 pnpm "
    "podman python python3 sqlite3 uv wget yarn zig"
)
TOOLS = {*words(lambda one: one.programs), *_TOOLS.split()}

_FIRST = re.compile(
    r"\s*(?P<set>(?:[A-Za-z_]\w*=[^\s;&|<>()$`'\"\\]*\s+)*)"
    r"(?P<word>[A-Za-z0-9_][\w.+-]*)(?P<rest>(?:[\s;&|<>].*)?)\Z",
    re.DOTALL,
)
_COMMENTS = re.compile(r"(?:\s*#[^\n]*\n)*")
# with these another command may decide, or the first one need not succeed
_OTHER_END = re.compile(r"\|\||;|\n|(?<![&>])&(?![&>])")
_LOOKUP = re.compile(r"\b(?:PATH|PYTHON\w*)=")
_PYTHON = re.compile(r"(?:python|pypy)[0-9.]*")
_MODULE = re.compile(r"\s+(?:-[bBdEIOqsSuv]+\s+)*-m\s+([A-Za-z_][\w.]*)")
_FOUND = re.compile(r"^missing:(\d+):(program|module)$", re.MULTILINE)


class Tool(NamedTuple):
    """A program, by its bare name; with a `module` an interpreter of Python that is to run it."""

    program: str
    module: str = ""


def tool_of(cmd: str) -> Tool | None:
    """Return what the first command of a check needs, None if it needs nothing or that is not clear."""
    found = _FIRST.match(cmd.rstrip(), _COMMENTS.match(cmd).end())  # type: ignore[union-attr]
    if not found or _OTHER_END.search(found["rest"]) or _LOOKUP.search(found["set"]):
        return None
    word = found["word"]
    module = _MODULE.match(found["rest"]) if _PYTHON.fullmatch(word) else None
    runner = module[1] if module and module[1].partition(".")[0] in _MODULES else ""
    return Tool(word, runner)


def tools_due(state: State) -> dict[str, Tool]:
    """Return what to look for, by the names of the checks that were never run; nothing after a person's word."""
    if state.guidance.feedback_seq > state.rested_seq:
        return {}
    known = state.proofs.checks.keys() | state.proofs.before.keys()
    tools = {name: tool_of(cmd) for name, cmd in state.spec.checks.items() if name not in known}
    texts = list(_texts(state))
    return {name: tool for name, tool in tools.items() if tool and not _is_made(tool, texts)}


def tools_probe(tools: Iterable[Tool]) -> str:
    """Return a command for the shell that prints which of the tools are missing."""
    lines = []
    for n, (program, module) in enumerate(tools):
        find = f"import importlib.util as u; u.find_spec('{module}') or print('missing:{n}:module')"
        then = f'{program} -c "{find}" 2>/dev/null' if module else ":"
        there = f"command -v {program} >/dev/null 2>&1"
        lines.append(f"if {there}; then {then}; else echo missing:{n}:program; fi")
    return "\n".join(lines)


def not_found(tools: Mapping[str, Tool], output: str) -> dict[str, str]:
    """Return what is missing, by the names of the checks, from what `probe` has printed."""
    named, found = list(tools.items()), {}
    for number, what in _FOUND.findall(output):
        name, (program, module) = named[int(number)]
        found[name] = f"there is no program `{program}` on the PATH of commands"
        if what == "module":
            found[name] = f"`{program}` has no module `{module}`"
    return found


def _is_made(tool: Tool, texts: Iterable[str]) -> bool:
    """Return whether the goal may be about to make or to install a tool, by its own words."""
    name = tool.module or tool.program
    word = re.compile(rf"(?<![\w-]){re.escape(name)}(?![\w-])")
    lines = [line for text in texts for line in text.splitlines() if word.search(line)]
    is_known = name in TOOLS or _PYTHON.fullmatch(name)
    return bool(lines and not is_known) or any("install" in line.lower() for line in lines)


def _texts(state: State) -> Iterator[str]:
    """Yield the texts that say what the goal does: its own, those of its tree, and the steps of a runbook."""
    yield from (state.spec.description, state.spec.notes)
    for task in state.goal.tasks:
        yield task.description
        for subtask in task.subtasks:
            yield subtask.description
            values = (value for step in subtask.steps for value in step["args"].values())
            yield from (value for value in values if isinstance(value, str))
