"""Proves a finish whose checks pass: what the agent changed of what judges is taken away, and they run again."""

import asyncio
import contextlib
import hashlib
import re
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from functools import partial
from itertools import islice
from typing import Any

import psutil
import structlog

from clew_daemon.host.git import program
from clew_daemon.processes.children import is_proc_ours
from clew_daemon.processes.executor import ExecutorDied, ExecutorFault, NoView
from clew_daemon.record.pages import event_at
from clew_daemon.session.checks import Checks
from clew_daemon.session.epoch import Epoch
from clew_shared.core.questions import told
from clew_shared.proof import label as rules
from clew_shared.proof.label import Evidence, Proof, Run, Seen
from clew_shared.proof.runners import Count
from clew_shared.record import snapshot_events as snap
from clew_shared.record.codec import decode
from clew_shared.record.model import Level
from clew_shared.record.state import ProofState
from clew_shared.snapshots.plan import PLAN_S, as_others_left, listed, with_store
from clew_shared.snapshots.store import StoreError, at
from clew_shared.text.redact import redact
from clew_shared.wire.answers import Finished, ProofTold
from clew_shared.wire.executor import DIFF_CHARS, LookRequest, ViewRequest

log = structlog.get_logger()

FILES_SHOWN = 20
OUTPUT_CHARS = 1_500
COMMAND_CHARS = 80
BEFORE = (
    r"""(?:(?<![\w.}*~)\]-])|(?<=[\s"']-\w)|(?<=:-))"""  # where a path may begin, also after `-C`
)
NO_OVERLAY = "no overlay: "  # begins what a cell says that could mount none


