"""What is measured of supervisors: weight, idle cost, how fast a child is back, and what survives when one is killed.

All supervisors are up at the same time, each with its children, and take turns; one is disturbed at a time. One that
fails is left out from then on, with the reason.
"""

import contextlib
import os
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

import psutil
from bench import processes
from bench.figures import Recorder
from bench.peers.peer import ChildSpec, Peer
from bench.peers.ready import ReadyPipe
from bench.peers.supervisors_page import UNITS

AGE_S = 31.0
"""How long a child has lived before it is killed: longer than any supervisor here remembers a crash."""
UP_S, BACK_S, FIND_S, SETTLE_S = 150.0, 60.0, 5.0, 2.0
SPARE = 4
"""Children of a kind beside the fleet that are killed one at a time, so that each has lived long enough again."""
LOOK_AFTER_S, RESTARTED_AFTER_S = 2.0, 8.0  # circus looks every 5 s, and so does runsvdir
FIRST, SECOND, THIRD, TALKER = "parent0", "parent1", "parent2", "talker0"
FAILURES = (TimeoutError, OSError, psutil.Error, KeyError, StopIteration)


@dataclass(slots=True)
class Sizes:
    """How much is measured; `fleet_every` in rounds."""

    fleet: int = 50
    rounds: int = 20
    fleet_every: int = 4
    idle_s: float = 20.0


@dataclass
class SupervisorBench:
    """Peers under test, and what was found: series by measure and peer's name, facts by its key."""

    peers: list[Peer]
    pipe: ReadyPipe
    sizes: Sizes
    found: Recorder
    facts: dict[str, dict[str, object]] = field(default_factory=lambda: defaultdict(dict))
    out: dict[str, str] = field(default_factory=dict)
    began_s: float = field(default_factory=time.monotonic)

    def add(self, measure: str, peer: Peer, value: float) -> None:
        self.found.add(f"{measure}: {peer.name}", UNITS[measure], value)

    def progress(self, text: str) -> None:
        print(f"{time.monotonic() - self.began_s:5.0f} s  {text}", file=sys.stderr, flush=True)

    def left(self, turn: int = 0) -> list[Peer]:
        """Return the peers that still take part, each time starting with another one."""
        peers = [peer for peer in self.peers if peer.key not in self.out]
        at = turn % max(1, len(peers))
        return peers[at:] + peers[:at]

    @contextlib.contextmanager
    def dropping(self, peer: Peer, what: str) -> Iterator[None]:
        """Leave a peer out from now on if this fails."""
        try:
            yield
        except FAILURES as error:
            self.out[peer.key] = f"{what}: {error!r}"[:300]
            self.progress(f"{peer.name} is left out: {what}: {error!r} {peer.tail()}")

    def start(self, peer: Peer, **kinds: int) -> list[str]:
        """Start a peer and wait until all its children are up; return their names."""
        children = [
            ChildSpec(name, kind, self.pipe.path)
            for kind, count in kinds.items()
            for name in _names(peer, kind, count)
        ]
        began, names = time.monotonic(), [child.name for child in children]
        peer.begin(children)
        self.pipe.wait(names, began, UP_S)
        return names

    def stop(self) -> None:
        """Stop all peers, whatever state they are in."""
        for peer in self.peers:
            with contextlib.suppress(*FAILURES):
                peer.stop()
        processes.end_all()


def weigh(bench: SupervisorBench) -> None:
    """Weigh each supervisor alone: without children, and with its fleet, the children apart."""
    for peer in bench.left():
        for of, count in (("none", 0), ("fleet", bench.sizes.fleet)):
            with bench.dropping(peer, f"started with {count} children"):
                names = bench.start(peer, tiny=count)
                time.sleep(SETTLE_S)
                bench.add(f"own memory, {of}", peer, processes.pss_mb(peer.own()))
                if count:
                    theirs = processes.pss_mb(psutil.Process(pid) for pid in peer.pids(names))
                    bench.add("memory of a child", peer, theirs / count)
            with bench.dropping(peer, "stopped"):
                peer.stop()
        bench.progress(f"weighed {peer.name}")


def start_all(bench: SupervisorBench) -> None:
    """Start all, each with its fleet and the children that will be killed one at a time."""
    for peer in bench.left():
        with bench.dropping(peer, "started with all children"):
            bench.start(peer, tiny=SPARE + bench.sizes.fleet, loaded=SPARE)
    bench.progress("all are up")


def idle(bench: SupervisorBench) -> None:
    time.sleep(SETTLE_S)
    before = {peer.key: (own := peer.own(), processes.spent(own)) for peer in bench.left()}
    began = time.monotonic()
    time.sleep(bench.sizes.idle_s)
    for peer in bench.left():
        own, spent = before[peer.key]
        now, took_s = processes.spent(own), time.monotonic() - began
        bench.add("idle CPU", peer, (now.cpu_s - spent.cpu_s) / took_s * 100)
        bench.add("idle wake-ups", peer, (now.switches - spent.switches) / took_s)


def restarts(bench: SupervisorBench) -> None:
    """Kill one child at a time, in turns; now and then a whole fleet."""
    sizes = bench.sizes
    every = min(sizes.fleet_every, sizes.rounds)
    for turn in range(sizes.rounds):
        for peer in bench.left(turn):
            with bench.dropping(peer, f"restart {turn + 1}"):
                _restart_one(bench, peer, again=turn % 2 == 0)
        if turn % every == every - 1:
            for peer in bench.left(turn):
                with bench.dropping(peer, f"restart of the fleet {turn + 1}"):
                    names = _names(peer, "tiny", SPARE + sizes.fleet)[SPARE:]
                    _measure_restart(bench, peer, "mass restart", names)
        bench.progress(f"restarts: round {turn + 1} of {sizes.rounds}")


