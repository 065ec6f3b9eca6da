"""Proves a finish whose checks pass: what the agent changed of what judges is taken away, and they run again.

The executor looks and makes the view; which label follows is decided in `clew_shared.proof.label`, and is durable
before the agent hears of it (docs/proof.md).
"""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Iterator
from typing import Any, Literal

import psutil
import structlog

from clew_daemon.processes.executor import ExecutorDied, ExecutorProcess, OutOfResources
from clew_daemon.session.checks import CheckRun, Checks
from clew_daemon.session.epoch import Epoch
from clew_shared.core.proofs import told
from clew_shared.proof.counts import Count, count
from clew_shared.proof.label import (
    COVERED,
    ENDS,
    Evidence,
    Proof,
    Run,
    Seen,
    failing_run,
    label,
    needs_data,
    needs_outside_only,
)
from clew_shared.record import proof_events as pr
from clew_shared.record.model import Level
from clew_shared.record.state import ProofState
from clew_shared.text.redact import redact
from clew_shared.wire.answers import Finished, ProofTold
from clew_shared.wire.executor import LookDone, LookRequest, ViewRequest

log = structlog.get_logger()

FILES_SHOWN = 20
OUTPUT_CHARS = 1_500
WITHOUT_WORK_S = 60.0
"""Where the checks took longer in the view, they are not run once more only to help a person decide."""
Take = Literal["judges", "data", "tools", "work", "compiled"]


