"""The main job, done in given surroundings: a goal of five steps whose worker and daemon are killed on the way.

`Ways` says how daemon and commands are started, `Placed` is a home with them, and `main_job` is the job.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
from dataclasses import dataclass, field
from pathlib import Path

from harness import DEADLINE_S, Clew, runbook, toml
from of_proc import children

GATES = ("first", "second")
STEPS = [
    "echo 0 >> trace",
    f"until test -e {GATES[0]}; do /bin/sleep 0.05; done",
    "echo 2 >> trace",
    f"until test -e {GATES[1]}; do /bin/sleep 0.05; done",
    "echo 4 >> trace",
]
DONE = ["0", "2", "4"]


@dataclass
class Ways:
    """How daemon and client are started: what stands before their command line, and where they are."""

    daemon: tuple[str, ...] = ()
    client: tuple[str, ...] = ()
    folder: str = "."
    """Below the test's folder: where home, workspace and log are."""
    home: str | None = None
    """What `--home` says, where that is not the home's own path."""
    xdg: Path | None = None
    """The user's HOME, where the folders are those of XDG; then there is no `--home`."""
    owner: int | None = None
    """Whose all folders are to be."""
    config: dict = field(default_factory=dict)


class Placed(Clew):
    """A home in given surroundings."""

    def __init__(self, base: Path, ways: Ways) -> None:
        self.ways = ways
        super().__init__((base / ways.folder), {"restart.stop_grace_s": 0.3, **ways.config})
        self.out = self.folder / "out"
        self.place = self.folder / "ws"
        self.place.mkdir(exist_ok=True)
        self.outbox = self.home / "outbox"
        self.options = [] if ways.xdg else ["--home", ways.home or str(self.home)]
        self.configure({"log.file": str(self.log)})
        if ways.xdg:
            self.outbox = ways.xdg / ".local/share/clew/outbox"
            folder = ways.xdg / ".config/clew"
            folder.mkdir(parents=True)
            (self.home / "config.toml").rename(folder / "config.toml")
        if ways.owner is not None:
            for path in (base, *base.rglob("*")):
                os.chown(path, ways.owner, ways.owner)

    def start(self, *, ready: bool = True, under: tuple = (), **env: str) -> Placed:
        super().start(ready=ready, under=(*self.ways.daemon, *under), **env)
        return self

    def clew(self, *args: str, code: int = 0, given: str = "", under: tuple = ()) -> str:
        said = super().clew(*args, code=code, given=given, under=(*self.ways.client, *under))
        assert "Traceback" not in said, said
        return said

    def _tail(self) -> str:
        said = self.out.read_text(errors="replace")[-3000:] if self.out.exists() else ""
        logged = self.log.read_text(errors="replace")[-4000:] if self.log.exists() else "no log"
        return f"{logged}\n-- printed:\n{said}"

    def hand_in(self, steps: list[str] = STEPS, **front: object) -> str:
        """Submit a goal of steps by `clew submit`, and wait until it is accepted; its id."""
        since = self.now()
        file = self.folder / "submitted.md"
        front = {"on_interrupt": "retry", "workspace": toml(str(self.place)), **front}
        file.write_text(runbook(*steps, **front))
        self.clew("submit", str(file))
        return str(self.wait("goal.accepted", since=since)["goal"])

    def shown(self, goal: str) -> dict:
        """What `clew status GOAL --json` says of a goal."""
        return dict(json.loads(self.clew("status", goal, "--json"))["goal"])

    def works_at(self, goal: str, gate: str, epoch: int) -> None:
        """Wait until a worker of that epoch stands before a gate."""
        self.until(
            lambda: any(
                gate in e["signature"] for e in self.seen("action.allowed", goal=goal, epoch=epoch)
            ),
            f"epoch {epoch} at the {gate} gate",
        )

    def open_gate(self, gate: str) -> None:
        (self.place / gate).touch()

    def trace(self) -> list[str]:
        return (self.place / "trace").read_text().splitlines()

    def agent_pid(self, goal: str) -> int:
        """The goal's agent, by the number that it has for us and not for its daemon."""
        self.wait("worker.started", goal=goal)
        named = int(self.seen("worker.started", goal=goal)[-1]["pid"])
        depth = len(pids_of(self.daemon_pid()))
        return next(pid for pid in self._tree() if pids_of(pid)[depth - 1 : depth] == [named])

    def daemon_pid(self) -> int:
        """The daemon itself, which may be a child of the program that it was started by."""
        own = int(self.seen("daemon.started")[-1]["pid"])
        return next(pid for pid in self._tree() if pids_of(pid)[-1:] == [own])

    def _tree(self) -> list[int]:
        assert self.daemon is not None
        return [self.daemon.pid, *descendants(self.daemon.pid)]

    def stop(self, signum: int = signal.SIGTERM) -> int:
        assert self.daemon is not None
        os.kill(self.daemon_pid(), signum)
        code = self.daemon.wait(DEADLINE_S)
        self.assert_alone()
        return code

    def report(self, goal: str) -> str:
        path = self.outbox / f"{goal}.md"
        self.until(path.exists, f"the report {path}")
        return path.read_text()


