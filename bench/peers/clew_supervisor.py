"""clew as a supervisor among others: the same children as agents of its own config, or its built-in agent.

A built-in agent cannot be told to write to the pipe; when the daemon's log says that it is ready (its `hello` was
recorded and answered), the bench says so for it, with the time at which it read the line: a little late, never early.
What such an agent waits for is its model: a port that takes its request and never answers.
"""

from __future__ import annotations

import importlib.metadata
import json
import socket
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

from bench.peers.peer import CHILD, Child, Peer

if TYPE_CHECKING:
    from pathlib import Path

    import psutil
    from bench.peers.said import Said

READY_S = 60.0
COMMON = """\
[daemon]
max_workers = 500
[limits]
llm_calls = 500
[sandbox]
"""


class Clew(Peer):
    name, key = "clew", "clew"
    watcher = "guard"
    setting = (
        "as installed, with room for all workers; the first crash in a window restarts at once"
    )

    def __init__(self, folder: Path, said: Said) -> None:
        super().__init__(folder, said)
        self._pids: dict[str, int] = {}
        self._names: dict[str, str] = {}
        self._ready, self._ended = threading.Event(), threading.Event()

    def install(self) -> str:
        return importlib.metadata.version("clew")

    def config(self, children: list[Child]) -> str:
        """An agent for each child: its very command line, as an agent with tools of its own."""
        tables = [COMMON + f'read = ["{CHILD.parent}"]', f'write = ["{self.said.path.parent}"]']
        for child in children:
            tables.append(f'[agents.{child.name}]\nkind = "command"\nown_tools = true')
            tables.append(f"command = {json.dumps(child.argv)}")
        return "\n".join(tables) + "\n"

    def agent(self, child: Child) -> str:
        """The table of the config that a child's goal names."""
        return child.name

    def begin(self, children: list[Child]) -> None:
        home = self.fresh("home")
        (home / "inbox").mkdir(parents=True)
        (home / "config.toml").write_text(self.config(children))
        self._ready, self._ended = threading.Event(), threading.Event()
        self._launch(home)
        if not self._ready.wait(READY_S) or self._ended.is_set():
            raise TimeoutError("the daemon is not ready")
        for child in children:
            goal = f"---\nagent: {self.agent(child)}\n---\n# {child.name}\n\nWait.\n"
            part = home / f"{child.name}.part"
            part.write_text(goal)
            part.rename(home / "inbox" / f"{child.name}.md")

    def pids(self, names: list[str]) -> list[int]:
        return [self._pids[name] for name in names]

    def _is_child(self, process: psutil.Process) -> bool:
        return process.pid in self._pids.values()

    def _launch(self, home: Path) -> None:
        command = [sys.executable, "-m", "clew_daemon", "--home", str(home), "run"]
        env = {"CLEW_LOG__FORMAT": "json"}
        self.launch(*command, stdout=subprocess.PIPE, **env)
        threading.Thread(target=self._follow, daemon=True).start()

    def _follow(self) -> None:
        """Read the log as it is written."""
        assert self.process is not None
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                at_s = time.monotonic()
                if b'"worker.' in line or b'"goal.accepted"' in line or b'"daemon.ready"' in line:
                    self._hear(json.loads(line), at_s)
        self._ended.set()
        self._ready.set()  # nobody need wait for it any more

    def _hear(self, line: dict, at_s: float) -> None:
        match line["event"]:
            case "daemon.ready":
                self._ready.set()
            case "goal.accepted":
                self._names[line["goal"]] = line["file"].removesuffix(".md")
            case "worker.started":
                self._pids[self._names[line["goal"]]] = line["pid"]
            case "worker.ready":
                self.ready(self._names[line["goal"]], at_s)

    def ready(self, name: str, at_s: float) -> None:
        """A command says itself that it is ready, in the same moment and in the same way as everywhere."""


class ClewBuiltIn(Clew):
    _model: socket.socket | None = None

    name, key = "clew, built-in agent", "clew-built-in"
    setting = "as above; the agent is forked from the nursery, with all that it needs imported"
    bare = False

    def config(self, _: list[Child]) -> str:
        self._model = socket.create_server(("127.0.0.1", 0), backlog=4096)  # and nobody accepts
        url = f"http://127.0.0.1:{self._model.getsockname()[1]}/v1"
        agent = (
            f'kind = "llm"\nbase_url = "{url}"\nmodel = "none"\nmode = "tools"\ntimeout_s = 3600'
        )
        return f"{COMMON}[agents.waiting]\n{agent}\n"

    def agent(self, _: Child) -> str:
        return "waiting"

    def ready(self, name: str, at_s: float) -> None:
        self.said.say(name, self._pids[name], at_s)

    def stop(self) -> None:
        super().stop()
        if self._model:
            self._model.close()
