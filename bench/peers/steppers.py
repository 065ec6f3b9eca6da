"""Programs that do durable steps as the bench orders them: started, killed and started again.

Knows how each peer is started and which files it writes; `durable` knows what is measured.
"""

import json
import signal
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import psutil
from bench.home import Home, bench_agent, disk_folder, wait_for
from bench.peers.install import ENV, MissingError, venv
from bench.processes import alive, command, tree

HERE = Path(__file__).parent
WAIT_S = 120.0
CONFIG = """
[daemon]
max_workers = 64
settle_s = 0.02
[restart]
max_restarts = 1000
"""


class StepWire:
    """One workflow's connection, on the bench's side."""

    def __init__(self, connected: socket.socket) -> None:
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connected.settimeout(WAIT_S)
        self._socket, self._file = connected, connected.makefile("r")
        self.workflow = self.hear("workflow")["workflow"]
        self.skipped: list[dict[str, Any]] = []

    def ask(self, steps: int, *, tell: bool = False) -> None:
        self._socket.sendall((json.dumps({"steps": steps, "tell": tell}) + "\n").encode())

    def hear(self, key: str) -> dict[str, Any]:
        """Wait for the next message with this key; messages before it go to `skipped`."""
        while line := self._file.readline():
            message: dict[str, Any] = json.loads(line)
            if key in message:
                return message
            self.skipped.append(message)
        raise ConnectionError(f"a program ended before it sent {key!r}")

    def rest(self) -> list[dict[str, Any]]:
        """Return the messages until the program ends."""
        messages = []
        with suppress(OSError, ValueError):  # it was cut off within a message
            while line := self._file.readline():
                messages.append(json.loads(line))
        return messages

    def close(self) -> None:
        self._file.close()
        self._socket.close()


class StepProgram(ABC):
    """A program in a folder of its own, and the connections of its workflows."""

    DATABASE, EFFECTS, LOG = "*.sqlite*", "*.effects", "log"

    def __init__(self, folder: Path, workflows: int) -> None:
        self.folder, self.workflows = folder, workflows
        self.wires: list[StepWire] = []
        self._server = socket.create_server(("127.0.0.1", 0), backlog=128)
        self._port = str(self._server.getsockname()[1])

    @abstractmethod
    def launch(self) -> None:
        """Launch its process, which connects to the bench for each workflow."""

    @abstractmethod
    def end_processes(self) -> None:
        """SIGKILL it, and wait until all of it has ended."""

    @abstractmethod
    def processes(self) -> list[psutil.Process]:
        """Return what runs of it; the first one writes the record."""

    def connect(self) -> None:
        """Wait until every workflow can begin its next step."""
        self.wires = [self.accept() for _ in range(self.workflows)]

    def accept(self) -> StepWire:
        """Return one workflow's connection."""
        until = time.monotonic() + WAIT_S
        self._server.settimeout(1.0)
        while self.processes() and time.monotonic() < until:
            with suppress(TimeoutError):
                return StepWire(self._server.accept()[0])
        raise TimeoutError(f"it does not begin:\n{self.log()}")

    def steps(self, count: int) -> list[float]:
        """Do steps in each workflow; return how long each took, in seconds."""
        try:
            for wire in self.wires:
                wire.ask(count)
            return [took for wire in self.wires for took in wire.hear("took_s")["took_s"]]
        except OSError as error:
            raise RuntimeError(f"it did not do its steps: {error}\n{self.log()}") from None

    def kill(self) -> None:
        self.end_processes()
        for wire in self.wires:
            wire.close()
        self.wires = []

    def end(self) -> None:
        self.kill()
        self._server.close()

    def size_mb(self) -> float:
        return sum(path.stat().st_size for path in self.folder.glob(self.DATABASE)) / 1e6

    def log(self) -> str:
        """Return the end of its log."""
        path = self.folder / self.LOG
        return path.read_text(errors="replace")[-2000:] if path.exists() else ""


class ScriptProgram(StepProgram):
    """A peer's program, in the peer's own environment."""

    def __init__(self, folder: Path, workflows: int, peer: str, options: str) -> None:
        super().__init__(folder, workflows)
        script = [python(peer), str(HERE / f"steps_{peer}.py"), str(folder)]
        self._command = [*script, self._port, str(workflows), *options.split()]
        self._process: subprocess.Popen[bytes] | None = None

    def launch(self) -> None:
        with (self.folder / self.LOG).open("ab") as log:
            self._process = subprocess.Popen(
                self._command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def end_processes(self) -> None:
        if self._process:
            self._process.kill()
            self._process.wait(WAIT_S)

    def processes(self) -> list[psutil.Process]:
        return tree(self._process.pid) if self._process else []


class ClewProgram(StepProgram):
    """A daemon on a home of its own, with a goal for each workflow and an agent with its own tools."""

    DATABASE, EFFECTS, LOG = "state/ledger.db*", "workspaces/*/*.effects", "daemon.log"

    def __init__(self, folder: Path, workflows: int, config: str = CONFIG) -> None:
        super().__init__(folder, workflows)
        self._home = Home(folder, config + bench_agent("durable", self._port))
        for index in range(workflows):
            goal = f"---\nagent: bench\n---\n# Work {index}\nsteps\n"
            self._home.drop(f"work-{index}.md", goal)

    def launch(self) -> None:
        self._home.launch(stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT)

    def end_processes(self) -> None:
        if self._home.daemon and self._home.daemon.poll() is None:
            left = self.processes()
            self._home.stop(signal.SIGKILL)
            wait_for(lambda: not any(map(alive, left)), every_s=0.002)

    def processes(self) -> list[psutil.Process]:
        return tree(self._home.pid)

    def agent(self) -> psutil.Process:
        """Return the process that does the steps, without those around it."""
        (agent,) = (p for p in self.processes() if "agents.py" in " ".join(command(p)))
        return agent


Way = Callable[[Path, int], StepProgram]
"""Makes one of a peer's programs in a folder, with a number of workflows."""

PACKAGES = {"dbos": ("dbos",), "langgraph": ("langgraph", "langgraph-checkpoint-sqlite")}
OPTIONS = {
    "dbos": "",
    "dbos-wal": "--wal",
    "dbos-two": "--decide",
    "langgraph": "",
    "langgraph-delta": "--state delta",
    "langgraph-constant": "--state constant",
    "langgraph-two": "--state constant --decide",
}


def python(peer: str) -> str:
    return str(ENV / peer / "bin" / "python")


def ways(peers: list[str]) -> tuple[dict[str, Way], dict[str, str]]:
    """Return what can be measured here, and why the rest cannot."""
    found: dict[str, Way] = {"clew": ClewProgram} if "clew" in peers else {}
    missing: dict[str, str] = {}
    for peer in PACKAGES.keys() & set(peers):
        try:
            venv(peer, *PACKAGES[peer])
        except MissingError as error:
            missing[peer] = str(error)
    for way, options in OPTIONS.items():
        peer = way.partition("-")[0]
        if peer in peers and peer not in missing:
            found[way] = partial(ScriptProgram, peer=peer, options=options)
    return found, missing


@contextmanager
def running(
    wanted: Mapping[str, Way], many: Mapping[str, int] | None = None
) -> Iterator[dict[str, StepProgram]]:
    """Start programs in folders of their own, with a workflow or `many`; end them on every path."""
    with ExitStack() as stack:
        programs = {}
        for name, way in wanted.items():
            folder = stack.enter_context(disk_folder())
            programs[name] = one = way(folder, many[name] if many else 1)
            stack.callback(one.end)
            one.launch()
        for one in programs.values():
            one.connect()
        yield programs
