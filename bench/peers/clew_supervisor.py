"""clew as a supervisor among others: the same children as agents of its own config, or its built-in agent.

The bench reports for a built-in agent when the daemon's log says that it is ready (its `hello` was recorded and
answered): a little late, never early. Such an agent waits for its model: a port that takes its request and never
answers.
"""

import json
import socket
import time

import psutil
from bench.home import Home, wait_for
from bench.peers.peer import CHILD, ChildSpec, Peer, fresh

COMMON = "[daemon]\nmax_workers = 500\n[limits]\nllm_calls = 500\n[sandbox]\n"


class ClewPeer(Peer):
    """Each child's very command line as an agent with tools of its own."""

    home: Home

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
        self.home = Home(fresh(self.folder / "home"), self.config(children))
        with self.home.log.open("ab") as log:
            self.launch(*self.home.command("run"), stdout=log.fileno(), CLEW_LOG__FORMAT="json")
        wait_for(lambda: self.home.count("daemon.ready"))
        for child in children:
            goal = f"---\nagent: {self.agent(child)}\n---\n# {child.name}\n\nWait.\n"
            self.home.drop(f"{child.name}.md", goal)

    def pids(self, names: list[str]) -> list[int]:
        workers = self.workers()
        return [workers[name] for name in names]

    def workers(self) -> dict[str, int]:
        """Return the newest process of each child, by the daemon's log."""
        names = self.names()
        return {names[one["goal"]]: one["pid"] for one in self.home.events("worker.started")}

    def names(self) -> dict[str, str]:
        """Return the children's names by goal."""
        accepted = self.home.events("goal.accepted")
        return {one["goal"]: one["file"].removesuffix(".md") for one in accepted}

    def _is_child(self, process: psutil.Process) -> bool:
        return process.pid in self.workers().values()


class BuiltInPeer(ClewPeer):
    """The built-in agent, which is always a loaded child."""

    _model: socket.socket | None = None
    _lines = 0  # of the log, as of the last report

    def config(self, _: list[ChildSpec]) -> str:
        self._model = socket.create_server(("127.0.0.1", 0), backlog=4096)  # it never accepts
        url = f"http://127.0.0.1:{self._model.getsockname()[1]}/v1"
        model = f'base_url = "{url}"\nmodel = "none"\nmode = "tools"\ntimeout_s = 3600\n'
        return f'{COMMON}[agents.waiting]\nkind = "llm"\n{model}'

    def agent(self, _: ChildSpec) -> str:
        return "waiting"

    def begin(self, children: list[ChildSpec]) -> None:
        super().begin(children)
        self._lines = 0
        self.pipe.reporter = self._report

    def _report(self) -> None:
        """Report for the agents that became ready since the last time."""
        ready = self.home.events("worker.ready", self._lines)
        self._lines = self.home.lines
        names, workers = (self.names(), self.workers()) if ready else ({}, {})
        monotonic_s = time.monotonic() - time.time()
        for one in ready:
            name = names[one["goal"]]
            self.pipe.report(name, workers[name], one["at"] + monotonic_s)

    def stop(self) -> None:
        self.pipe.reporter = None
        super().stop()
        if self._model:
            self._model.close()
