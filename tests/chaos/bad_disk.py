"""Real trouble with a disk: calls of a live process that fail or dawdle (strace), and small file systems.

Both need rights that not every machine gives; then the test is skipped, with a word.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

DEADLINE_S = 60.0


@contextmanager
def injected(pid: int, notes: Path, *rules: str) -> Iterator[None]:
    """Let calls of a process's threads go wrong by strace's `inject=` rules, until the end or its end.

    Its children are not touched. `notes` gets a line for each call that a rule names.
    """
    needs_strace()
    calls = ",".join(rule.split(":")[0] for rule in rules)
    wanted = [f"inject={rule}" for rule in rules]
    threads = [int(thread.name) for thread in Path(f"/proc/{pid}/task").iterdir()]
    command = ["strace", "-q", "-o", str(notes), "-e", f"trace={calls}"]
    command += [part for rule in wanted for part in ("-e", rule)]
    command += [part for thread in threads for part in ("-p", str(thread))]
    tracer = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        _await_attached(tracer, pid, threads)
        yield
    finally:
        if tracer.poll() is None:
            tracer.send_signal(signal.SIGINT)  # it lets go of the process, which lives on
        tracer.communicate(timeout=DEADLINE_S)


def needs_strace() -> None:
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    tried = subprocess.run(["strace", "-q", "true"], capture_output=True, text=True, check=False)
    if tried.returncode:
        pytest.skip(f"no process may be traced here: {tried.stderr.strip()}")


def _await_attached(tracer: subprocess.Popen, pid: int, threads: list[int]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not all(_traced(pid, thread) for thread in threads):
        if tracer.poll() is not None:
            pytest.skip(f"this process may not be traced: {tracer.communicate()[1].strip()}")
        assert time.monotonic() < deadline, "strace does not attach"
        time.sleep(0.01)


def _traced(pid: int, thread: int) -> bool:
    """Whether a thread is traced, or has ended meanwhile."""
    try:
        status = Path(f"/proc/{pid}/task/{thread}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True
    return "\nTracerPid:\t0\n" not in status


@contextmanager
def small(folder: Path, size: str) -> Iterator[Path]:
    """Lay a file system of so many bytes ("2m") in memory over a folder."""
    folder.mkdir(exist_ok=True)
    options = f"size={size},mode=700"
    mount = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"may not mount a small file system here: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(folder: Path) -> Path:
    """Take all the room that is left; gives the file to remove to give it back."""
    ballast = folder / ".ballast"
    with ballast.open("wb", buffering=0) as file:
        for size in (1 << 20, 1 << 12, 1):
            try:
                while file.write(b"x" * size):
                    pass
            except OSError:
                continue
    return ballast
