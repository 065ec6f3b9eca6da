"""Starts a daemon whose restart path leaves its times in a mapped file: what the parts of a restart are.

`restart_marks.py FILE … -m clew_daemon …` is the daemon, and `restart_marks.py FILE nursery …` its nursery.
The first time of each mark since they were cleared is kept, on the monotonic clock that all processes share; forked
and confined ones write through the map that they inherited. Nothing in clew knows of it, and figures of whole
restarts are had without it.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import mmap
import os
import struct
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

GUARD = "CLEW_BENCH_WITHOUT_NAMESPACES"
DAEMON = {
    "noticed": "clew_daemon.session.session:Session._exit",
    "torn down": "clew_daemon.session.session:Session._tear_down",
    "agent ended": "clew_daemon.processes.nursery:Cell.kill",
    "hands ended": "clew_daemon.session.executors:Hands.end",
    "end recorded": "clew_daemon.session.session:Session._close",
    "decided": "clew_daemon.supervision.goal_run:GoalRun._conclude",
    "connected": "clew_daemon.session.session:Session._connect",
    "asked for a cell": "clew_daemon.processes.zygote:_send",
    "start recorded": "clew_daemon.session.session:Session._record_start",
    "executor started": "clew_daemon.processes.executor:Executor.start",
    "world seen": "clew_daemon.session.session:Session.look",
    "ready": "clew_daemon.session.session:Session._start",
    "hello answered": "clew_daemon.session.methods:Methods._hello",
    "first action": "clew_daemon.session.methods:Methods._carry_out",
}
WORKER = {
    "nursery asked": "clew_worker.cell.nursery:Nursery.serve_one",
    "nursery spawn": "clew_worker.cell.nursery:Nursery._begin",
    "guard": "clew_worker.cell.cell:_guard",
    "furnished": "clew_worker.sandbox.namespaces:furnish",
    "closed off": "clew_worker.sandbox.namespaces:close_off",
    "payload": "clew_worker.cell.cell:_payload",
    "confined": "clew_worker.sandbox:confine",
    "builtin": "clew_worker.cell.cell:_builtin",
    "says hello": "clew_worker.agent.client:AgentClient.hello",
    "asks the LLM": "clew_worker.agent.llm_client:LlmClient._post",
    "hears a request": "clew_worker.executor.wire:Wire.next_request",
}
NAMES = [f"{name} {edge}" for name in (*DAEMON, *WORKER) for edge in ("begins", "ends")]
_SLOT = struct.Struct("d")


class Marks:
    """The first time of each mark; 0 where it was not passed since `clear`."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.write_bytes(bytes(_SLOT.size * len(NAMES)))
            path.chmod(0o666)
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 0)

    def put(self, name: str) -> None:
        at = NAMES.index(name) * _SLOT.size
        if not any(self._map[at : at + _SLOT.size]):
            _SLOT.pack_into(self._map, at, time.monotonic())

    def read(self) -> dict[str, float]:
        return {n: _SLOT.unpack_from(self._map, i * _SLOT.size)[0] for i, n in enumerate(NAMES)}

    def clear(self) -> None:
        self._map[:] = bytes(len(self._map))


def _arm(marks: Marks, places: dict[str, str]) -> None:
    for label, target in places.items():
        module, path = target.split(":")
        owner: Any = importlib.import_module(module)
        *outer, name = path.split(".")
        for part in outer:
            owner = getattr(owner, part)
        found = inspect.getattr_static(owner, name)
        if isinstance(found, classmethod):
            setattr(owner, name, classmethod(_around(found.__func__, label, marks)))
        else:
            setattr(owner, name, _around(found, label, marks))


def _around(function: Any, label: str, marks: Marks) -> Any:
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def later(*args: Any, **named: Any) -> Any:
            marks.put(f"{label} begins")
            try:
                return await function(*args, **named)
            finally:
                marks.put(f"{label} ends")

        return later

    @functools.wraps(function)
    def now(*args: Any, **named: Any) -> Any:
        marks.put(f"{label} begins")
        try:
            return function(*args, **named)
        finally:
            marks.put(f"{label} ends")

    return now


def daemon(file: str, argv: list[str]) -> None:
    """Be `python -m clew_daemon`, whose nursery is started by this script, too."""
    from clew_daemon.cli import main
    from clew_daemon.processes import zygote as asking

    start = asking.subprocess.Popen

    def popen(command: list[str], **named: Any) -> Any:
        arguments = command[command.index("clew_worker.cell.nursery") + 1 :]
        named["env"] |= {GUARD: os.environ.get(GUARD, "")}
        return start([sys.executable, __file__, file, "nursery", *arguments], **named)

    asking.subprocess = SimpleNamespace(**vars(asking.subprocess) | {"Popen": popen})  # type: ignore[assignment]
    if file != "-":
        _arm(Marks(Path(file)), DAEMON)
    sys.argv = ["clew", *argv]
    main()


def nursery(file: str, argv: list[str]) -> int:
    """Be `python -m clew_worker.cell.nursery`; without namespaces where that is wanted."""
    from clew_worker.cell import nursery as real

    if file != "-":
        _arm(Marks(Path(file)), WORKER)
    if os.environ.get(GUARD):
        without = real.sandbox.probe().model_copy(update={"isolation": "guard", "userns": False})
        real.sandbox.probe = lambda: without
    return real.main(["nursery", *argv])


if __name__ == "__main__":
    if sys.argv[2] == "nursery":
        sys.exit(nursery(sys.argv[1], sys.argv[3:]))
    daemon(sys.argv[1], sys.argv[sys.argv.index("clew_daemon") + 1 :])