def _restart_one(bench: SupervisorBench, peer: Peer, *, again: bool) -> None:
    """Kill the oldest child, and perhaps the new one as soon as it is ready."""
    for kind in ("tiny", "loaded") if peer.row.bare else ("loaded",):
        name = min(_names(peer, kind, SPARE), key=lambda name: bench.pipe.last[name].at_s)
        _measure_restart(bench, peer, f"restart, {kind}", [name])
        if again and (kind == "tiny" or not peer.row.bare):
            _measure_restart(bench, peer, "again at once", [name], age_s=0)


def _measure_restart(
    bench: SupervisorBench, peer: Peer, measure: str, names: list[str], age_s: float = AGE_S
) -> None:
    """SIGKILL children at once that have lived this long; milliseconds until all are ready again."""
    old_at_s = max(bench.pipe.last[name].at_s for name in names) + age_s
    time.sleep(max(0.0, old_at_s - time.monotonic()))
    pids = _living_pids(peer, names)
    began = time.monotonic()
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    back = bench.pipe.wait(names, began, BACK_S)
    took_s = max(ready.at_s for ready in back.values()) - began
    bench.add(measure, peer, took_s * 1000)


def _names(peer: Peer, kind: str, count: int) -> list[str]:
    return [f"{peer.key}-{kind}{number}" for number in range(count)]


def _living_pids(peer: Peer, names: list[str]) -> list[int]:
    """Return the children's pids as soon as all of them are known and alive."""
    until = time.monotonic() + FIND_S
    while True:
        with contextlib.suppress(psutil.NoSuchProcess, KeyError):
            pids = peer.pids(names)
            if all(processes.alive(psutil.Process(pid)) for pid in pids):
                return pids
        if time.monotonic() > until:
            raise TimeoutError(f"the process of {names[0]} is not found")
        time.sleep(0.002)


class Fate:
    """What becomes of a supervisor's children and theirs when a process around them is killed."""

    def __init__(self, bench: SupervisorBench, peer: Peer) -> None:
        self.pipe, self.peer = bench.pipe, peer
        self.facts = bench.facts[peer.key]
        self.old: dict[str, list[psutil.Process]] = {}
        self.killed_s = 0.0

    def kill_worker(self) -> None:
        self._remember(FIRST)
        self.old[FIRST][0].kill()

    def see_grandchild(self) -> None:
        self.facts["a worker's child, the worker killed"] = _fate(self.old[FIRST][1:])

    def kill_watcher(self) -> None:
        """Kill the process between the supervisor and a child, if there is one."""
        self._remember(SECOND)
        parent = self.old[SECOND][0].parent()
        self.killed_s = time.monotonic()
        if self.peer.row.watcher and parent:
            parent.kill()

    def see_worker(self) -> None:
        if self.peer.row.watcher:
            seen = processes.alive(self.old[SECOND][0]), self._restarted(SECOND)
            self.facts["a worker, its watcher killed"] = WATCHED[seen]

    def kill_supervisor(self) -> None:
        self._remember(THIRD)
        self._remember(TALKER)
        self.peer.top().kill()

    def see_orphans(self) -> None:
        self.facts["workers, the supervisor killed"] = _fate(self.old[THIRD][:1])
        self.facts["their children, the supervisor killed"] = _fate(self.old[THIRD][1:])
        self.facts["one that prints, the supervisor killed"] = _fate(self.old[TALKER])

    def kill_orphan(self) -> None:
        self.killed_s = time.monotonic()
        with contextlib.suppress(psutil.NoSuchProcess):
            self.old[THIRD][0].kill()

    def see_restart(self) -> None:
        self.facts["restarted after that"] = "yes" if self._restarted(THIRD) else "no"

    def _restarted(self, name: str) -> bool:
        return self.pipe.when(f"{self.peer.key}-{name}") > self.killed_s

    def _remember(self, name: str) -> None:
        (pid,) = self.peer.pids([f"{self.peer.key}-{name}"])
        self.old[name] = processes.tree(pid)


def _fate(seen: list[psutil.Process]) -> str:
    return "lives on" if any(map(processes.alive, seen)) else "ends" if seen else "not seen"


WATCHED = {  # by whether it lives, and whether one was started
    (True, True): "lives on, and a second one is started",
    (True, False): "lives on",
    (False, True): "ends, and is started again",
    (False, False): "ends",
}
STEPS = (
    (Fate.kill_worker, Fate.see_grandchild, LOOK_AFTER_S),
    (Fate.kill_watcher, Fate.see_worker, RESTARTED_AFTER_S),
    (Fate.kill_supervisor, Fate.see_orphans, LOOK_AFTER_S),
    (Fate.kill_orphan, Fate.see_restart, RESTARTED_AFTER_S),
)


def fates(bench: SupervisorBench) -> None:
    """Lead all supervisors with bare children through the steps, each step for all before the next."""
    found = []
    for peer in [peer for peer in bench.left() if peer.row.bare]:
        with bench.dropping(peer, "started to see fates"):
            bench.start(peer, parent=3, talker=1)
            found.append(Fate(bench, peer))
    for kill, see, wait_s in STEPS:
        for step, pause_s in ((kill, wait_s), (see, 0)):
            for fate in found:
                with bench.dropping(fate.peer, step.__name__):
                    step(fate)
            time.sleep(pause_s)
        found = [fate for fate in found if fate.peer.key not in bench.out]
    bench.progress("fates: seen")
