"""A nursery that has nothing to fork with: it waits, answers, and lives on."""

import errno
import os
import socket
import threading
from pathlib import Path

import pytest

from clew_shared.wire.nursery import (
    PACKET_BYTES_MAX,
    CellSpec,
    SandboxReport,
    SandboxSpec,
    Spawn,
    SpawnFailed,
    read_from_nursery,
    to_packet,
)
from clew_worker.cell.nursery import NurseryServer


@pytest.fixture
def short(monkeypatch):
    """A nursery that can fork nothing, served in a thread: the daemon's end."""
    daemon, control = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    def fork(*_):
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(NurseryServer, "_fork", fork)
    report = SandboxReport(
        landlock_abi=0,
        scopes=False,
        isolation="guard",
        userns=False,
        network_off="none",
        seccomp=False,
    )
    thread = threading.Thread(target=NurseryServer(control, report).serve)
    thread.start()
    yield daemon
    daemon.close()
    thread.join(60)
    control.close()


def test_what_cannot_be_forked_is_said_and_the_nursery_lives_on(short):
    spec = CellSpec(
        kind="command", cwd="/", sandbox=SandboxSpec(mode="off", workspace="/"), argv=("true",)
    )
    for number in range(1, 20):
        with Path(os.devnull).open() as null:
            request = to_packet(Spawn(id=number, spec=spec))
            socket.send_fds(short, [request], [null.fileno()])
        answer = read_from_nursery(short.recv(PACKET_BYTES_MAX))
        assert isinstance(answer, SpawnFailed)
        assert (answer.id, answer.reason) == (number, "resources")
