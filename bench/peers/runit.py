"""runit, from Debian's package, unpacked."""

from __future__ import annotations

import os
import shlex
import signal
from typing import TYPE_CHECKING

from bench.peers import install
from bench.peers.peer import Child, Peer

if TYPE_CHECKING:
    from pathlib import Path


def services(folder: Path, children: list[Child], before: str = "") -> Path:
    """Write a folder of services, each with a `run` script, as runit and s6 read it."""
    for child in children:
        service = folder / child.name
        service.mkdir(parents=True)
        run = service / "run"
        run.write_text(f"#!/bin/sh\n{before}exec {shlex.join(child.argv)}\n")
        run.chmod(0o755)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


class Runit(Peer):
    name, key = "runit", "runit"
    watcher = "runsv"
    setting = "always restarts; a service that lived under a second waits one"

    def install(self) -> str:
        self._bin = install.debian("runit", "runit") / "usr" / "bin"
        return install.debian_version("runit", "runit")

    def begin(self, children: list[Child]) -> None:
        found = services(self.fresh("service"), children)
        path = f"{self._bin}:{os.environ['PATH']}"
        self.launch(str(self._bin / "runsvdir"), str(found), PATH=path)

    def ask_to_end(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGHUP)  # and ends its services
