"""What a restart costs at the least, whoever does it: bare loops without a supervisor, for `bench.restart`.

`python -m bench.restart_floors KIND` answers each line on stdin with the milliseconds from SIGKILL of its child to
the first byte of the next one. KIND is `spawn` (a tiny Python by posix_spawn), `cold` (the same with an agent's
imports) or `fork` (a fork from this process, which has them).
"""

from __future__ import annotations

import contextlib
import importlib
import os
import select
import signal
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

IMPORTS = ("asyncio", "pydantic", "openai")
_TINY = "import os, time; os.write({fd}, b'x'); time.sleep(1000)"
_COLD = f"import {', '.join(IMPORTS)}; {_TINY}"


def _spawn(code: str, *options: str) -> Callable[[int], int]:
    def start(fd: int) -> int:
        os.set_inheritable(fd, True)
        command = [sys.executable, *options, "-c", code.format(fd=fd)]
        return os.posix_spawn(sys.executable, command, os.environ)

    return start


def _fork(fd: int) -> int:
    pid = os.fork()
    if pid == 0:
        os.write(fd, b"x")
        time.sleep(1000)
        os._exit(0)
    return pid


def begin(start: Callable[[int], int]) -> int:
    """Start a child and wait for its first byte."""
    ours, theirs = os.pipe()
    try:
        pid = start(theirs)
        os.close(theirs)
        os.read(ours, 1)
    finally:
        os.close(ours)
    return pid


def end(pid: int) -> None:
    """Kill a child, and hear of its end by a pidfd."""
    fd = os.pidfd_open(pid)
    os.kill(pid, signal.SIGKILL)
    select.select([fd], [], [])
    os.close(fd)
    os.waitpid(pid, 0)


def main(kind: str) -> None:
    """Restart once a line, until stdin ends."""
    if kind == "fork":
        for name in IMPORTS:
            importlib.import_module(name)
    start = {"spawn": _spawn(_TINY, "-I", "-S"), "cold": _spawn(_COLD), "fork": _fork}[kind]
    pid = begin(start)
    with contextlib.suppress(BrokenPipeError):
        for _ in sys.stdin:
            began = time.perf_counter()
            end(pid)
            pid = begin(start)
            sys.stdout.write(f"{1000 * (time.perf_counter() - began)}\n")
            sys.stdout.flush()
    end(pid)


if __name__ == "__main__":
    main(sys.argv[1])
