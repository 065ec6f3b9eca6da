"""A nursery that hangs is replaced, and workers go on; `tests/chaos` stops it at every point."""

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


@pytest.fixture(autouse=True)
def _subreaper():
    become_subreaper()
    yield
    become_subreaper(on=False)


async def spawned(one, folder):
    """Start a cell that ends when it is told to, tell it to, and return its exit code."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        box = SandboxSpec(mode="off", workspace=folder)
        argv = ("/bin/sh", "-c", "read line <&3")
        spec = CellSpec(kind="command", cwd=folder, sandbox=box, argv=argv)
        cell = await one.spawn(spec, theirs.fileno(), None)
        ours.sendall(b"go\n")
        return await cell.guard.ended


async def test_a_nursery_that_hangs_is_ended_by_a_deadline_and_renewed(tmp_path, monkeypatch):
    one = Nursery(Children(), {"PATH": os.defpath}, ())
    try:
        async with asyncio.timeout(60):
            await one.ready()
            first = one._zygote.child.pid
            os.kill(first, signal.SIGSTOP)
            monkeypatch.setattr(nursery, "SPAWN_TIMEOUT_S", 0.5)
            with pytest.raises(SpawnError, match="no answer"):
                await spawned(one, str(tmp_path))
            monkeypatch.undo()
            assert await spawned(one, str(tmp_path)) == 0
            assert one._zygote.child.pid != first
    finally:
        await one.stop()
