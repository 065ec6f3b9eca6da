"""What becomes of a child, and of its own children, when somebody around it is killed: facts, seen once each.

Every supervisor has four children: three with a child of their own (a `sleep`), one that prints.
"""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

import psutil
from bench.peers import processes

if TYPE_CHECKING:
    from bench.peers.measures import Bench
    from bench.peers.peer import Peer

LOOK_AFTER_S, AGAIN_S = 2.0, 8.0  # again: circus looks every 5 s, and so does runsvdir
FIRST, SECOND, THIRD = "parent0", "parent1", "parent2"


class Fate:
    """One supervisor on its way through all this; each step is done for all before the next."""

    def __init__(self, bench: Bench, peer: Peer) -> None:
        self.said, self.peer = bench.said, peer
        self.facts = bench.facts[peer.key]
        self.old: dict[str, list[psutil.Process]] = {}
        self.killed_s = 0.0

    def kill_worker(self) -> None:
        self._look(FIRST)
        self.old[FIRST][0].kill()

    def see_grandchild(self) -> None:
        self.facts["a worker's child, the worker killed"] = _fate(self.old[FIRST][1:])

    def kill_watcher(self) -> None:
        """Kill the process between the supervisor and a child, where there is one."""
        self._look(SECOND)
        parent = self.old[SECOND][0].parent()
        self.killed_s = time.monotonic()
        if self.peer.watcher and parent:
            parent.kill()

    def see_worker(self) -> None:
        if not self.peer.watcher:
            return
        again = self.said.when(self._name(SECOND)) > self.killed_s
        lives = processes.alive(self.old[SECOND][0])
        self.facts["a worker, its watcher killed"] = (
            ("lives on" if lives else "ends")
            + (", and a second one is started" if lives and again else "")
            + (", and is started again" if again and not lives else "")
        )

    def kill_supervisor(self) -> None:
        for name in (THIRD, "talker0"):
            self._look(name)
        self.peer.top().kill()

    def see_orphans(self) -> None:
        self.facts["workers, the supervisor killed"] = _fate(self.old[THIRD][:1])
        self.facts["their children, the supervisor killed"] = _fate(self.old[THIRD][1:])
        self.facts["one that prints, the supervisor killed"] = _fate(self.old["talker0"])

    def kill_orphan(self) -> None:
        self.killed_s = time.monotonic()
        with contextlib.suppress(psutil.NoSuchProcess):
            self.old[THIRD][0].kill()

    def see_restart(self) -> None:
        again = self.said.when(self._name(THIRD)) > self.killed_s
        self.facts["restarted after that"] = "yes" if again else "no"

    def _look(self, name: str) -> None:
        """Take down a child's process and those beneath it, as they are now."""
        (pid,) = self.peer.pids([self._name(name)])
        self.old[name] = processes.tree(pid)

    def _name(self, name: str) -> str:
        return f"{self.peer.key}-{name}"


def _fate(seen: list[psutil.Process]) -> str:
    living = sum(processes.alive(one) for one in seen)
    return "lives on" if living else "ends" if seen else "not seen"


STEPS = (
    ("kill_worker", "see_grandchild", LOOK_AFTER_S),
    ("kill_watcher", "see_worker", AGAIN_S),
    ("kill_supervisor", "see_orphans", LOOK_AFTER_S),
    ("kill_orphan", "see_restart", AGAIN_S),
)


def fates(bench: Bench) -> None:
    """Lead all supervisors that run a bare child through the steps."""
    peers = [peer for peer in bench.left() if peer.bare]
    found = []
    for peer in peers:
        with bench.dropping(peer, "started to see fates"):
            bench.start(peer, bench.children(peer, {"parent": 3, "talker": 1}))
            found.append(Fate(bench, peer))
    for kill, see, wait_s in STEPS:
        for step in (kill, see):
            for fate in found:
                with bench.dropping(fate.peer, step):
                    getattr(fate, step)()
            time.sleep(wait_s if step == kill else 0)
        found = [fate for fate in found if fate.peer.key not in bench.out]
    bench.say("fates: seen")
