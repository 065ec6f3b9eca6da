"""A real daemon on a temporary home on this disk: started, waited for, stopped, removed."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Self

WAIT_S = 60.0
AGENTS = Path(__file__).with_name("agents.py")


def wait_for(what: Callable[[], Any], timeout_s: float = WAIT_S, every_s: float = 0.02) -> Any:
    """Poll until the answer is true and return it; TimeoutError."""
    until = time.monotonic() + timeout_s
    while not (found := what()):
        if time.monotonic() > until:
            raise TimeoutError(what)
        time.sleep(every_s)
    return found


class Home:
    """A home folder and its daemon, whose log is read as it grows."""

    def __init__(self, folder: Path, config: str) -> None:
        self.folder = folder
        self.log = folder / "daemon.log"
        self.socket = folder / "run" / "control.sock"
        (folder / "config.toml").write_text(config)
        self.daemon: subprocess.Popen[bytes] | None = None
        self.program = ["-m", "clew_daemon"]
        self._events: list[dict[str, Any]] = []
        self._read = 0

    @property
    def pid(self) -> int:
        assert self.daemon is not None
        return self.daemon.pid

    def launch(self, **options: Any) -> None:
        with self.log.open("a") as out:
            self.daemon = subprocess.Popen(self.command("run"), stdout=out, **options)

    def start(self) -> Self:
        """Launch the daemon and wait until it is ready."""
        ready = self.count("daemon.ready")
        self.launch()
        wait_for(lambda: self._alive() and self.count("daemon.ready") > ready)
        return self

    def command(self, *arguments: str) -> list[str]:
        """Return the command line of clew for this home."""
        return [sys.executable, *self.program, "--home", str(self.folder), *arguments]

    def count(self, event: str) -> int:
        return len(self.events(event))

    def events(self, event: str, since: int = 0) -> list[dict[str, Any]]:
        """Return the log's complete lines of an event, with `at` in s since 1970, from a number of lines on."""
        with self.log.open("ab+") as file:
            file.seek(self._read)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                self._read += len(line)
                # a line of no daemon, or one that was cut off
                with suppress(ValueError, TypeError):
                    found = json.loads(line)
                    found["at"] = datetime.fromisoformat(found["timestamp"]).timestamp()
                    self._events.append(found)
        return [one for one in self._events[since:] if one["event"] == event]

    @property
    def lines(self) -> int:
        """The number of the log's lines that were read."""
        return len(self._events)

    def drop(self, name: str, text: str) -> None:
        """Drop a goal file as a person would: whole, by a rename."""
        inbox = self.folder / "inbox"
        inbox.mkdir(exist_ok=True)
        part = self.folder / f"{name}.part"
        part.write_text(text)
        part.rename(inbox / name)

    def workspaces(self, pattern: str) -> list[Path]:
        """Return the files in the workspaces that match a pattern such as `*/times.txt`."""
        return sorted(self.folder.glob(f"workspaces/{pattern}"))

    def stop(self, sign: int = signal.SIGTERM) -> None:
        if self.daemon and self.daemon.poll() is None:
            self.daemon.send_signal(sign)
            self.daemon.wait(WAIT_S)

    def _alive(self) -> bool:
        if self.daemon is None or self.daemon.poll() is not None:
            sys.exit(f"the daemon has ended:\n{self.log.read_text()[-3000:]}")
        return True


def floats(path: Path) -> list[float]:
    """Return the seconds that an agent wrote."""
    return [float(one) for one in path.read_text().split()]


@contextmanager
def disk_folder() -> Iterator[Path]:
    """A folder under BENCH_DIR (/var/tmp: a disk, not memory), removed afterwards."""
    where = os.environ.get("BENCH_DIR", "/var/tmp")
    with tempfile.TemporaryDirectory("", "clew-bench-", where, ignore_cleanup_errors=True) as name:
        yield Path(name)


@contextmanager
def temporary(config: str) -> Iterator[Home]:
    """A home on this disk; its daemon is stopped and its folder removed afterwards."""
    with disk_folder() as folder:
        home = Home(folder, config)
        try:
            yield home
        finally:
            home.stop()


def bench_agent(mode: str, *arguments: str, own_tools: bool = True) -> str:
    """Return the config of the agent `bench`: a mode of `agents.py`, with tools of its own or clew's."""
    command = json.dumps([sys.executable, str(AGENTS), mode, *arguments])
    return (
        "[limits]\nmax_actions = 100000000\n"
        f'[agents.bench]\nkind = "command"\nown_tools = {str(own_tools).lower()}\ncommand = {command}\n'
    )
