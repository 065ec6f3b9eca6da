"""A daemon in miniature for tests: starts a nursery, spawns cells, reaps them."""

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from of_proc import children
from snapshots import one, snapshots

from clew_shared.files import remove_tree
from clew_shared.wire.executor import ActionSaid, RunRequest, read_answer, to_line
from clew_shared.wire.nursery import (
    PACKET_BYTES_MAX,
    CellLimits,
    CellSpec,
    SandboxSpec,
    Spawn,
    Spawned,
    read_from_nursery,
    to_packet,
)
from clew_worker.sandbox import kernel
from clew_worker.sandbox.kernel import descendants

__all__ = ["one", "snapshots"]

DEADLINE_S = 60.0
ORDINARY_UID = 4242
_SRC = Path(__file__).parents[3]
_AS_USER = """
import os, sys
sys.path[:0] = {paths!r}
import clew_worker.cell.nursery as nursery
from clew_worker.sandbox import kernel
import encodings.idna, traceback, difflib, subprocess, fnmatch
nursery.preload({modules!r})
os.setgroups([]); os.setresgid({uid}, {uid}, {uid}); os.setresuid({uid}, {uid}, {uid})
kernel.prctl(kernel.PR_SET_DUMPABLE, 1)
sys.exit(nursery.main(["nursery", {fd!r}, *{modules!r}]))
"""


@dataclass
class Cell:
    spawned: Spawned
    channel: socket.socket
    log: int

    @property
    def guard_pid(self):
        return self.spawned.guard_pid

    @property
    def pid(self):
        return self.spawned.pid

    def wait(self):
        return wait_for(self.guard_pid)

    def read_log(self):
        """Everything that the cell prints, until no process holds the pipe."""
        chunks = []
        while chunk := _read(self.log):
            chunks.append(chunk)
        return b"".join(chunks).decode()

    def kill_payload(self):
        os.kill(self.pid, signal.SIGKILL)

    def kill_guard(self):
        os.kill(self.guard_pid, signal.SIGKILL)

    def tree(self):
        """Everything that runs in the cell but the guard."""
        return descendants(self.guard_pid)

    def close(self):
        self.channel.close()
        os.close(self.log)


@dataclass
class Executor:
    """An executor's daemon side: asks and waits for the answer."""

    cell: Cell
    lines: object
    asked: int = 0

    def receive(self):
        while isinstance(answer := read_answer(self.lines.readline()), ActionSaid):
            pass
        return answer

    def send(self, message):
        self.cell.channel.sendall(to_line(message))

    def start(self, tool, timeout_s=20.0, output_bytes=65536, **args):
        self.asked += 1
        limits = {"timeout_s": timeout_s, "output_bytes": output_bytes}
        self.send(RunRequest(id=self.asked, seq=100 + self.asked, tool=tool, args=args, **limits))

    def run(self, tool, **args):
        self.start(tool, **args)
        return self.receive()

    def sh(self, cmd, **args):
        return self.run("run_cmd", cmd=cmd, **args)


def _read(fd):
    assert select.select([fd], [], [], DEADLINE_S)[0], "nothing came in time"
    return os.read(fd, 65536)


def wait_for(pid):
    """Exit code of a child (128 + signal), within the deadline."""
    fd = os.pidfd_open(pid)
    try:
        assert select.select([fd], [], [], DEADLINE_S)[0], f"{pid} did not end in time"
    finally:
        os.close(fd)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return code if code >= 0 else 128 - code


@dataclass
class Nursery:
    uid: int | None = None
    modules: tuple[str, ...] = ()
    nested: bool = False
    path: str = ""
    cells: list = field(default_factory=list)

    def __enter__(self):
        kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
        self.others = set(children())
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.control.settimeout(DEADLINE_S)
        fd = str(theirs.fileno())
        argv = [sys.executable, "-m", "clew_worker.cell.nursery", fd, *self.modules]
        env = {"PATH": os.defpath} | ({"PYTHONPATH": self.path} if self.path else {})
        if self.uid is not None:
            paths = [str(_SRC / part) for part in ("daemon", "worker", "shared")]
            code = _AS_USER.format(paths=paths, uid=self.uid, fd=fd, modules=list(self.modules))
            argv = [sys.executable, "-c", code]
        self.process = subprocess.Popen(argv, pass_fds=[theirs.fileno()], env=env)
        theirs.close()
        self.hello = read_from_nursery(self.control.recv(PACKET_BYTES_MAX))
        return self

    def __exit__(self, *_exc):
        self.control.close()
        assert self.process.wait(DEADLINE_S) == 0
        self.end_cells()
        if not self.nested:
            kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 0)

    def end_cells(self):
        for cell in self.cells:
            end(cell.guard_pid)
            cell.close()
        self.cells.clear()
        self.sweep()

    def sweep(self):
        """End and reap what turned up as our child: a daemon's duty after it killed a guard."""
        deadline = time.monotonic() + DEADLINE_S
        while left := set(children()) - self.others - {self.process.pid}:
            assert time.monotonic() < deadline, f"{left} will not end"
            for pid in left:
                end(pid)
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, 0)

    def ask(self, spec):
        ours, theirs = socket.socketpair()
        log_r, log_w = os.pipe()
        message = to_packet(Spawn(id=1, spec=spec))
        socket.send_fds(self.control, [message], [theirs.fileno(), log_w])
        theirs.close()
        os.close(log_w)
        ours.settimeout(DEADLINE_S)
        answer = self.hear()
        return answer, ours, log_r

    def hear(self):
        """The next answer."""
        return read_from_nursery(self.control.recv(PACKET_BYTES_MAX))

    def spawn(self, spec):
        answer, channel, log = self.ask(spec)
        if not isinstance(answer, Spawned):
            channel.close()
            os.close(log)
        assert isinstance(answer, Spawned), answer
        cell = Cell(answer, channel, log)
        self.cells.append(cell)
        return cell

    def refused(self, spec):
        """The answer to a spec that cannot be started."""
        answer, channel, log = self.ask(spec)
        channel.close()
        os.close(log)
        if answer.guard_pid:
            wait_for(answer.guard_pid)
        return answer


