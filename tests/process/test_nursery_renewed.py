"""The nursery's process is replaced when it has ended, hangs or is out of date, and workers go on."""

import asyncio
import os
import signal
import socket

import pytest
from of_proc import become_subreaper

from clew_daemon.processes import nursery
from clew_daemon.processes.children import Children
from clew_daemon.processes.nursery import Nursery, SpawnError
from clew_shared.wire.nursery import CellSpec, SandboxSpec

pytestmark = pytest.mark.cold

DEADLINE_S = 60.0


@pytest.fixture
def folder(tmp_path):
    """A folder of modules that the nursery's Python has on its path."""
    found = tmp_path / "modules"
    found.mkdir()
    return found


@pytest.fixture
def live(folder, tmp_path):
    """Run a coroutine function with a nursery, and end that; `start` spawns a cell that waits to be told."""

    async def life(what):
        env = {"PATH": os.defpath, "PYTHONPATH": str(folder)}
        one = Nursery(Children(), env, ())

        async def start():
            ours, theirs = socket.socketpair()
            with theirs:
                box = SandboxSpec(mode="off", workspace=str(tmp_path))
                spec = CellSpec(kind="command", cwd=str(tmp_path), sandbox=box, argv=WAITS)
                try:
                    return await one.spawn(spec, theirs.fileno(), None), ours
                except SpawnError:
                    ours.close()
                    raise

        try:
            async with asyncio.timeout(DEADLINE_S):
                await what(one, start)
        finally:
            await one.stop()

    become_subreaper()
    yield lambda what: asyncio.run(life(what))
    become_subreaper(on=False)


WAITS = ("/bin/sh", "-c", "read line <&3")


async def ended(cell, line):
    """Tell a cell to end; its exit code."""
    line.sendall(b"go\n")
    code = await cell.guard.ended
    line.close()
    return code


def pid(one):
    return one._zygote.child.pid


def test_a_nursery_that_hangs_is_ended_by_a_deadline_and_renewed(live, monkeypatch):
    async def what(one, start):
        await one.ready()
        first = pid(one)
        os.kill(first, signal.SIGSTOP)
        monkeypatch.setattr(nursery, "SPAWN_TIMEOUT_S", 0.5)
        with pytest.raises(SpawnError, match="no answer"):
            await start()
        monkeypatch.undo()
        assert await ended(*await start()) == 0
        assert pid(one) != first

    live(what)
