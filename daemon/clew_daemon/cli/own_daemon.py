"""A daemon of a command's own, in a home of its own, while a block lasts."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from clew_daemon.control.requests import PingRequest
from clew_daemon.reading.client import ask
from clew_daemon.reading.errors import CliError
from clew_daemon.reading.instance import Instance
from clew_shared.exit_codes import ExitCode

START_S = 30.0
STOP_S = 20.0
POLL_S = 0.05
LOG_LINES_SHOWN = 5


@contextmanager
def unwinding_on_sigterm() -> Iterator[None]:
    """Let SIGTERM leave the block like an exception: a daemon in it must be stopped, and its home removed."""
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(ExitCode.TERMINATED))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def own_daemon(instance: Instance, env: Mapping[str, str]) -> Iterator[int]:
    """Run a daemon on the home of `instance`, which has a config, and yield its pid once it is ready.

    `env` is its whole environment. Raises CliError where it does not start.
    """
    home = instance.places.config.parent
    log = home / "daemon.out"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "clew_daemon", "--home", str(home), "run"],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            env=dict(env),
            start_new_session=True,  # Ctrl-C must not reach the daemon: it is stopped below
        )
    try:
        _wait_ready(instance, process, log)
        yield process.pid
    finally:
        _stop(process)


def _wait_ready(instance: Instance, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        answer = ask(instance.socket, PingRequest())
        if answer is not None and answer["ready"]:
            return
        if process.poll() is not None:
            break
        time.sleep(POLL_S)
    output = log.read_text(errors="replace").splitlines()[-LOG_LINES_SHOWN:]
    raise CliError("\n".join(["the daemon did not start; its last output:", *output]))


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Stop the daemon by SIGTERM, otherwise by SIGKILL, with which its workers end as well."""
    with suppress(ProcessLookupError):
        process.terminate()
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
