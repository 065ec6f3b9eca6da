"""A real daemon on a throw-away home on this disk, for a bench: started, waited for, ended, gone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

WAIT_S = 60.0


def wait_for(what: Callable[[], Any], timeout_s: float = WAIT_S, every_s: float = 0.02) -> Any:
    """Ask until the answer is true and give it; raises TimeoutError."""
    until = time.monotonic() + timeout_s
    while not (found := what()):
        if time.monotonic() > until:
            raise TimeoutError(what)
        time.sleep(every_s)
    return found


class Home:
    """A home folder and its daemon."""

    def __init__(self, folder: Path, config: str) -> None:
        self.folder = folder
        self.log = folder / "daemon.log"
        (folder / "config.toml").write_text(config)
        self.daemon: subprocess.Popen[bytes] | None = None
        self.before: list[str] = []  # a command that starts the daemon, as strace does
        self.program = ["-m", "clew_daemon"]

    def start(self) -> Self:
        """Start the daemon and wait until it is ready."""
        ready = self.log.read_text().count("daemon.ready") if self.log.exists() else 0
        with self.log.open("a") as out:
            self.daemon = subprocess.Popen([*self.before, *self.command("run")], stdout=out)
        wait_for(lambda: self._alive() and self.log.read_text().count("daemon.ready") > ready)
        return self

    def command(self, *arguments: str) -> list[str]:
        """The command line of clew for this home."""
        return [sys.executable, *self.program, "--home", str(self.folder), *arguments]

    def drop(self, name: str, text: str) -> None:
        """Drop a goal file as a person would: whole, by a rename."""
        inbox = self.folder / "inbox"
        inbox.mkdir(exist_ok=True)
        part = self.folder / f"{name}.part"
        part.write_text(text)
        part.rename(inbox / name)

    def workspaces(self, pattern: str) -> list[Path]:
        """Files in the workspaces, by a pattern as `*/times.txt`."""
        return sorted(self.folder.glob(f"workspaces/{pattern}"))

    def stop(self, sign: int = signal.SIGTERM) -> None:
        """End the daemon, by SIGTERM or harder, and wait for it."""
        if self.daemon and self.daemon.poll() is None:
            self.daemon.send_signal(sign)
            self.daemon.wait(WAIT_S)

    def _alive(self) -> bool:
        if self.daemon is None or self.daemon.poll() is not None:
            sys.exit(f"the daemon has ended:\n{self.log.read_text()[-3000:]}")
        return True


@contextmanager
def throw_away(config: str) -> Iterator[Home]:
    """A home under BENCH_DIR (/var/tmp: a disk, not memory), ended and removed afterwards."""
    where = os.environ.get("BENCH_DIR", "/var/tmp")
    with tempfile.TemporaryDirectory(prefix="clew-bench-", dir=where) as name:
        home = Home(Path(name), config)
        try:
            yield home
        finally:
            home.stop()


def command_agent(name: str, program: Path, *arguments: str, own_tools: bool = True) -> str:
    """Config of an agent that is a Python program, with tools of its own or clew's."""
    command = json.dumps([sys.executable, str(program), *arguments])
    return f'[agents.{name}]\nkind = "command"\nown_tools = {str(own_tools).lower()}\ncommand = {command}\n'
