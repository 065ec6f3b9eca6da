"""The least that a restart costs, for `bench.restart`: bare loops without a supervisor.

`python -m bench.restart_floors KIND` answers each line on stdin with the milliseconds from SIGKILL of its child to the
first byte of the next one. KIND is `spawn` (a tiny Python by posix_spawn), `cold` (the same with an agent's imports)
or `fork` (from this process, which has them).
"""

import contextlib
import importlib
import os
import select
import signal
import sys
import time

IMPORTS = ("asyncio", "pydantic", "openai")
TINY = "import os, time; os.write({fd}, b'x'); time.sleep(1000)"
COLD = f"import {', '.join(IMPORTS)}; {TINY}"


def start(kind: str) -> int:
    """Start a child and wait for its first byte."""
    ours, theirs = os.pipe()
    os.set_inheritable(theirs, True)
    if kind != "fork":
        *options, code = ["-c", COLD] if kind == "cold" else ["-I", "-S", "-c", TINY]
        command = [sys.executable, *options, code.format(fd=theirs)]
        pid = os.posix_spawn(sys.executable, command, os.environ)
    elif (pid := os.fork()) == 0:
        os.write(theirs, b"x")
        time.sleep(1000)
        os._exit(0)
    os.close(theirs)
    os.read(ours, 1)
    os.close(ours)
    return pid


def end(pid: int) -> None:
    """Kill a child, and wait for its end by a pidfd."""
    fd = os.pidfd_open(pid)
    os.kill(pid, signal.SIGKILL)
    select.select([fd], [], [])
    os.close(fd)
    os.waitpid(pid, 0)


def main(kind: str) -> None:
    if kind == "fork":
        for name in IMPORTS:
            importlib.import_module(name)
    pid = start(kind)
    with contextlib.suppress(BrokenPipeError):
        for _ in sys.stdin:
            began = time.perf_counter()
            end(pid)
            pid = start(kind)
            print(1000 * (time.perf_counter() - began), flush=True)
    end(pid)


if __name__ == "__main__":
    main(sys.argv[1])
