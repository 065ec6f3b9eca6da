"""Programs that do durable steps as the bench orders them: started, killed and started again.

Knows how each peer is started and which files it writes; `durable_measures` knows what is measured.
"""

import json
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import psutil
from bench.home import Home, bench_agent, disk_folder, wait_for
from bench.peers.install import ENV, MissingError, venv
from bench.processes import alive, command, tree

HERE = Path(__file__).parent
WAIT_S = 120.0
TIMES = 500  # how often an agent tries what fails each time
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


class Script:
    """A peer's program, in the peer's own environment."""

    DATABASE, EFFECTS, LOG = "*.sqlite*", "*.effects", "log"

    def __init__(self, folder: Path, workflows: int, words: tuple[str, ...]) -> None:
        self.folder, self.workflows = folder, workflows
        python, script, *self._options = words
        self._command = [python, str(HERE / script), str(folder)]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, port: int) -> None:
        line = [*self._command, str(port), str(self.workflows), *self._options]
        streams: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stderr": subprocess.STDOUT}
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(line, cwd=self.folder, stdout=log, **streams)

    def kill(self) -> None:
        if self._process:
            self._process.kill()
            self._process.wait(WAIT_S)

    def processes(self) -> list[psutil.Process]:
        assert self._process
        return tree(self._process.pid)

    agents = processes


class ClewProgram:
    """A daemon on a home of its own, with a goal for each workflow and an agent with its own tools."""

    DATABASE, EFFECTS = "state/ledger.db*", "workspaces/*/*.effects"
    LOG = "daemon.log"

    def __init__(
        self, folder: Path, workflows: int, config: str = CONFIG, mode: str = "durable"
    ) -> None:
        self.folder, self.workflows, self._config, self._mode = folder, workflows, config, mode
        self._home = Home(folder, config)

    def start(self, port: int) -> None:
        if self._home.daemon is None:
            agent = bench_agent(self._mode, str(port), str(TIMES))
            self._home = Home(self.folder, self._config + agent)
            for index in range(self.workflows):
                goal = f"---\nagent: bench\n---\n# Work {index}\nsteps\n"
                self._home.drop(f"work-{index}.md", goal)
        self._home.launch(stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT)

    def kill(self) -> None:
        """SIGKILL, and wait until its workers have ended, too."""
        if self._home.daemon and self._home.daemon.poll() is None:
            left = self.processes()
            self._home.stop(signal.SIGKILL)
            wait_for(lambda: not any(map(alive, left)), every_s=0.002)

    def processes(self) -> list[psutil.Process]:
        return tree(self._home.pid)

    def agents(self) -> list[psutil.Process]:
        """Return the processes that do the steps, without those around them."""
        return [one for one in self.processes() if "agents.py" in " ".join(command(one))]

    def asked(self, *arguments: str) -> Any:
        """Return what the command line says of this home."""
        line = self._home.command(*arguments, "--json")
        return json.loads(subprocess.run(line, check=True, capture_output=True, timeout=60).stdout)


Program = Script | ClewProgram


@dataclass(frozen=True, slots=True)
class Way:
    """One of the ways of a peer to do a step."""

    peer: str
    name: str
    make: Callable[[Path, int], Program]


class Running:
    """A program and the connections of its workflows."""

    def __init__(self, way: Way, program: Program) -> None:
        self.way, self.program = way, program
        self.wires: list[StepWire] = []
        self._server = socket.create_server(("127.0.0.1", 0), backlog=128)

    def start(self) -> float:
        """Start the program, and return the moment of its launch."""
        launched = time.monotonic()
        self.program.start(self._server.getsockname()[1])
        return launched

    def connect(self) -> None:
        """Wait until every workflow can begin its next step."""
        self.wires = [self.accept() for _ in range(self.program.workflows)]

    def accept(self) -> StepWire:
        if wire := self.accept_within(WAIT_S):
            return wire
        raise TimeoutError(f"{self.way.name} does not begin:\n{self.log()}")

    def accept_within(self, patience_s: float) -> StepWire | None:
        """Return one workflow's connection; None if none comes, or the program has ended."""
        until = time.monotonic() + patience_s
        while self.program.processes():
            self._server.settimeout(min(1.0, max(0.01, until - time.monotonic())))
            with suppress(TimeoutError):
                return StepWire(self._server.accept()[0])
            if time.monotonic() > until:
                break
        return None

    def steps(self, count: int) -> list[float]:
        """Do steps in each workflow; return how long each took, in seconds."""
        try:
            for wire in self.wires:
                wire.ask(count)
            return [took for wire in self.wires for took in wire.hear("took_s")["took_s"]]
        except OSError as error:
            end = self.log()
            raise RuntimeError(f"{self.way.name} did not do its steps: {error}\n{end}") from None

    def kill(self) -> None:
        """SIGKILL, and wait until all of it has ended."""
        self.program.kill()
        for wire in self.wires:
            wire.close()
        self.wires = []

    def end(self) -> None:
        self.kill()
        self._server.close()

    def size_mb(self) -> float:
        return sum(path.stat().st_size for path in self.files(self.program.DATABASE)) / 1e6

    def files(self, pattern: str) -> list[Path]:
        return list(self.program.folder.glob(pattern))

    def log(self) -> str:
        """Return the end of its log."""
        return "".join(one.read_text(errors="replace") for one in self.files(self.program.LOG))[
            -2000:
        ]


PACKAGES = {"dbos": ("dbos",), "langgraph": ("langgraph", "langgraph-checkpoint-sqlite")}
WAYS = {
    "dbos": ("DBOS", ""),
    "dbos-wal": ("DBOS, its file set to WAL by hand", "--wal"),
    "dbos-two": ("DBOS, the decision a step of its own", "--decide"),
    "langgraph": ("LangGraph, growing list", ""),
    "langgraph-delta": ("LangGraph, DeltaChannel", "--state delta"),
    "langgraph-constant": ("LangGraph, no list", "--state constant"),
    "langgraph-two": (
        "LangGraph, no list, the decision a node of its own",
        "--state constant --decide",
    ),
}
NAMES = {"clew": "clew", **{way: name for way, (name, _) in WAYS.items()}}


def python(peer: str) -> str:
    return str(ENV / peer / "bin" / "python")


def ways(peers: list[str]) -> tuple[dict[str, Way], dict[str, str]]:
    """Return what can be measured here, and why the rest cannot."""
    found = {"clew": Way("clew", "clew", ClewProgram)} if "clew" in peers else {}
    missing: dict[str, str] = {}
    for peer, packages in PACKAGES.items():
        if peer in peers:
            try:
                venv(peer, *packages)
            except MissingError as error:
                missing[peer] = str(error)
    for way, (name, options) in WAYS.items():
        peer = way.partition("-")[0]
        if peer in peers and peer not in missing:
            words = (python(peer), f"steps_{peer}.py", *options.split())
            found[way] = Way(peer, name, partial(Script, words=words))
    return found, missing


@contextmanager
def running(
    wanted: Mapping[str, Way], many: Mapping[str, int] | None = None
) -> Iterator[dict[str, Running]]:
    """Start programs in folders of their own, with a workflow or `many`; end them on every path."""
    with ExitStack() as stack:
        everyone = {}
        for name, way in wanted.items():
            workflows = many[name] if many else 1
            folder = stack.enter_context(disk_folder())
            everyone[name] = one = Running(way, way.make(folder, workflows))
            stack.callback(one.end)
            one.start()
        for one in everyone.values():
            one.connect()
        yield everyone
