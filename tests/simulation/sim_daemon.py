"""The daemon in the simulated world: its own supervisor, sessions, goal store, requests and reviewer, as they are.

Replaced are what touches the machine (clocks, chance, processes, the line, the ledger's disk, files) and, of the
shell around, `app` and the publisher: `run` keeps the order in which `app` starts and stops its parts.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import sim_ground
import sim_snapshots
from sim_agent import SimAgent
from sim_cells import Children, SimChannel, SimExecutor, SimView, cell, stood_on
from sim_ledger import SimLedger
from sim_world import HAPPENINGS, World

from clew_daemon.app.housekeeping import reload
from clew_daemon.app.lifecycle import complete_undos
from clew_daemon.config import profiles
from clew_daemon.control.goal_changes import GoalChanges
from clew_daemon.control.lookup import GoalLookup
from clew_daemon.control.server import ControlError
from clew_daemon.host.keys import Keys
from clew_daemon.host.snapshot_space import SnapshotSpace
from clew_daemon.learning.playbook import KnownModels, PlaybookStore
from clew_daemon.ledger import lock
from clew_daemon.parts import DaemonParts
from clew_daemon.processes import cell_rules, workspace_guard
from clew_daemon.processes.cell_rules import CellRules
from clew_daemon.processes.cgroups import Cgroups
from clew_daemon.processes.llm_slots import LlmSlots
from clew_daemon.processes.nursery import SpawnError
from clew_daemon.publish import report
from clew_daemon.record import goal_events
from clew_daemon.record.dependencies import KnownGoals
from clew_daemon.record.goals import GoalStore
from clew_daemon.session import worker
from clew_daemon.supervision import afterwards, schedule
from clew_daemon.supervision.supervisor import Supervisor
from clew_shared.config.settings import SettingsError
from clew_shared.ledger.errors import LedgerError, LedgerState

if TYPE_CHECKING:
    from sim_cells import Files
    from sim_loop import Loop

NOWHERE = Path("/nowhere")
MATCHES = cache(profiles.matches)
"""Asked for at each event, of the same few models."""

REQUESTS = (
    *("feedback", "feedback", "unblock", "pause", "pause --now", "continue"),
    *("resume", "resume", "cancel", "retry", "retry"),
)
ASKED_EVERY_S = 8.0
RIVALS = (lock.DAEMON, lock.RESTORE, "another home")
"""Who may want this ledger, or this inbox, while a daemon has it."""

CALM_S = 1_500.0
"""So long after the last disturbance every goal must have come to rest."""


class SimLauncher:
    """Starts played processes: an agent at the other end of a played line, and its executors."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def agent(self, rules: CellRules, *_: Any) -> SimProcess:
        """Start an agent of the goal's character."""
        world, goal = self._world, rules.state.goal_id
        folder = await self._spawned(rules)
        lives_in, channel = cell(world, goal, "agent"), SimChannel(world, goal, rules.epoch)
        child = lives_in.guard
        agent = SimAgent(world, channel, goal, world.kind(goal), folder)
        task = asyncio.ensure_future(agent.live())
        task.add_done_callback(lambda t: t.cancelled() or child.end(t.result()))
        child.ends += [task.cancel, lambda: channel.say(None)]
        world.trace(goal, f"epoch {rules.epoch} is {agent.character}")
        return SimProcess(lives_in, channel)

    async def executor(self, rules: CellRules, *_: Any, view: Any = None, **__: Any) -> Any:
        kind = SimView if view else SimExecutor
        folder = await self._spawned(rules)
        return kind(self._world, rules.state.goal_id, rules.epoch, folder)

    async def _spawned(self, rules: CellRules) -> Files:
        """Take the time of a spawn, which may fail; the folder that the process works in."""
        await asyncio.sleep(self._world.rng.uniform(0.001, 0.05))
        if fault := self._world.spawn_fault():
            raise SpawnError(*fault)
        return stood_on(self._world, rules.state.goal_id, rules.place)

    def memory_mb(self, _: Any) -> float:
        world = self._world  # they have no weight, but for some
        return 1e9 if not world.calm and world.rng.random() < world.chaos.memory else 0.0


class SimProcess:
    """A played agent, which prints nothing."""

    created = 0.0

    def __init__(self, cell: Any, channel: SimChannel) -> None:
        self.cell, self.cells, self.channel, self.kill = cell, [cell], channel, cell.kill

    async def drain(self, _: Any) -> None:
        pass


class SimLog:
    """Hears what the daemon logs: errors that nobody expected are violations."""

    def __init__(self, world: World) -> None:
        self._world = world

    def error(self, event: str, **fields: Any) -> None:
        if event in ("daemon.bug", "goal.run_failed"):
            self._world.watch.failed(event, str(fields.get("error")))

    def warning(self, event: str, **fields: Any) -> None:
        if event == "worker.hung":
            self._world.trace(str(fields.get("goal")), "hung")

    exception = error
    info = debug = critical = lambda *_, **__: None


