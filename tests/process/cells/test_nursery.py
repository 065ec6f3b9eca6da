"""The nursery and its cells: starting, exit codes, and that nothing outlives its epoch."""

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from clew_worker.sandbox.kernel import descendants

# A grandchild that has left everything behind by which it could be found: session, parent, pipe.
ESCAPE = "(setsid sh -c 'setsid sleep 1000 & echo up >&3' >/dev/null 2>&1 &) ; exec sleep 1000"


@pytest.fixture
def escaped(nursery, spec):
    """A cell with a grandchild in a session of its own; and a watch on all of its processes."""
    cell = nursery.spawn(spec(sh=ESCAPE))
    assert cell.channel.recv(16) == b"up\n"
    tree = cell.tree()
    assert len(tree) >= 2
    assert cell.pid in tree
    return cell, tree


def test_hello_says_what_this_kernel_and_user_can_have(nursery, variant):
    hello = nursery.hello
    assert hello.pid == nursery.process.pid
    ordinary = variant[1] is not None or os.geteuid() != 0
    assert hello.sandbox.userns == (ordinary and hello.sandbox.isolation == "pidns")
    assert "clew_worker.executor.server" in hello.preloaded


@pytest.mark.parametrize("code", [0, 1, 75, 78])
def test_an_exit_code_arrives_at_the_daemon(nursery, spec, code):
    assert nursery.spawn(spec(sh=f"exit {code}")).wait() == code


def test_the_reported_pid_is_the_payload_itself(nursery, spec):
    cell = nursery.spawn(spec(sh="echo up >&3; read line <&3"))
    assert cell.channel.recv(16) == b"up\n"
    command = Path(f"/proc/{cell.pid}/cmdline").read_bytes().split(b"\0")
    assert command[0] == b"/bin/sh"
    os.kill(cell.pid, signal.SIGTERM)
    assert cell.wait() == 128 + signal.SIGTERM


def test_core_dumps_are_off_and_no_program_gains_privileges(nursery, spec):
    cell = nursery.spawn(spec(sh="ulimit -c; grep NoNewPrivs /proc/self/status"))
    assert cell.read_log().split() == ["0", "NoNewPrivs:", "1"]


def test_a_killed_payload_takes_its_whole_tree_along(escaped, gone, watch):
    cell, tree = escaped
    fds = watch(tree)
    cell.kill_payload()
    assert cell.wait() == 128 + signal.SIGKILL
    assert gone(fds)


def test_a_killed_guard_takes_its_whole_tree_along(escaped, nursery, gone, watch, variant):
    cell, tree = escaped
    fds = watch(tree)
    cell.kill_guard()
    cell.wait()
    if variant[0] == "guard":
        nursery.sweep()
    assert gone(fds)


def test_cells_outlive_the_nursery(variant, spec, nursery):
    with type(nursery)(variant[1], nested=True) as other:
        cell = other.spawn(spec(sh="echo up >&3; read line <&3; echo got $line >&3"))
        assert cell.channel.recv(16) == b"up\n"
        other.process.kill()
        other.process.wait()
        cell.channel.sendall(b"ping\n")
        assert cell.channel.recv(64) == b"got ping\n"
        assert cell.wait() == 0
        other.process = subprocess.Popen(["true"])


FAKE_DAEMON = """
import importlib.util, sys, time
loader = importlib.util.spec_from_file_location("cells_conftest", sys.argv[1])
cells = importlib.util.module_from_spec(loader)
sys.modules["cells_conftest"] = cells
loader.loader.exec_module(cells)
from clew_shared.wire.nursery import CellSpec
spec = CellSpec.model_validate_json(sys.argv[2])
uid = int(sys.argv[3]) if sys.argv[3] else None
nursery = cells.Nursery(uid).__enter__()
cell = nursery.spawn(spec)
assert cell.channel.recv(16) == b"up\\n"
print(*cell.tree(), cell.guard_pid, nursery.process.pid, flush=True)
time.sleep(1000)
"""


def test_a_killed_daemon_takes_every_worker_along(variant, spec, nursery, gone, watch):
    here = str(Path(__file__).with_name("conftest.py"))
    command = spec(sh=ESCAPE).model_dump_json()
    uid = str(variant[1] or "")
    with subprocess.Popen(
        [sys.executable, "-c", FAKE_DAEMON, here, command, uid], stdout=subprocess.PIPE
    ) as daemon:
        assert select.select([daemon.stdout], [], [], 30)[0]
        pids = [int(word) for word in daemon.stdout.readline().split()]
        fds = watch(pids)
        daemon.kill()
        assert gone(fds)
    nursery.sweep()


def test_a_refused_cell_leaves_no_process(nursery, spec):
    nursery.refused(spec(sh="x").model_copy(update={"argv": ("no-such-program",)}))
    assert not descendants(nursery.process.pid)
