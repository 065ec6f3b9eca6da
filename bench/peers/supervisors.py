"""Clew and the supervisors that people run today, side by side: python -m bench.peers.supervisors [--help].

Restarts, orphans and idle cost. All supervisors are up at the same time, each with its children, and take turns; one is
disturbed at a time. One that fails is left out from then on, with the reason.
"""

import contextlib
import os
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import psutil
from bench import processes, runner
from bench.figures import Recorder
from bench.home import disk_folder
from bench.peers import supervisors_page
from bench.peers.install import MissingError
from bench.peers.peer import ChildSpec, Peer
from bench.peers.ready import ReadyPipe
from bench.peers.roster import ROSTER
from bench.peers.supervisors_page import UNITS
from bench.processes import alive

PEERS = tuple(row.key for _, row in ROSTER)
AGE_S = 31.0
"""How long a child has lived before it is killed: longer than any supervisor here remembers a crash."""
UP_S, BACK_S, FIND_S, SETTLE_S = 150.0, 60.0, 5.0, 2.0
SPARE = 4
"""Children of a kind beside the fleet that are killed one at a time, so that each has lived long enough again."""
LOOK_AFTER_S, RESTARTED_AFTER_S = 2.0, 8.0  # circus looks every 5 s, and so does runsvdir
FAILURES = (TimeoutError, OSError, psutil.Error, KeyError, StopIteration)


@dataclass(slots=True)
class Sizes:
    """How much is measured; `fleet_every` in rounds."""

    fleet: int = 50
    rounds: int = 20
    fleet_every: int = 4
    idle_s: float = 20.0


QUICK = Sizes(fleet=10, rounds=2, fleet_every=2, idle_s=5)


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


def measure(options: runner.Options, found: Recorder) -> dict[str, Any]:
    """Measure the chosen peers; return the facts."""
    options.print |= options.quick or set(options.only) != set(PEERS)
    sizes = QUICK if options.quick else Sizes()
    sizes = replace(sizes, rounds=options.rounds or sizes.rounds)
    with _bench(options.only, sizes, found) as bench:
        weigh(bench)
        start_all(bench)
        idle(bench)
        restarts(bench)
        bench.stop()
        fates(bench)
    return {
        "names": {peer.key: peer.name for peer in bench.peers},
        "versions": {peer.key: peer.version for peer in bench.peers},
        "settings": {peer.key: peer.row.setting for peer in bench.peers},
        "facts": dict(bench.facts),
        "fleet": sizes.fleet,
        "out": bench.out,
    }


@contextlib.contextmanager
def _bench(chosen: list[str], sizes: Sizes, found: Recorder) -> Iterator[SupervisorBench]:
    """The chosen peers, installed, in a folder that is removed afterwards with all their processes."""
    processes.become_subreaper()
    with disk_folder() as folder:
        (folder / "pipe").mkdir()
        pipe = ReadyPipe(folder / "pipe" / "ready")
        bench = SupervisorBench([], pipe, sizes, found)
        try:
            for peer_class, row in ROSTER:
                if row.key in chosen:
                    try:
                        bench.peers.append(peer_class(row, folder / row.key, pipe))
                    except MissingError as error:
                        bench.out[row.key] = str(error)
            yield bench
        finally:
            bench.stop()
            pipe.close()


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
            if all(alive(psutil.Process(pid)) for pid in pids):
                return pids
        if time.monotonic() > until:
            raise TimeoutError(f"the process of {names[0]} is not found")
        time.sleep(0.002)


WATCHED = {  # by whether it lives, and whether one was started
    (True, True): "lives on, and a second one is started",
    (True, False): "lives on",
    (False, True): "ends, and is started again",
    (False, False): "ends",
}


def fates(bench: SupervisorBench) -> None:
    """Lead all supervisors with bare children through the steps, each step for all before the next."""
    steps = {}
    for peer in [peer for peer in bench.left() if peer.row.bare]:
        with bench.dropping(peer, "started to see fates"):
            bench.start(peer, parent=3, talker=1)
            steps[peer] = _fates_of(bench, peer)
    while steps:
        waits_s = {}
        for peer, its_steps in steps.items():
            with bench.dropping(peer, "fates"):
                waits_s[peer] = next(its_steps, None)
        steps = {peer: steps[peer] for peer, wait_s in waits_s.items() if wait_s}
        time.sleep(max(filter(None, waits_s.values()), default=0))
    bench.progress("fates: seen")


def _fates_of(bench: SupervisorBench, peer: Peer) -> Iterator[float]:
    """Kill one process after the other, and note what becomes of those around it; yield how long to wait."""
    facts = bench.facts[peer.key]
    yield from _kill_worker(peer, facts)
    if peer.row.watcher:
        yield from _kill_watcher(bench, peer, facts)
    yield from _kill_supervisor(bench, peer, facts)


def _kill_worker(peer: Peer, facts: dict[str, object]) -> Iterator[float]:
    worker, *children = _tree(peer, "parent0")
    worker.kill()
    yield LOOK_AFTER_S
    facts["a worker's child, the worker killed"] = _fate(children)


def _kill_watcher(bench: SupervisorBench, peer: Peer, facts: dict[str, object]) -> Iterator[float]:
    """Kill the process between the supervisor and a child."""
    worker, killed_s = _tree(peer, "parent1")[0], time.monotonic()
    if watcher := worker.parent():
        watcher.kill()
    yield RESTARTED_AFTER_S
    restarted = bench.pipe.when(f"{peer.key}-parent1") > killed_s
    facts["a worker, its watcher killed"] = WATCHED[alive(worker), restarted]


def _kill_supervisor(
    bench: SupervisorBench, peer: Peer, facts: dict[str, object]
) -> Iterator[float]:
    """Kill the supervisor, then a child that outlived it."""
    (worker, *children), talker = _tree(peer, "parent2"), _tree(peer, "talker0")
    peer.top().kill()
    yield LOOK_AFTER_S
    facts["workers, the supervisor killed"] = _fate([worker])
    facts["their children, the supervisor killed"] = _fate(children)
    facts["one that prints, the supervisor killed"] = _fate(talker)
    killed_s = time.monotonic()
    with contextlib.suppress(psutil.NoSuchProcess):
        worker.kill()
    yield RESTARTED_AFTER_S
    restarted = bench.pipe.when(f"{peer.key}-parent2") > killed_s
    facts["restarted after that"] = "yes" if restarted else "no"


def _tree(peer: Peer, name: str) -> list[psutil.Process]:
    (pid,) = peer.pids([f"{peer.key}-{name}"])
    return processes.tree(pid)


def _fate(seen: list[psutil.Process]) -> str:
    return "lives on" if any(map(alive, seen)) else "ends" if seen else "not seen"


if __name__ == "__main__":
    runner.main(
        measure,
        supervisors_page,
        only=([*PEERS], "these alone; prints only"),
        rounds=(0, "how often each is killed; 0: as usual"),
        quick=(False, "few rounds: some two minutes; prints only"),
    )