class SimDaemon:
    """One incarnation of the daemon."""

    def __init__(self, world: World, loop: Loop) -> None:
        self.world, self.loop = world, loop
        self.stop = asyncio.Event()
        self.ledger: SimLedger | None = None
        self.settled = False
        self.asked = 0

    async def run(self) -> None:
        """Start, serve, stop, in the order of the app."""
        world = self.world
        self.ledger = SimLedger(world, self.loop, self._ledger_state)
        goals = GoalStore(self.ledger, world.settings)  # type: ignore[arg-type]
        self.daemon = DaemonParts(
            places=SimpleNamespace(config=NOWHERE, outbox=None, snapshots=NOWHERE, folders={}),  # type: ignore[arg-type]
            settings=world.settings,
            keys=Keys({}),
            goals=goals,
            playbook=PlaybookStore(goals),
            models=KnownModels(goals),
            children=Children(),  # type: ignore[arg-type]
            nursery=None,  # type: ignore[arg-type]
            slots=LlmSlots(),
            publisher=SimpleNamespace(open=lambda _: None, settle=_nothing),  # type: ignore[arg-type]
            space=SnapshotSpace(NOWHERE),
            cgroups=Cgroups(None),
        )
        world.watch.begins(goals)
        goals.listeners.append(world.watch.listened)
        self.daemon.playbook.load()
        self.daemon.models.load()
        self.supervisor = Supervisor(self.daemon)
        self.changes = GoalChanges(self.daemon, self.supervisor, GoalLookup(goals))
        tasks: list[asyncio.Task[Any]] = []
        try:
            await complete_undos(self.daemon, lambda *_: None)
            await self.supervisor.start()
            actors = (
                self._drop(),
                self._ask(),
                self._happens("reloads", 10, self._reload),
                self._happens("jumps", 10, self._jump),
                self._happens("edits", 3, world.edit),
                self._happens("rivals", 8, self._rival),
                self._happens("swaps", 6, world.swap),
                self._settle(),
            )
            tasks += map(asyncio.ensure_future, actors)
            await self.stop.wait()
        except LedgerError:
            world.trace("daemon", "could not start: the ledger failed")
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self.supervisor.stop()
            self.ledger.die()

    def _ledger_state(self, state: LedgerState) -> None:
        if state is LedgerState.FAILED:
            self.stop.set()

    # -- what people and the machine do -----------------------------------------------------------------

    async def _drop(self) -> None:
        """Accept what is in the inbox, as its owner: a goal stays there until it is durably accepted."""
        self.inbox = _owner(self.world)
        with self.inbox, contextlib.suppress(LedgerError):
            for goal in self.world.goals:
                if goal.goal_id in self.daemon.goals.cores:
                    continue
                await asyncio.sleep(self.world.rng.expovariate(0.5))
                self.world.watch.taken(goal.goal_id, "this home")
                await self.daemon.goals.accept(goal, b"text")
                self.supervisor.wake()
            await self.stop.wait()

    async def _happens(self, name: str, every_s: float, what: Callable[[], None]) -> None:
        """Let something happen as often as the world has it to come."""
        world = self.world
        while getattr(world, name) > 0:
            await asyncio.sleep(world.rng.expovariate(1 / every_s))
            setattr(world, name, getattr(world, name) - 1)
            what()

    def _rival(self) -> None:
        """Start a second daemon, or a restore, on this ledger, or one of another home on this inbox."""
        what = self.world.rng.choice(RIVALS)
        try:
            if what != "another home":
                SimLedger(self.world, self.loop, self._ledger_state, what).die()
            elif self.inbox.held:  # its owner lives
                with _owner(self.world):
                    for goal in self.world.goals:
                        self.world.watch.taken(goal.goal_id, what)
        except lock.LockHeldError:
            self.world.trace("rival", f"{what} is refused")

    async def _ask(self) -> None:
        """Let people ask for this and that, one after the other or several at once of one goal."""
        rng, pending = self.world.rng, set()
        while self.world.requests > 0:
            await asyncio.sleep(rng.expovariate(1 / ASKED_EVERY_S))
            for task in [asyncio.ensure_future(one) for one in self._requests()]:
                pending.add(task)
                if rng.random() < 0.5:
                    await asyncio.wait([task], timeout=rng.expovariate(2.0))
        for task in pending:
            await asyncio.wait([task])

    def _requests(self) -> list[Coroutine[Any, Any, None]]:
        """Return what people ask for next: mostly one thing, or several at the same time."""
        rng, world = self.world.rng, self.world
        cores = self.daemon.goals.cores
        count = min(world.requests, rng.choice([1, 1, 2, 4]))
        world.requests -= count
        if not cores:
            return []
        goal = rng.choice(list(cores))
        return [self._request(rng.choice(REQUESTS), goal) for _ in range(count)]

    async def _request(self, name: str, goal: str) -> None:
        blocked = self.daemon.goals.cores[goal].state.blocked_actions
        text = f"advice {self.asked} at {self.world.clock.now}"
        self.asked += 1
        try:
            with self.world.watch.asking(goal):
                match name:
                    case "feedback":
                        answer = await self.changes.feedback(goal, text)
                    case "unblock":
                        answer = await self.changes.unblock(goal, blocked[0] if blocked else "none")
                    case _:
                        verb, _, now = name.partition(" --")
                        answer = await self.changes.change(verb, goal, now=bool(now))
        except (ControlError, LedgerError) as error:
            self.world.trace("person", f"{name} {goal}: {str(error)[:80]}")
            return
        finally:
            self.asked -= 1
        self.world.trace("person", f"{name} {goal}: {answer['status']}")
        if name == "feedback":
            self.world.watch.told(goal, text)

    def _reload(self) -> None:
        """Change thresholds while goals run; sometimes the file is broken."""
        broken, file = self.world.rng.random() < 0.2, self.world.folder / "config.toml"
        file.write_text("[loops]\nrepeat_limit = 0" if broken else self.world.config())
        try:
            taken, _, _ = reload(file, {}, self.daemon.settings)
        except SettingsError:
            return
        self.world.note(taken)
        self.world.settings = self.daemon.settings = taken
        self.daemon.goals.adopt(taken, self.daemon.settings_of)
        self.supervisor.reloaded()
        self.world.trace("daemon", "reloaded")

    def _jump(self) -> None:
        """Set the wall clock, forwards and backwards."""
        by_s = self.world.rng.choice([-86_400.0, -60.0, 3_600.0])
        self.world.clock.jump(by_s)
        self.world.trace("clock", f"set by {by_s:g} s")

    async def _settle(self) -> None:
        """End the life when all goals rest and nothing more is to come."""
        world, since, rested = self.world, None, 0
        while rested < 2:  # a moment of rest may lie between two workers
            await asyncio.sleep(2.0)
            to_come = any(getattr(world, name) for name in HAPPENINGS)
            if to_come or self.asked or world.deaths:
                continue
            since = world.clock.now if since is None else since
            world.calm = True
            if len(self.daemon.goals.cores) < len(world.goals):
                continue
            rested = rested + 1 if self._resting() else 0
            if world.clock.now - since > CALM_S:
                break
        self.settled = True
        self.stop.set()

    def _resting(self) -> bool:
        states, running = self.daemon.goals.states(), self.supervisor.running
        if running or not self.ledger.idle or any(s.working for s in states.values()):
            return False
        known, now = KnownGoals(states), self.world.clock.time()
        return all(
            s.ended
            or s.goal.status == "blocked"
            or s.paused
            or schedule.waits_for(s, known, running, now)[0] not in ("", "waits for a worker")
            for s in states.values()
        )