class Proving:
    """The proofs of one goal."""

    def __init__(self, epoch: Epoch, checks: Checks) -> None:
        self._epoch = epoch
        self._checks = checks
        self._theirs: dict[str, str] = {}
        self._never = False  # this machine can make no view, and could not before the work

    @property
    def on(self) -> bool:
        """Whether finishes of this goal are proved."""
        return self._epoch.settings.proof.mode != "off" and bool(self._epoch.core.state.spec.checks)

    async def clean(self) -> None:
        """Remove what Python has compiled since the goal began: checks shall run what the sources say."""
        if self.on and self._epoch.core.state.snapshots.first:
            with contextlib.suppress(ExecutorFault):
                executor = await self._epoch.executors.executor()
                await executor.prepare(ViewRequest(take="compiled", **self._basis("")))

    async def refusal(self, reason: str) -> Finished | None:
        """Make and record the proof of this finish; return its refusal, if any. With a `reason` a person is asked."""
        made = await self._proof(reason) if self.on else None
        epoch = self._epoch
        if made is None or self._ends(made) or epoch.settings.proof.mode == "say":
            return None
        await epoch.see_world()  # else the next action would be taken for what a check did
        level: Level | None = await epoch.decide(lambda c: c.refuse_proof(time.time(), reason))
        # this daemon may not be the one that made it
        last = event_at(epoch.parts.goals.ledger, epoch.goal_id, made.seq)
        diff, output = (last.diff, last.output) if isinstance(last, snap.ProofMade) else ("", "")
        shown = ProofTold(label=made.label, files=made.files, why=made.why, diff=diff)
        return Finished(
            accepted=False, failing_checks=(), open_subtasks=(), proof=shown, escalated_to=level,
            message=told(made, diff, output, asked=level == "person"),
        )  # fmt: skip

    def _ends(self, made: ProofState) -> bool:
        never = made.label == "unknown" and (self._never or self._cannot())
        return made.label in rules.ENDS or bool(made.accepted or never)

    def _cannot(self) -> str:
        """Return why no proof could ever be made, "" where one can: it was so before the agent did anything."""
        state, settings = self._epoch.core.state, self._epoch.settings
        if state.snapshots.first:
            return ""
        if not settings.snapshots.enabled:
            return "snapshots are switched off ([snapshots] enabled)"
        return state.snapshots.missing or "there is no snapshot of the workspace"

    async def _proof(self, reason: str) -> ProofState | None:
        """Return the proof of the workspace as it is; one on record for it holds."""
        epoch, began = self._epoch, time.monotonic()
        with stopped(epoch, left=True):
            try:
                made = await self._made(reason)
            except (ExecutorDied, NoView) as error:
                await epoch.executors.died(str(error))
                made = self._unknown(str(error), tree=epoch.core.state.snapshots.last)
        if made is not None:
            took = round(time.monotonic() - began, 3)
            event = made.model_copy(update={"at": time.time(), "seconds": took})
            await epoch.decide(lambda core: core.emit(event))
        return epoch.core.state.proofs.made

    async def _made(self, reason: str) -> snap.ProofMade | None:
        """Return the proof to record, None where the one on record is of this very world."""
        state = self._epoch.core.state
        if why := self._cannot():
            return self._unknown(why)
        if not await self._epoch.snapshots.now():  # an older one would show another workspace
            missing = state.snapshots.missing or "see the log"
            return self._unknown(f"no snapshot could be taken: {missing}")
        tree, checks = state.snapshots.last, tuple(state.spec.checks.values())
        executor = await self._epoch.executors.executor()
        self._theirs = {}
        look = await executor.look(LookRequest(checks=checks, **self._basis(tree)))
        if files := {*look.seen.files, *look.seen.data}:
            theirs = await asyncio.to_thread(self._as_others_left)
            self._theirs = {name: of for name, of in theirs.items() if name in files}
        if self._theirs:
            look = await executor.look(LookRequest(checks=checks, **self._basis(tree)))
        if look.fault:
            return self._unknown(look.fault, tree=tree)
        left = filter(None, map(_command_line, _acting(self._epoch, left=True)))
        seen = replace(look.seen, alive=(*look.seen.alive, *left))
        spec = state.spec  # which a person may have edited
        of = f"{tree} {seen} {spec.checks} {spec.tests} {spec.setup}"
        world = hashlib.sha256(of.encode(errors="replace")).hexdigest()[:32]
        known = state.proofs.made
        if known and known.world == world and known.label != "unknown":
            return None
        try:
            made = await self._labelled(seen, tree)
        except (ExecutorDied, NoView) as error:
            await self._epoch.executors.died(str(error))
            is_needed = self._epoch.settings.proof.view == "overlay"
            self._never = is_needed and str(error).startswith(NO_OVERLAY)
            made = self._unknown(str(error), seen)
        diff = redact(look.diff)[:DIFF_CHARS]
        more = {"tree": tree, "world": world, "diff": diff, "reason": redact(reason)}
        return made.model_copy(update=more)

    async def _labelled(self, seen: Seen, tree: str) -> snap.ProofMade:
        """Run the checks in views as far as is needed, and return the label that follows."""
        state = self._epoch.core.state
        before = {
            name: Run(one.exit_code, Count(*one.tests) if one.tests else None, one.duration_s)
            for name, one in state.proofs.before.items()
        }
        runs = Evidence(before, self._checks.finish)
        steps = self._epoch.kind == "runbook"
        allowed = rules.Allowed(state.spec.tests, steps=steps, setup=bool(state.spec.setup))
        while take := rules.next_view(seen, runs, allowed):
            try:
                ran = await self._again(take, seen, tree)
            except ExecutorDied:  # the look is not repeated: what was alive then has been ended
                ran = await self._again(take, seen, tree)
            runs = replace(runs, views={**runs.views, take: ran})
        found, accepts = rules.verdict(seen, runs, allowed)
        without = ("fail" if runs.failing("work") else "pass") if "work" in runs.views else None
        more = {"accepted": "goal" if accepts else None, "without_work": without}
        return self._event(found, runs, seen).model_copy(update=more)

    def _as_others_left(self) -> dict[str, str]:
        """Return the trees with what someone else changed meanwhile as they left it, by name; it blocks."""
        epoch, state = self._epoch, self._epoch.core.state
        if epoch.own_tools or epoch.kind == "cli":  # such an agent may change files at any time
            return {}
        ledger, base = epoch.parts.goals.ledger, state.proofs.base or state.snapshots.first
        rows = with_store((row.seq, decode(row.body)) for row in ledger.read(epoch.goal_id))
        first = (seq for seq, e in rows if isinstance(e, snap.SnapshotTaken) and e.tree == base)
        try:
            folder = epoch.parts.places.snapshots / epoch.goal_id
            store = at(folder, program(epoch.parts.keys.env)).within(PLAN_S)
            return as_others_left(rows, listed(store), max(first, default=0))
        except StoreError as error:
            log.warning("proof.unsure", goal=epoch.goal_id, reason=str(error))
            return {}

    async def _again(self, take: rules.Take, seen: Seen, tree: str) -> dict[str, Run]:
        """Run the checks in a view of the workspace; raises ExecutorDied, and NoView where there is none."""
        state, settings = self._epoch.core.state, self._epoch.settings
        is_kept = take == "kept"
        run, checks = self._checks.run_in, state.spec.checks
        for process in _acting(self._epoch, left=True):
            with contextlib.suppress(psutil.Error):
                process.kill()
        view = self._epoch.executors.view(settings.proof.view)
        async with view as (executor, source, copy):
            request = ViewRequest(
                take="judges" if is_kept else take, may_change=state.spec.tests if is_kept else (),
                settings=take != "work" and bool(seen.new_tools or seen.tools or seen.git),
                copy_from=source, copy_bytes=settings.proof.copy_mb << 20,
                without=bool(state.spec.setup), **self._basis(tree),
            )  # fmt: skip
            done = await executor.prepare(request)
            if done.fault:
                raise NoView(f"no view could be made: {done.fault}")
            own = rf"{BEFORE}{re.escape(source)}(?![\w.-])" if source else "(?!)"
            moved = partial(re.sub, own, lambda _: copy)  # where commands name it
            if setup := moved(state.spec.setup):
                ready = await run(executor, "setup", setup)
                if not ready.passed:
                    raise NoView(f"`setup` fails in the view: {_end(ready)}")
            return {n: await run(executor, n, moved(cmd), fresh=True) for n, cmd in checks.items()}

    def _basis(self, tree: str) -> dict[str, Any]:
        state, proof = self._epoch.core.state, self._epoch.settings.proof
        return {
            "base": state.proofs.base or state.snapshots.first, "end": tree, "theirs": self._theirs,
            "judges": (*proof.judges, *state.spec.judges), "ignore": proof.ignore,
            "since": state.snapshots.first_at,
        }  # fmt: skip

    def _unknown(self, why: str, seen: Seen | None = None, tree: str = "") -> snap.ProofMade:
        found = Proof("unknown", seen.files if seen else (), why)
        made = self._event(found, Evidence(finish=self._checks.finish), seen)
        steps = self._epoch.kind == "runbook"  # a person's own words
        accepted = "goal" if steps else None
        return made.model_copy(update={"accepted": accepted, "tree": tree, "world": tree})

    def _event(self, found: Proof, runs: Evidence, seen: Seen | None = None) -> snap.ProofMade:
        view, failing = runs.views.get("judges", {}), runs.failing("judges")
        return snap.ProofMade(
            at=0.0, world="", label=found.label, why=redact(found.why),
            files=tuple(map(redact, found.files[:FILES_SHOWN])),
            output=_end(view[failing]) if failing else "",
            taken_away=tuple(islice(_taken_away(seen or Seen()), 100)),
            checks=tuple(
                snap.ProofCheck(name=one, before=_on_record(runs.before.get(one)),
                    finish=_on_record(runs.finish.get(one)), view=_on_record(view.get(one)))
                for one in self._epoch.core.state.spec.checks
            ),
        )  # fmt: skip