def end(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


@pytest.fixture
def gone():
    """Whether all of the processes that are watched end in time."""

    def all_gone(pidfds):
        ended = [bool(select.select([fd], [], [], DEADLINE_S)[0]) for fd in pidfds]
        for fd in pidfds:
            os.close(fd)
        return all(ended)

    return all_gone


@pytest.fixture
def watch():
    """Descriptors by which `gone` knows the processes again; what has ended already is left out."""

    def start(pids):
        found = []
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                found.append(os.pidfd_open(pid))
        return found

    return start


ROOT = os.geteuid() == 0
VARIANTS = [
    pytest.param((isolation, uid), id=f"{isolation}-{'root' if ROOT and uid is None else 'user'}")
    for isolation in ("pidns", "guard")
    for uid in ((None, ORDINARY_UID) if ROOT else (None,))
]

RARE = {("guard", ORDINARY_UID), ("pidns", None)} if ROOT else set()
"""In the other two variants each kind of isolation and each kind of user occurs as well."""


@pytest.hookimpl(tryfirst=True)  # before `-m` selects and xdist reads the groups
def pytest_collection_modifyitems(items):
    """Leave rare variants to `make test-long`; run the tests that share a nursery in one process."""
    for item in items:
        variant = getattr(getattr(item, "callspec", None), "params", {}).get("variant")
        if variant and item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.xdist_group(f"{item.path.stem}-{variant}"))
            if variant in RARE:
                item.add_marker(pytest.mark.long)


@pytest.fixture(scope="module", params=VARIANTS)
def variant(request):
    return request.param


@pytest.fixture(scope="session")
def make_nursery():
    """Start nurseries of one's own."""
    return Nursery


@pytest.fixture(scope="module")
def shared_nursery(variant):
    isolation, uid = variant
    with Nursery(uid) as nursery:
        if isolation == "pidns" and nursery.hello.sandbox.isolation != "pidns":
            pytest.skip("no PID namespaces here")
        yield nursery


@pytest.fixture
def nursery(shared_nursery, home):
    """A nursery whose cells end before the folders of `home`, in which they may be writing, are removed."""
    yield shared_nursery
    shared_nursery.end_cells()


@pytest.fixture
def home():
    """A folder for everybody, that is not below one of the test's owner alone."""
    folder = Path(tempfile.mkdtemp(prefix="clew-test-"))
    folder.chmod(0o777)
    for name in ("workspace", "private", "state"):
        (folder / name).mkdir()
        (folder / name).chmod(0o777)
    (folder / "state" / "secret").write_text("secret")
    (folder / "state" / "secret").chmod(0o666)
    yield folder
    remove_tree(folder)


@pytest.fixture
def spec(variant, home):
    """Make specs of cells on the workspace of `home`, whose state folder is hidden."""

    def make(kind="executor", sh=None, own_tools=True, mode="enforce", **box):
        folders = {"workspace": str(home / "workspace"), "private": (str(home / "private"),)}
        return CellSpec(
            kind="command" if sh else kind,
            argv=("/bin/sh", "-c", sh) if sh else (),
            cwd=str(home / "workspace"),
            env={"PATH": os.defpath, "TMPDIR": str(home / "private")},
            stands_on=box.pop("stands_on", None),
            isolation="guard" if variant[0] == "guard" else "auto",
            limits=box.pop("limits", CellLimits()),
            git=box.pop("git", ""),
            ignore=box.pop("ignore", ()),
            sandbox=SandboxSpec(
                mode=mode,
                own_tools=own_tools,
                hide=box.pop("hide", (str(home / "state"),)),
                **folders,
                **box,
            ),
        )

    return make


@pytest.fixture
def executor(nursery, spec):
    """Start executors and shake hands."""
    opened = []

    def start(**box):
        cell = nursery.spawn(spec(**box))
        lines = cell.channel.makefile("rb")
        opened.append(lines)
        one = Executor(cell, lines)
        assert one.receive().type == "ready"
        return one

    yield start
    for lines in opened:
        lines.close()


@pytest.fixture
def hands(executor):
    """An executor of the usual kind."""
    return executor()
