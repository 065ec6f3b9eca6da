"""The process in the cell of a coding agent's CLI: writes its files, starts it, and ends what it leaves behind.

It is in the same sandbox as the CLI and is trusted no more: it has no connection to the daemon, and the bridge checks
what it says. Where the CLI's relay finds the gateway is settled by the nursery, before the cell is confined.
"""

import contextlib
import errno
import fcntl
import os
import secrets
import select
import signal
import socket
import stat
import subprocess
from pathlib import Path
from typing import NamedTuple

from clew_shared.exit_codes import SIGNAL_BASE, ExitCode
from clew_shared.files import closing, remove_tree
from clew_shared.text.plain import plain
from clew_shared.wire.framing import OversizedMessageError
from clew_shared.wire.nursery import CellSpec, is_shortage
from clew_worker.bridge import cli_cell, relay
from clew_worker.bridge.cli_cell import PLACE, PLACE_BYTES_MAX, CliEnded, PutFiles, StartCli
from clew_worker.sandbox import grants, kernel
from clew_worker.sandbox.kernel import end_descendants

GRACE_S, SWEEP_S = 2.0, 5.0
SOCKET, PORT, CONNECTIONS_MAX = "clew.sock", "clew.port", 8
TAIL_BYTES, PIPE_BYTES, BACK_BYTES_MAX = 4_000, 1 << 16, 64 * 1024