def main_job(clew: Placed, *, reported: bool = True) -> str:
    """Do the main job, and see that nothing is lost and nothing is done twice; the goal's id."""
    clew.start()
    goal = clew.hand_in()
    clew.works_at(goal, "first", epoch=1)
    assert clew.shown(goal)["subtask"] == "Step 1"

    os.kill(clew.agent_pid(goal), signal.SIGKILL)
    clew.works_at(goal, "first", epoch=2)
    shown = clew.shown(goal)
    assert (shown["subtask"], shown["restarts"]) == ("Step 1", 1), clew._tail()

    clew.open_gate("first")
    clew.works_at(goal, "second", epoch=2)
    clew.clew("pause", "--now", goal)
    assert clew.shown(goal)["status"] == "waiting"
    clew.clew("resume", goal)
    clew.works_at(goal, "second", epoch=3)

    clew.kill()
    offline = json.loads(clew.clew("status", goal, "--json"))
    assert (offline["daemon"], offline["goal"]["subtask"]) == (None, "Step 3"), offline
    clew.start()
    clew.works_at(goal, "second", epoch=4)
    clew.open_gate("second")
    clew.wait("goal.completed", goal=goal)
    assert clew.trace() == DONE
    _told(clew, goal, reported=reported)

    other = clew.hand_in(["until test -e never; do /bin/sleep 0.05; done"], title="Cancelled")
    clew.wait("action.allowed", goal=other)
    clew.clew("cancel", other)
    assert clew.shown(other)["status"] == "cancelled"
    assert clew.stop() == 0
    assert json.loads(clew.clew("verify", "--json"))["ok"]
    return goal


def _told(clew: Placed, goal: str, *, reported: bool) -> None:
    """Status, history and report say what was done."""
    assert clew.shown(goal)["status"] == "completed"
    actions = json.loads(clew.clew("history", goal, "--json"))["actions"]
    results: dict[str, list[str]] = {}
    for action in actions:
        results.setdefault(action["args"]["cmd"], []).append(action["result"])
    assert [results[cmd] for cmd in STEPS[::2]] == [["success"]] * 3, results
    assert results[STEPS[1]] == ["interrupted", "success"], results
    assert results[STEPS[3]][-1] == "success", results
    assert set(results[STEPS[3]][:-1]) == {"interrupted"}, results
    if reported:
        assert "status: **completed" in clew.report(goal)


def descendants(pid: int) -> list[int]:
    """All processes below one."""
    found: list[int] = []
    for child in children(pid):
        found += [child, *descendants(child)]
    return found


def pids_of(pid: int) -> list[int]:
    """The numbers of a process, from this PID namespace to its own."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("NSpid:"):
                return [int(word) for word in line.split()[1:]]
    return []