class Proving:
    """The proofs of one goal."""

    def __init__(self, epoch: Epoch, checks: Checks) -> None:
        self._epoch = epoch
        self._checks = checks

    @property
    def on(self) -> bool:
        """Whether finishes of this goal are proved."""
        return self._epoch.settings.proof.mode != "off" and bool(self._epoch.core.state.spec.checks)

    async def clean(self) -> None:
        """Remove what Python has compiled since the goal began: checks shall run what the sources say."""
        if self.on and self._epoch.core.state.snapshots.first:
            with contextlib.suppress(ExecutorDied):
                executor = await self._epoch.executors.executor()
                await executor.prepare(ViewRequest(id=0, take="compiled", **self._basis("")))

    async def refusal(self, reason: str) -> Finished | None:
        """Make and record the proof of this finish; return the answer where it refuses, None where the goal ends.

        `reason` is the agent's for its changes of tests; with one a person is asked.
        """
        if not self.on:
            return None
        made = await self._proof(reason)
        epoch = self._epoch
        if made is None or self._ends(made) or epoch.settings.proof.mode == "say":
            return None
        await epoch.see_world()  # else the next action would be taken for what a check did
        level: Level | None = await epoch.decide(
            lambda core: core.refuse_proof(time.time(), reason)
        )
        last = self._last
        diff, output = (last.diff, last.output) if last else ("", "")
        shown = ProofTold(label=made.label, files=made.files, why=made.why, diff=diff)
        return Finished(
            accepted=False, failing_checks=(), open_subtasks=(), proof=shown, escalated_to=level,
            message=told(made, diff, output, asked=level == "person"),
        )  # fmt: skip

    def _ends(self, made: ProofState) -> bool:
        return made.label in ENDS or bool(made.accepted) or bool(self._cannot())

    def _cannot(self) -> str:
        """Return why no proof could ever be made, "" where one can: it was so before the agent did anything."""
        state, settings = self._epoch.core.state, self._epoch.settings
        if state.snapshots.first:
            return ""
        if not settings.snapshots.enabled:
            return "snapshots are switched off ([snapshots] enabled)"
        return state.snapshots.missing or "there is no snapshot of the workspace"

    # -- the proof -----------------------------------------------------------------------------------

    _last: pr.ProofMade | None = None
    _settings = False
    """Whether tools or settings were changed, so that a view has to put them back."""

    async def _proof(self, reason: str) -> ProofState | None:
        """Return the proof of the workspace as it is; one on record for it holds."""
        epoch, began = self._epoch, time.monotonic()
        with _frozen(epoch):
            try:
                made = await self._made(reason)
            except OutOfResources:
                raise
            except ExecutorDied as error:
                await epoch.executors.died(str(error))
                made = pr.ProofMade(at=0.0, world="", label="unknown", why=redact(str(error)))
        if made is not None:
            took = round(time.monotonic() - began, 3)
            event = made.model_copy(update={"at": time.time(), "seconds": took})
            self._last = event
            await epoch.decide(lambda core: core.emit(event))
        return epoch.core.state.proof

    async def _made(self, reason: str) -> pr.ProofMade | None:
        """Return the proof to record, None where the one on record is of this very world."""
        state = self._epoch.core.state
        finish = {name: _run(run) for name, run in self._checks.finish.items()}
        if why := self._cannot():
            return self._event(Proof("unknown", (), why), "", Evidence(finish=finish))
        if not await self._epoch.snapshots.now():  # an older one would show another workspace
            why = f"no snapshot could be taken: {state.snapshots.missing or 'see the log'}"
            return self._event(Proof("unknown", (), why), "", Evidence(finish=finish))
        tree = state.snapshots.last
        executor = await self._epoch.executors.executor()
        checks = tuple(state.spec.checks.values())
        look = await executor.look(LookRequest(id=0, checks=checks, **self._basis(tree)))
        if look.fault:
            return self._event(Proof("unknown", (), look.fault), "", Evidence(finish=finish))
        seen = f"{tree} {look.model_dump_json(exclude={'id', 'diff'})}"
        world = hashlib.sha256(seen.encode(errors="replace")).hexdigest()[:32]
        known = state.proof
        if known and known.world == world and known.label != "unknown":
            return None
        return await self._labelled(look, tree, world, finish, reason)

    async def _labelled(
        self, look: LookDone, tree: str, world: str, finish: dict[str, Run], reason: str
    ) -> pr.ProofMade:
        state = self._epoch.core.state
        self._settings = bool(look.new_tools or look.tools or look.git)
        fields = set(Seen.__dataclass_fields__)
        seen = Seen(**look.model_dump(include=fields))
        before = {
            name: Run(one.exit_code, Count(*one.tests) if one.tests else None, one.duration_s)
            for name, one in state.checked_before.items()
        }
        runs = Evidence(before, finish)
        if seen.suspects or state.spec.setup:
            runs = Evidence(before, finish, await self._again(tree, "judges"))
            if runs.view and needs_outside_only(seen, runs.view):
                runs = Evidence(before, finish, runs.view, await self._again(tree, "tools"))
        if needs_data(seen, runs):
            more = await self._again(tree, "data")
            runs = Evidence(before, finish, runs.view, runs.outside_only, more)
        found = label(seen, runs)
        accepted = await self._accepted(found, tree)
        view = runs.view or {}
        without: Literal["pass", "fail"] | None = None
        if found.label in COVERED and sum(run.seconds for run in view.values()) <= WITHOUT_WORK_S:
            failing = failing_run(await self._again(tree, "work"))
            without = "fail" if failing else "pass"
        event = self._event(found, world, runs, seen)
        return event.model_copy(
            update={
                "tree": tree,
                "diff": redact(look.diff),
                "reason": redact(reason),
                "accepted": accepted,
                "without_work": without,
            }
        )

    async def _accepted(self, found: Proof, tree: str) -> Literal["goal"] | None:
        """Return whether the goal's own words accept a label: its steps, or that these tests may change."""
        may_change = self._epoch.core.state.spec.tests
        if found.label in ENDS:
            return None
        if self._epoch.kind == "runbook":
            return "goal"
        if found.label != "changed_tests" or not may_change:
            return None
        kept = await self._again(tree, "judges", keep=may_change)
        return None if failing_run(kept) else "goal"

    # -- runs in a view ------------------------------------------------------------------------------

    async def _again(self, tree: str, take: Take, keep: tuple[str, ...] = ()) -> dict[str, Run]:
        """Run the checks in a view of the workspace; raises ExecutorDied where there is none."""
        state, settings = self._epoch.core.state, self._epoch.settings
        async with self._epoch.executors.view(settings.proof.view) as (executor, source):
            done = await executor.prepare(
                ViewRequest(
                    id=0,
                    take=take,
                    settings=take != "work" and self._settings,
                    copy_from=source,
                    copy_bytes=settings.proof.copy_mb << 20,
                    without=bool(state.spec.setup),
                    **self._basis(tree, keep),
                )
            )
            if done.fault:
                raise ExecutorDied(f"no view could be made: {done.fault}")
            if state.spec.setup:
                ready = await self._run(executor, "setup", state.spec.setup)
                if not ready.passed:
                    raise ExecutorDied(f"`setup` fails in the view: {ready.end}")
            return {
                name: await self._run(executor, name, cmd)
                for name, cmd in state.spec.checks.items()
            }

    async def _run(self, executor: ExecutorProcess, name: str, cmd: str) -> Run:
        limits = self._epoch.settings.limits
        done = await executor.check(
            name, cmd, timeout_s=limits.check_timeout_s, output_bytes=limits.output_bytes
        )
        code = None if done.result == "timeout" else done.exit_code
        passed, output = done.result == "success", redact(done.output)
        return _run(CheckRun(passed, output, code, duration_s=done.duration_s))

    def _basis(self, tree: str, keep: tuple[str, ...] = ()) -> dict[str, Any]:
        state, proof = self._epoch.core.state, self._epoch.settings.proof
        return {
            "base": state.proof_base or state.snapshots.first,
            "end": tree,
            "since": state.snapshots.first_at,
            "judges": (*proof.judges, *state.spec.judges),
            "ignore": proof.ignore,
            "may_change": keep,
        }

    # -- the record ----------------------------------------------------------------------------------

    def _event(
        self, found: Proof, world: str, runs: Evidence, seen: Seen | None = None
    ) -> pr.ProofMade:
        view = runs.view or {}
        failing = failing_run(view)
        return pr.ProofMade(
            at=0.0,
            world=world,
            label=found.label,
            files=tuple(map(redact, found.files[:FILES_SHOWN])),
            why=redact(found.why),
            output=view[failing].end if failing else "",
            taken_away=_taken_away(seen) if seen else (),
            checks=tuple(
                pr.ProofCheck(name=name, **{
                    moment: _on_record(of.get(name))
                    for moment, of in (("before", runs.before), ("finish", runs.finish), ("view", view))
                })
                for name in self._epoch.core.state.spec.checks
            ),
        )  # fmt: skip


