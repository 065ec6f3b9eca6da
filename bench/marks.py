"""Runs a daemon with a stop-watch beside it, from outside; clew knows nothing of it.

`marks.py step OUT DELAY_MS …` writes JSON to OUT at the end: the moment and number of jobs of each commit, each made
DELAY_MS slower, as on a slower disk; below 0, the moments of the parts of each step instead. `marks.py restart FILE …`
notes the first time of each mark since they were cleared in a mapped file, which forked and confined processes write
to as well (FILE `-`: none). The arguments of clew follow.
"""

import atexit
import functools
import importlib
import inspect
import json
import mmap
import os
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

GUARD = "CLEW_BENCH_WITHOUT_NAMESPACES"
STEP = {  # the marks at the beginning and at the end of each function on the way of a step
    "clew_daemon.session.channel:Channel.data_received": ("came", ""),
    "clew_shared.wire.protocol:parse": ("parse", "parsed"),
    "clew_shared.wire.protocol:params": ("check", "checked"),
    "clew_shared.core.core:Core.propose": ("judge", "judged"),
    "clew_shared.core.core:Core.outcome": ("judge", "judged"),
    "clew_daemon.record.goals:GoalStore._flush": ("record", ""),
    "clew_shared.ledger.writer:Writer.put": ("put", ""),
    "clew_shared.ledger.writer:Writer._transact": ("commit", "committed"),
    "clew_shared.ledger.writer:Writer._deliver": ("woke", ""),
    "clew_daemon.session.channel:Channel.send": ("answer", "sent"),
}
DAEMON = {
    "noticed": "clew_daemon.processes.endings:by_exit",
    "torn down": "clew_daemon.session.session:Session._tear_down",
    "end recorded": "clew_daemon.session.epoch:EpochRecord.close",
    "asked for a cell": "clew_daemon.processes.zygote:_send",
    "hello answered": "clew_daemon.session.methods:Methods._hello",
}
WORKER = {
    "nursery spawn": "clew_worker.cell.nursery:NurseryServer._begin",
    "closed off": "clew_worker.sandbox.namespaces:close_off",
    "confined": "clew_worker.sandbox:confine",
    "says hello": "clew_worker.agent.client:AgentClient.hello",
}
NAMES = [f"{name} {edge}" for name in (*DAEMON, *WORKER) for edge in ("begins", "ends")]
_SLOT = struct.Struct("d")


def resolve(target: str) -> tuple[Any, str]:
    """Return the owner and the name of a function of clew, given as `module:Class.name`."""
    module, path = target.split(":")
    *outer, name = path.split(".")
    try:
        owner = functools.reduce(getattr, outer, importlib.import_module(module))
        inspect.getattr_static(owner, name)
    except (ImportError, AttributeError) as error:
        raise SystemExit(
            f"bench/marks.py names {target}, which clew does not have: {error}"
        ) from None
    return owner, name


class Marks:
    """The first time of each mark on the monotonic clock; 0 where it was not passed since `clear`."""

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


def wrap(target: str, put: Callable[[str], None], before: str, after: str) -> None:
    """Put a mark whenever a function of clew begins, and one when it ends."""
    owner, name = resolve(target)
    function = inspect.getattr_static(owner, name)
    ended = functools.partial(put, after) if after else lambda: None
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def around(*args: Any, **named: Any) -> Any:
            put(before)
            try:
                return await function(*args, **named)
            finally:
                ended()
    else:

        @functools.wraps(function)
        def around(*args: Any, **named: Any) -> Any:
            put(before)
            try:
                return function(*args, **named)
            finally:
                ended()

    setattr(owner, name, around)


def slow_commits(delay_ms: float, batches: list[tuple[int, int]]) -> None:
    owner, name = resolve("clew_shared.ledger.writer:Writer._transact")
    inner = getattr(owner, name)

    def transact(self: Any, batch: list[Any]) -> None:
        if delay_ms:
            time.sleep(delay_ms / 1000)
        inner(self, batch)
        batches.append((time.monotonic_ns(), len(batch)))

    setattr(owner, name, transact)


def watch_steps(out: Path, delay_ms: float) -> None:
    seen: dict[str, list[Any]] = {"marks": [], "batches": []}
    if delay_ms < 0:
        for target, marks in STEP.items():
            wrap(target, lambda name: seen["marks"].append((time.monotonic_ns(), name)), *marks)
    else:
        slow_commits(delay_ms, seen["batches"])
    atexit.register(lambda: out.write_text(json.dumps(seen)))


def watch_restarts(file: str, table: dict[str, str]) -> None:
    if file != "-":
        put = Marks(Path(file)).put
        for label, target in table.items():
            wrap(target, put, f"{label} begins", f"{label} ends")


def own_nursery(file: str) -> None:
    """Have the daemon start its nursery by this script, too."""
    from clew_daemon.processes import zygote

    start = zygote.subprocess.Popen

    def popen(command: list[str], **named: Any) -> Any:
        arguments = command[command.index("clew_worker.cell.nursery") + 1 :]
        named["env"] |= {GUARD: os.environ.get(GUARD, "")}
        return start([sys.executable, __file__, "nursery", file, *arguments], **named)

    zygote.subprocess = SimpleNamespace(**vars(zygote.subprocess) | {"Popen": popen})  # type: ignore[assignment]


def nursery(file: str, arguments: list[str]) -> int:
    """Be `python -m clew_worker.cell.nursery`; without namespaces where that is wanted."""
    from clew_worker.cell import nursery as real

    watch_restarts(file, WORKER)
    if os.environ.get(GUARD):
        without = real.sandbox.probe().model_copy(update={"isolation": "guard", "userns": False})
        real.sandbox.probe = lambda: without
    return real.main(["nursery", *arguments])


def main() -> None:
    kind, file, *rest = sys.argv[1:]
    if kind == "nursery":
        sys.exit(nursery(file, rest))
    if kind == "step":
        watch_steps(Path(file), float(rest.pop(0)))
    else:
        own_nursery(file)
        watch_restarts(file, DAEMON)
    from clew_daemon.cli import main as clew

    sys.argv = ["clew", *rest]
    clew()


if __name__ == "__main__":
    main()
