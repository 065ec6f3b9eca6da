"""clew as a supervisor among others: the same children as agents of its own config, or its built-in agent.

The bench reports for a built-in agent when the daemon's log says that it is ready (its `hello` was recorded and
answered): a little late, never early. Such an agent waits for its model: a port that takes its request and never
answers.
"""

import json
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import psutil
from bench.peers.peer import CHILD, ChildSpec, Peer, Row, fresh
from bench.peers.ready import ReadyPipe

READY_S = 60.0
COMMON = "[daemon]\nmax_workers = 500\n[limits]\nllm_calls = 500\n[sandbox]\n"


class ClewPeer(Peer):
    """Each child's very command line as an agent with tools of its own."""

    def __init__(self, row: Row, folder: Path, pipe: ReadyPipe) -> None:
        super().__init__(row, folder, pipe)
        self._pids: dict[str, int] = {}
        self._names: dict[str, str] = {}
        self._ready, self._ended = threading.Event(), threading.Event()

    def config(self, children: list[ChildSpec]) -> str:
        folders = f'read = ["{CHILD.parent}"]\nwrite = ["{self.pipe.path.parent}"]\n'
        agents = [
            f'[agents.{child.name}]\nkind = "command"\nown_tools = true\n'
            f"command = {json.dumps(child.argv)}\n"
            for child in children
        ]
        return COMMON + folders + "".join(agents)

    def agent(self, child: ChildSpec) -> str:
        return child.name

    def begin(self, children: list[ChildSpec]) -> None:
        home = fresh(self.folder / "home")
        (home / "inbox").mkdir()
        (home / "config.toml").write_text(self.config(children))
        self._ready, self._ended = threading.Event(), threading.Event()
        command = [sys.executable, "-m", "clew_daemon", "--home", str(home), "run"]
        self.launch(*command, stdout=subprocess.PIPE, CLEW_LOG__FORMAT="json")
        threading.Thread(target=self._follow, daemon=True).start()
        if not self._ready.wait(READY_S) or self._ended.is_set():
            raise TimeoutError("the daemon is not ready")
        for child in children:
            part = home / f"{child.name}.part"
            part.write_text(f"---\nagent: {self.agent(child)}\n---\n# {child.name}\n\nWait.\n")
            part.rename(home / "inbox" / f"{child.name}.md")

    def pids(self, names: list[str]) -> list[int]:
        return [self._pids[name] for name in names]

    def _is_child(self, process: psutil.Process) -> bool:
        return process.pid in self._pids.values()

    def _follow(self) -> None:
        """Read the log as it is written."""
        assert self.process is not None
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                at_s = time.monotonic()
                if b'"worker.' in line or b'"goal.accepted"' in line or b'"daemon.ready"' in line:
                    self._take(json.loads(line), at_s)
        self._ended.set()
        self._ready.set()

    def _take(self, line: dict[str, Any], at_s: float) -> None:
        match line["event"]:
            case "daemon.ready":
                self._ready.set()
            case "goal.accepted":
                self._names[line["goal"]] = line["file"].removesuffix(".md")
            case "worker.started":
                self._pids[self._names[line["goal"]]] = line["pid"]
            case "worker.ready":
                self.worker_ready(self._names[line["goal"]], at_s)

    def worker_ready(self, name: str, at_s: float) -> None:
        """Nothing to do: a command reports by itself, as under every supervisor."""


class BuiltInPeer(ClewPeer):
    """The built-in agent, which is always a loaded child."""

    _model: socket.socket | None = None

    def config(self, _: list[ChildSpec]) -> str:
        self._model = socket.create_server(("127.0.0.1", 0), backlog=4096)  # it never accepts
        url = f"http://127.0.0.1:{self._model.getsockname()[1]}/v1"
        model = f'base_url = "{url}"\nmodel = "none"\nmode = "tools"\ntimeout_s = 3600\n'
        return f'{COMMON}[agents.waiting]\nkind = "llm"\n{model}'

    def agent(self, _: ChildSpec) -> str:
        return "waiting"

    def worker_ready(self, name: str, at_s: float) -> None:
        self.pipe.report(name, self._pids[name], at_s)

    def stop(self) -> None:
        super().stop()
        if self._model:
            self._model.close()
