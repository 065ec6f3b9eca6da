"""What is measured of supervisors: what they weigh, how fast a child is back, and what they do when nothing happens.

All supervisors are up at the same time, each with its children, and take turns (A B A B); one is disturbed at a time.
A supervisor that fails is left out from then on, and the reason is kept.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import psutil
from bench.peers import processes
from bench.peers.peer import Child, Peer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.peers.said import Said

AGE_S = 31.0
"""A child has lived so long before it is killed: longer than any supervisor here remembers a crash."""
UP_S, BACK_S, FIND_S = 150.0, 60.0, 5.0
SETTLE_S = 2.0
SPARE = 4
"""Children of a kind beside the fleet that are killed one at a time, so that each has lived long enough again."""

FAILURES = (TimeoutError, OSError, psutil.Error, KeyError, StopIteration)


@dataclass(slots=True)
class Sizes:
    """How much is measured."""

    fleet: int = 50
    rounds: int = 20
    fleet_every: int = 4  # rounds
    idle_s: float = 20.0


@dataclass
class Bench:
    """Peers under measure, and what was found: values by measure and peer's key."""

    peers: list[Peer]
    said: Said
    sizes: Sizes
    values: dict[str, dict[str, list[float]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )
    facts: dict[str, dict[str, object]] = field(default_factory=lambda: defaultdict(dict))
    out: dict[str, str] = field(default_factory=dict)
    began_s: float = field(default_factory=time.monotonic)

    def say(self, text: str) -> None:
        """Tell how far it is."""
        took_s = time.monotonic() - self.began_s
        print(f"{took_s:5.0f} s  {text}", file=sys.stderr, flush=True)

    def left(self, turn: int = 0) -> list[Peer]:
        """The peers that still take part, each time another one first."""
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
            self.say(f"{peer.name} is left out: {what}: {error!r} {peer.tail()}")

    def children(self, peer: Peer, kinds: dict[str, int]) -> list[Child]:
        return [
            Child(f"{peer.key}-{kind}{number}", kind, self.said.path)
            for kind, count in kinds.items()
            for number in range(count)
        ]

    def start(self, peer: Peer, children: list[Child]) -> None:
        """Start a peer and wait until all its children are up."""
        began = time.monotonic()
        peer.begin(children)
        self.said.wait([child.name for child in children], began, UP_S)

    def stop(self) -> None:
        """End all peers, whatever state they are in."""
        for peer in self.peers:
            with contextlib.suppress(*FAILURES):
                peer.stop()
        processes.end_all()


def weigh(bench: Bench) -> None:
    """Weigh each supervisor alone: without children, and with its fleet, the children apart."""
    for peer in bench.left():
        for count in (0, bench.sizes.fleet):
            with bench.dropping(peer, f"started with {count} children"):
                children = bench.children(peer, {"tiny": count})
                bench.start(peer, children)
                time.sleep(SETTLE_S)
                own = peer.own()
                bench.values[f"own memory, {'fleet' if count else 'none'}"][peer.key] = [
                    processes.pss_mb(own)
                ]
                bench.facts[peer.key][f"own processes, {'fleet' if count else 'none'}"] = len(own)
                if count:
                    theirs = [psutil.Process(pid) for pid in peer.pids([c.name for c in children])]
                    each = processes.pss_mb(theirs) / count
                    bench.values["memory of a child"][peer.key] = [each]
            with bench.dropping(peer, "stopped"):
                peer.stop()
        bench.say(f"weighed {peer.name}")


def start_all(bench: Bench) -> None:
    """Have all up, each with its fleet and the children that will be killed one at a time."""
    for peer in bench.left():
        with bench.dropping(peer, "started with all children"):
            began = time.monotonic()
            kinds = {"tiny": SPARE + bench.sizes.fleet, "loaded": SPARE}
            bench.start(peer, bench.children(peer, kinds))
            bench.values["start of the fleet"][peer.key] = [time.monotonic() - began]
    bench.say("all are up")


def idle(bench: Bench) -> None:
    """Watch all of them for a while in which nothing happens."""
    time.sleep(SETTLE_S)
    before = {peer.key: (own := peer.own(), processes.spent(own)) for peer in bench.left()}
    began = time.monotonic()
    time.sleep(bench.sizes.idle_s)
    for peer in bench.left():
        own, spent = before[peer.key]
        now, took_s = processes.spent(own), time.monotonic() - began
        bench.values["idle CPU"][peer.key] = [(now.cpu_s - spent.cpu_s) / took_s * 100]
        bench.values["idle wake-ups"][peer.key] = [(now.switches - spent.switches) / took_s]


def restarts(bench: Bench) -> None:
    """Kill one child at a time, in turns; now and then a whole fleet."""
    sizes = bench.sizes
    every = min(sizes.fleet_every, sizes.rounds)
    for turn in range(sizes.rounds):
        for peer in bench.left(turn):
            with bench.dropping(peer, f"restart {turn + 1}"):
                _one_by_one(bench, peer, again=turn % 2 == 0)
        if turn % every == every - 1:
            for peer in bench.left(turn):
                with bench.dropping(peer, f"restart of the fleet {turn + 1}"):
                    _fleet(bench, peer)
        bench.say(f"restarts: round {turn + 1} of {sizes.rounds}")


def _one_by_one(bench: Bench, peer: Peer, *, again: bool) -> None:
    """Kill a child that has lived AGE_S, and perhaps the new one the moment that it is ready."""
    for kind in ("tiny", "loaded") if peer.bare else ("loaded",):
        name = _oldest(bench, peer, kind)
        bench.values[f"restart, {kind}"][peer.key].append(_restart_ms(bench, peer, [name]))
        if again and (kind == "tiny" or not peer.bare):
            bench.values["again at once"][peer.key].append(_restart_ms(bench, peer, [name]))


def _fleet(bench: Bench, peer: Peer) -> None:
    """Kill the whole fleet at the same moment."""
    names = _names(peer, "tiny", SPARE + bench.sizes.fleet)[SPARE:]
    _rest_until(max(bench.said.last[name].at_s for name in names) + AGE_S)
    bench.values["mass restart"][peer.key].append(_restart_ms(bench, peer, names))


def _names(peer: Peer, kind: str, count: int) -> list[str]:
    return [f"{peer.key}-{kind}{number}" for number in range(count)]


def _oldest(bench: Bench, peer: Peer, kind: str) -> str:
    """Name the child that has lived longest, and wait until that is AGE_S."""
    last = bench.said.last
    name = min(_names(peer, kind, SPARE), key=lambda name: last[name].at_s)
    _rest_until(last[name].at_s + AGE_S)
    return name


def _rest_until(at_s: float) -> None:
    time.sleep(max(0.0, at_s - time.monotonic()))


def _restart_ms(bench: Bench, peer: Peer, names: list[str]) -> float:
    """SIGKILL these children at once; milliseconds until the last of them is ready again."""
    pids = _live(peer, names)
    began = time.monotonic()
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    back = bench.said.wait(names, began, BACK_S)
    return (max(ready.at_s for ready in back.values()) - began) * 1000


def _live(peer: Peer, names: list[str]) -> list[int]:
    """The children's pids, as soon as all of them are known and alive."""
    until = time.monotonic() + FIND_S
    while True:
        with contextlib.suppress(psutil.NoSuchProcess, KeyError):
            pids = peer.pids(names)
            if all(processes.alive(psutil.Process(pid)) for pid in pids):
                return pids
        if time.monotonic() > until:
            raise TimeoutError(f"the process of {names[0]} is not found")
        time.sleep(0.002)