def _owner(world: World) -> lock.Lock:
    """Own the inbox until the lock is released."""
    return lock.acquire(world.folder / "inbox.lock", role=lock.DAEMON)


async def _nothing(*_: Any) -> None:
    """Clear away folders that no life has, and publish nothing."""


@contextlib.contextmanager
def in_place_of_the_machine(world: World) -> Iterator[None]:
    """Put the world's clocks, chance and processes in the place of the machine's, for every part of the daemon."""
    put: list[tuple[Any, str, Any]] = []

    def replace(module: Any, name: str, value: Any) -> None:
        put.append((module, name, getattr(module, name)))
        setattr(module, name, value)

    log = SimLog(world)
    for name, module in sorted(sys.modules.items()):
        if name.startswith("clew_daemon.") and not name.startswith("clew_daemon.cli"):
            if getattr(module, "time", None) is time:
                replace(module, "time", world.clock)
            if getattr(module, "random", None) is random:
                replace(module, "random", SimpleNamespace(random=world.rng.random))
            if hasattr(module, "log"):
                replace(module, "log", log)
    replace(worker, "Launcher", lambda _: SimLauncher(world))
    replace(cell_rules, "make_private", lambda *_, **__: {})
    replace(cell_rules, "make_view", lambda *_: NOWHERE)
    replace(cell_rules, "remove_view", lambda *_: None)
    replace(SnapshotSpace, "make", lambda *_: None)
    replace(afterwards, "clear", _nothing)
    replace(report, "write", lambda *_: None)
    replace(afterwards, "from_store", _nothing)
    for name, played in sim_ground.in_place_of(world).items():
        replace(workspace_guard, name, played)
    for module, name, played in sim_snapshots.in_place_of(world):
        replace(module, name, played)
    replace(goal_events, "STORED_EVERY", world.snapshot_every)
    replace(profiles, "matches", MATCHES)
    try:
        yield
    finally:
        for module, name, value in reversed(put):
            setattr(module, name, value)
