"""pm2, from npm, with a home of its own."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import psutil
from bench.peers import install, processes
from bench.peers.peer import Child, Peer, wait_for_file

if TYPE_CHECKING:
    from pathlib import Path

CLI_S = 120


class Pm2(Peer):
    name, key = "pm2", "pm2"
    setting = (
        "`autorestart` is on by default; no back-off unless `exp_backoff_restart_delay` is set"
    )

    def install(self) -> str:
        self._pm2 = install.npm("pm2", "pm2@7.0.4") / "pm2"
        package = self._pm2.resolve().parents[1] / "package.json"
        return str(json.loads(package.read_text())["version"])

    def begin(self, children: list[Child]) -> None:
        self.fresh("pm2")
        apps = [
            {
                "name": child.name,
                "script": child.argv[0],
                "args": child.argv[1:],
                "interpreter": "none",
                "cwd": str(self.folder),
            }
            for child in children
        ]
        (self.folder / "apps.json").write_text(json.dumps({"apps": apps}))
        self._do("ping")  # starts the daemon
        wait_for_file(self._pid_file)
        if apps:
            self._do("start", "apps.json")

    @property
    def _pid_file(self) -> Path:
        return self.folder / "pm2" / "pm2.pid"

    def top(self) -> psutil.Process:
        return psutil.Process(self._pid())

    def _pid(self) -> int:
        return int(self._pid_file.read_text())

    def stop(self) -> None:
        if self.process is None:
            return
        left = processes.tree(self._pid()) if self._pid_file.exists() else []
        try:
            if left:
                self._do("kill")
        finally:
            processes.end(one for one in left if processes.alive(one))
            self.process = None

    def _do(self, *words: str) -> None:
        env = {"PM2_HOME": str(self.folder / "pm2"), "PM2_DISABLE_VERSION_CHECK": "true"}
        self.launch(str(self._pm2), *words, **env)
        assert self.process is not None
        if self.process.wait(CLI_S):
            raise OSError(f"pm2 {words[0]} failed: {self.tail()}")
