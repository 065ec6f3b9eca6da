"""The process in the cell of a coding agent's CLI: writes its files, starts it, and ends what it leaves behind.

It is in the same sandbox as the CLI and is trusted no more: it has no connection to the daemon, and the bridge checks
what it says.
"""

import contextlib
import os
import select
import signal
import socket
import stat
import subprocess
from pathlib import Path

from clew_shared.exit_codes import SIGNAL_BASE, ExitCode
from clew_shared.text.plain import plain
from clew_shared.wire.nursery import CellSpec
from clew_worker.bridge import relay, wire
from clew_worker.bridge.place import clear, token
from clew_worker.bridge.wire import FILE_BYTES_MAX, PutFiles, StartCli
from clew_worker.sandbox import interpreter, kernel
from clew_worker.sandbox.kernel import end_descendants

GRACE_S, SWEEP_S = 2.0, 5.0


class CliStarter:
    """At most one CLI at a time."""

    def __init__(self, spec: CellSpec, sock: socket.socket, *, alone: bool) -> None:
        self._home = Path(spec.sandbox.private[0])
        self._sock = sock
        self._alone = alone
        self._cli: subprocess.Popen[bytes] | None = None
        self._watch = -1

    def serve(self) -> int:
        """Do what the bridge asks for until it hangs up."""
        while True:
            poll = select.poll()
            for fd in (self._sock.fileno(), self._watch):
                if fd >= 0:
                    poll.register(fd, select.POLLIN)
            ready = {fd for fd, _ in poll.poll()}
            if self._watch in ready:
                self._end()
            if self._sock.fileno() in ready and not self._serve_one():
                return ExitCode.OK

    def _serve_one(self) -> bool:
        data = self._sock.recv(wire.PACKET_BYTES_MAX)
        if not data:
            return False
        match wire.read_order(data):
            case PutFiles() as order:
                self._put(order)
            case StartCli() as order:
                self._start(order)
            case wire.ReadFile() as order:
                self._send(wire.FileRead(text=_text(self._home / order.path)))
            case wire.StopCli():
                self._stop()
        return True

    def _send(self, message: wire.FromStarter, *fds: int) -> None:
        socket.send_fds(self._sock, [wire.packet(message)], list(fds))

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

    def _start(self, order: StartCli) -> None:
        out, out_w = os.pipe2(os.O_CLOEXEC)
        err, err_w = os.pipe2(os.O_CLOEXEC)
        try:
            self._cli = subprocess.Popen(
                order.argv,
                env=order.env,
                stdin=subprocess.PIPE if order.stdin else subprocess.DEVNULL,
                stdout=out_w,
                stderr=err_w,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            self._send(wire.CliEnded(code=ExitCode.CONFIGURATION, fault=plain(error)))
        else:
            self._watch = os.pidfd_open(self._cli.pid)
            self._send(wire.CliStarted(pid=self._cli.pid), out, err)
            self._feed(order.stdin)
        finally:
            for fd in (out, out_w, err, err_w):
                os.close(fd)

    def _feed(self, text: str) -> None:
        """Write to its standard input, and close it; a CLI that does not read more than a pipe holds gets no more."""
        if self._cli is None or self._cli.stdin is None:
            return
        with contextlib.suppress(OSError), self._cli.stdin as pipe:
            data = text.encode()
            while data and select.select([], [pipe], [self._watch], SWEEP_S)[1]:
                data = data[os.write(pipe.fileno(), data[: select.PIPE_BUF]) :]

    def _stop(self) -> None:
        if self._cli is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._cli.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._cli.wait(GRACE_S)
        self._end()

    def _end(self) -> None:
        """Collect the CLI, end what it has left behind, and report it."""
        if self._cli is None:
            return
        self._cli.kill()  # does nothing where it has ended
        code = self._cli.wait()
        end_descendants(SWEEP_S, alone=self._alone)
        os.close(self._watch)
        self._cli, self._watch = None, -1
        self._send(wire.CliEnded(code=code if code >= 0 else SIGNAL_BASE - code))


def _text(path: Path) -> str | None:
    try:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with os.fdopen(os.open(path, flags), "rb") as file:
            is_file = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
            data = file.read(FILE_BYTES_MAX + 1) if is_file else b""
    except OSError:
        return None
    return data.decode(errors="replace") if is_file and len(data) <= FILE_BYTES_MAX else None


def main(spec: CellSpec, sock: socket.socket, listener: socket.socket, *, alone: bool) -> int:
    """Serve the bridge at the other end of `sock`; `alone`: its PID namespace has nothing else but the guard."""
    home, tmp = spec.sandbox.private
    sock.set_inheritable(False)
    kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
    command = (interpreter.own_python(), "-I", "-S", relay.__file__, tmp)
    ready = wire.CliReady(
        program=spec.argv[0], home=home, tmp=tmp, relay=command, token=token(Path(tmp))
    )
    with listener:
        socket.send_fds(sock, [wire.packet(ready)], [listener.fileno()])
    try:
        return CliStarter(spec, sock, alone=alone).serve()
    except (BrokenPipeError, ConnectionResetError):  # the bridge has ended
        return ExitCode.OK