def _end(run: Run) -> str:
    return run.output.strip()[-OUTPUT_CHARS:]


def _on_record(run: Run | None) -> snap.CheckRun | None:
    if run is None:
        return None
    counts = asdict(run.count) if run.count else {}
    return snap.CheckRun(exit_code=run.exit_code, seconds=run.seconds, **counts)


def _taken_away(seen: Seen) -> Iterator[snap.TakenAway]:
    kinds: dict[snap.TakenKind, tuple[str, ...]] = {
        "file": seen.files, "tool": (*seen.tools, *seen.new_tools), "home": seen.home,
        "git": seen.git, "process": seen.alive,
    }  # fmt: skip
    for kind, paths in kinds.items():
        yield from (snap.TakenAway(path=redact(path), kind=kind) for path in paths)


@contextlib.contextmanager
def stopped(epoch: Epoch, *, left: bool = False) -> Iterator[None]:
    """Stop an agent that could change the workspace while checks run; what it has left running only where `left`."""
    found = set[psutil.Process]()
    try:
        for _ in range(2):  # one that was being forked is found the second time
            for process in _acting(epoch, left=left):
                with contextlib.suppress(psutil.Error):
                    process.suspend()
                    found.add(process)
        yield
    finally:
        for process in found:
            with contextlib.suppress(psutil.Error):
                process.resume()


def _acting(epoch: Epoch, *, left: bool) -> list[psutil.Process]:
    """Return the processes of an agent that acts itself, or what it has `left` running: all in its cell but these."""
    found: list[psutil.Process] = []
    for cell in epoch.cells if epoch.own_tools or epoch.kind == "cli" else ():
        agent = _below(cell.pid)
        pids = {cell.guard.pid, *(one.pid for one in agent)}
        found += [one for one in _below(cell.guard.pid) if one.pid not in pids] if left else agent
    return found


def _below(pid: int) -> list[psutil.Process]:
    """Return a process with all below it; not by the kernel's lists of children, which may leave out one that runs."""
    with contextlib.suppress(psutil.Error):
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)] if is_proc_ours() else []
    return []


def _command_line(process: psutil.Process) -> str:
    with contextlib.suppress(psutil.Error):
        if process.status() != psutil.STATUS_ZOMBIE:
            return (" ".join(process.cmdline()).strip() or process.name())[:COMMAND_CHARS]
    return ""
