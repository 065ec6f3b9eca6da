"""circus, from PyPI."""

from __future__ import annotations

import shlex
import subprocess

from bench.peers import install
from bench.peers.peer import Child, Peer, wait_for_file


class Circus(Peer):
    name, key = "circus", "circus"
    setting = "`respawn` is on by default; `check_delay` 5 s, `warmup_delay` 0"

    def install(self) -> str:
        packages = ("circus==0.19.0", "pyzmq==27.3.0", "tornado==6.6.1", "psutil==7.2.2")
        self._bin = install.venv("circus", *packages)
        return subprocess.check_output([self._bin / "circusd", "--version"], text=True).strip()

    def begin(self, children: list[Child]) -> None:
        self.folder.mkdir(exist_ok=True)
        lines = ["[circus]", "pidfile = circus.pid"]
        lines += [
            f"endpoint = ipc://{self.folder}/ask",
            f"pubsub_endpoint = ipc://{self.folder}/pub",
        ]
        for child in children:
            lines += [f"[watcher:{child.name}]", f"cmd = {shlex.join(child.argv)}"]
        (self.folder / "circus.ini").write_text("\n".join(lines) + "\n")
        (self.folder / "circus.pid").unlink(missing_ok=True)
        self.launch(str(self._bin / "circusd"), "circus.ini")
        wait_for_file(self.folder / "circus.pid")
