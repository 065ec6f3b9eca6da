"""supervisord, from PyPI."""

from __future__ import annotations

import shlex
import subprocess

from bench.peers import install
from bench.peers.peer import Child, Peer, wait_for_file


class Supervisord(Peer):
    name, key = "supervisord", "supervisord"
    setting = "`autorestart=true`; by default `startsecs=1`, `startretries=3`; one tick a second"

    def install(self) -> str:
        self._bin = install.venv("supervisord", "supervisor==4.3.0", "setuptools<81")
        return subprocess.check_output([self._bin / "supervisord", "-v"], text=True).strip()

    def begin(self, children: list[Child]) -> None:
        self.folder.mkdir(exist_ok=True)
        lines = ["[supervisord]", "nodaemon=true", f"childlogdir={self.folder}"]
        lines += ["logfile=supervisord.log", "pidfile=supervisord.pid"]
        for child in children:
            command = shlex.join(child.argv)
            lines += [f"[program:{child.name}]", f"command={command}", "autorestart=true"]
        (self.folder / "conf").write_text("\n".join(lines) + "\n")
        (self.folder / "supervisord.pid").unlink(missing_ok=True)
        self.launch(str(self._bin / "supervisord"), "-c", "conf")
        wait_for_file(self.folder / "supervisord.pid")