def _run(run: CheckRun) -> Run:
    end = run.output.strip()[-OUTPUT_CHARS:]
    return Run(run.exit_code, count(run.output), round(run.duration_s, 3), end)


def _on_record(run: Run | None) -> pr.CheckRun | None:
    if run is None:
        return None
    counts = {} if run.count is None else {
        "passed": run.count.passed, "failed": run.count.failed, "skipped": run.count.skipped
    }  # fmt: skip
    return pr.CheckRun(exit_code=run.exit_code, seconds=run.seconds, **counts)


def _taken_away(seen: Seen) -> tuple[pr.TakenAway, ...]:
    kinds: tuple[tuple[pr.TakenKind, tuple[str, ...]], ...] = (
        ("file", seen.files),
        ("tool", (*seen.tools, *seen.new_tools)),
        ("home", seen.home),
        ("git", seen.git),
        ("process", seen.alive),
    )
    found = [pr.TakenAway(path=redact(path), kind=kind) for kind, paths in kinds for path in paths]
    return tuple(found[:100])


@contextlib.contextmanager
def _frozen(epoch: Epoch) -> Iterator[None]:
    """Stop an agent that could change the workspace itself, with all that it has started, until the proof is made."""
    if not (epoch.own_tools or epoch.kind == "cli"):
        yield
        return
    stopped: dict[int, psutil.Process] = {}
    try:
        for _ in range(2):  # one that was being forked is found the second time
            for cell in epoch.cells():
                with contextlib.suppress(psutil.Error):
                    for process in psutil.Process(cell.guard.pid).children(recursive=True):
                        with contextlib.suppress(psutil.Error):
                            process.suspend()
                            stopped[process.pid] = process
        yield
    finally:
        for process in stopped.values():
            with contextlib.suppress(psutil.Error):
                process.resume()