class Run(NamedTuple):
    """A CLI that runs; hanging up the `channel` ends it. The `tail` of what it prints to the pipe `errors` is kept."""

    cli: subprocess.Popen[bytes]
    watch: int
    channel: socket.socket
    errors: int
    tail: bytearray
    back: tuple[str, ...]
    held: contextlib.ExitStack

    def drain(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self.tail.extend(os.read(self.errors, PIPE_BYTES))
            del self.tail[:-TAIL_BYTES]


class CliStarter:
    """At most one CLI at a time."""

    def __init__(self, spec: CellSpec, sock: socket.socket, *, alone: bool) -> None:
        self._home = Path(spec.sandbox.private[0])
        self._sock = sock
        self._alone = alone
        self._run: Run | None = None

    def serve(self) -> int:
        while True:
            poll, run = select.poll(), self._run
            poll.register(self._sock, select.POLLIN)
            if run:
                for fd in (run.watch, run.channel.fileno(), run.errors):
                    poll.register(fd, select.POLLIN)
            ready = {fd for fd, _ in poll.poll()}
            if run and run.errors in ready:
                run.drain()
            if run and ready & {run.watch, run.channel.fileno()}:
                self._end(run)
            if self._sock.fileno() in ready and not self._serve_one():
                return ExitCode.OK

    def _serve_one(self) -> bool:
        data, fds, _, _ = socket.recv_fds(self._sock, cli_cell.PACKET_BYTES_MAX, 2)
        if data:
            match cli_cell.read_order(data):
                case PutFiles() as order:
                    self._put(order)
                case StartCli() as order:
                    self._start(order, *fds)
        return bool(data)

    def _put(self, order: PutFiles) -> None:
        if order.kept is not None:
            clear(self._home, order.kept)
        for name, text in order.files.items():
            path = self._home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.unlink(missing_ok=True)  # never written through a link
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            with os.fdopen(os.open(path, flags, 0o600), "w", encoding="utf-8") as file:
                file.write(text)

    def _start(self, order: StartCli, out: int, run: int) -> None:
        """Start the CLI; `errors` is also open for writing here, so that it has no end."""
        with contextlib.ExitStack() as given, contextlib.ExitStack() as held:
            given.callback(os.close, out)
            channel = held.enter_context(socket.socket(fileno=run))
            try:
                errors, errors_w = _pipe(held)
                os.set_blocking(errors, False)
                cli = subprocess.Popen(
                    order.argv,
                    env=order.env,
                    stdin=_holding(order.stdin.encode(), given),
                    stdout=out,
                    stderr=errors_w,
                    start_new_session=True,
                )
                held.callback(cli.wait)
                held.callback(cli.kill)  # does nothing where it has ended
                watch = os.pidfd_open(cli.pid)
                held.callback(os.close, watch)
            except (OSError, ValueError) as error:
                no_room = getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT)
                fault, temporary = plain(error), no_room or is_shortage(error)
                _report(channel, CliEnded(fault=fault, temporary=temporary))
            else:
                kept = held.pop_all()
                self._run = Run(cli, watch, channel, errors, bytearray(), order.back, kept)

    def _end(self, run: Run) -> None:
        """Have the CLI end if it has not, end what it has left behind, and report it."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(run.cli.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            run.cli.wait(GRACE_S)
        run.cli.kill()  # does nothing where it has ended
        code = run.cli.wait()
        end_descendants(SWEEP_S, alone=self._alone)
        run.drain()
        self._run = None
        errors = run.tail.decode(errors="replace").strip()
        code = code if code >= 0 else SIGNAL_BASE - code
        with run.held:
            files = {path: _text(self._home / path, BACK_BYTES_MAX) for path in run.back}
            end = CliEnded(code=code, errors=errors, files=files)
            while not _report(run.channel, end) and end.files:
                del end.files[max(end.files, key=lambda path: len(end.files[path]))]


def _report(channel: socket.socket, end: CliEnded) -> bool:
    """Return whether it was sent: it may not fit, or the bridge may have ended."""
    with contextlib.suppress(OSError, OversizedMessageError):
        return channel.send(cli_cell.packet(end)) > 0
    return False


def _pipe(opened: contextlib.ExitStack) -> tuple[int, int]:
    ends = os.pipe2(os.O_CLOEXEC)
    for fd in ends:
        opened.callback(os.close, fd)
    return ends


def _holding(data: bytes, opened: contextlib.ExitStack) -> int:
    """Return a pipe that holds all of it: a disk may be full, and a cell has no files in memory (memfd)."""
    end, begin = _pipe(opened)
    with contextlib.suppress(OSError):  # as large as it may be
        fcntl.fcntl(begin, fcntl.F_SETPIPE_SZ, max(len(data), PIPE_BYTES))
    os.set_blocking(begin, False)
    if os.write(begin, data) < len(data):
        raise OSError(errno.ENOBUFS, os.strerror(errno.ENOBUFS))
    return end


def _text(path: Path, bytes_max: int) -> str:
    """Return the text of a regular file, "" for none and for one that is larger; no link is followed."""
    data = b""
    with contextlib.suppress(OSError):
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(fd, "rb") as file:
            if stat.S_ISREG(os.fstat(fd).st_mode):
                data = file.read(bytes_max + 1)
    return data.decode(errors="replace") if len(data) <= bytes_max else ""


def clear(folder: Path, kept: tuple[str, ...], within: str = "") -> None:
    """Remove everything in a folder but the `kept` paths, which are relative to it; no link is followed."""
    with os.scandir(folder) as entries:
        found = list(entries)
    for entry in found:
        name = f"{within}{entry.name}"
        is_folder = entry.is_dir(follow_symlinks=False)
        if name in kept and not entry.is_symlink():
            continue
        if is_folder and any(one.startswith(f"{name}/") for one in kept):
            clear(Path(entry.path), kept, f"{name}/")
        elif is_folder:
            remove_tree(entry.path)
        else:
            os.unlink(entry.path)  # noqa: PTH108 - a link, not what it leads to


# ---- before the cell is confined


def with_program(spec: CellSpec) -> CellSpec:
    """Return the spec with the program that its CLI really is: without the script of an npm package around it."""
    return spec.model_copy(update={"argv": (grants.native(spec.argv[0]), *spec.argv[1:])})


def open_gateway(spec: CellSpec, *, unix: bool) -> tuple[CellSpec, socket.socket]:
    """Empty the cell's TMPDIR and listen there, or on a port, with a token, where it gets no unix sockets."""
    _, tmp = spec.sandbox.private
    clear(Path(tmp), ())
    if unix:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with closing(os.open(tmp, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)) as at:
            listener.bind(f"/proc/self/fd/{at}/{SOCKET}")  # its path is limited to 108 bytes
        listener.listen(CONNECTIONS_MAX)
        return spec, listener
    listener = socket.create_server(("127.0.0.1", 0), backlog=CONNECTIONS_MAX)
    port = listener.getsockname()[1]
    fd = os.open(Path(tmp, PORT), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "w") as file:
        file.write(f"{port} {secrets.token_hex(32)}")
    sandbox = spec.sandbox.model_copy(update={"ports": (*spec.sandbox.ports, port)})
    return spec.model_copy(update={"sandbox": sandbox}), listener


def main(spec: CellSpec, sock: socket.socket, listener: socket.socket, *, alone: bool) -> int:
    """Serve the bridge at the other end of `sock`; `alone`: its PID namespace has nothing else but the guard."""
    home, tmp = spec.sandbox.private
    sock.set_inheritable(False)
    kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
    command = (grants.own_python(), "-I", "-S", relay.__file__, tmp)
    place = Path(tmp, PORT)
    token = place.read_text().partition(" ")[2] if place.exists() else ""
    ready = cli_cell.CliReady(
        program=spec.argv[0],
        home=home,
        tmp=tmp,
        relay=command,
        token=token,
        conversation=_text(Path(home, PLACE), PLACE_BYTES_MAX),
    )
    with listener:
        socket.send_fds(sock, [cli_cell.packet(ready)], [listener.fileno()])
    try:
        return CliStarter(spec, sock, alone=alone).serve()
    except (BrokenPipeError, ConnectionResetError):  # the bridge has ended
        return ExitCode.OK
