"""A process that has imported the daemon, the nursery and the command line, and forks them for tests.

A start of Python with all imports takes most of the CPU time of a short test. A fork of this process continues as
`python -m clew_daemon`, `python -c CODE` or `python SCRIPT` would, with its own arguments, environment, folder and
standard streams. A daemon's first nursery is forked as well, before the daemon has read anything. The forked process
becomes a child of the test process, which must be a subreaper. It ends without taking all modules apart, which would
cost as much as all else that a short command does.
"""

import atexit
import contextlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from pathlib import Path
from types import SimpleNamespace

import setproctitle

REQUEST_BYTES_MAX = 1 << 20
START_S = 60.0
AT_START = ("PYTHON", "LC_", "LANG", "LD_", "TZ", "PYDANTIC")
"""Variables that matter while Python starts: a process that needs other values of them cannot be forked."""


class Process:
    """A child process that was not started by `subprocess`, in the way of a `Popen`."""

    def __init__(self, pid, args=()):
        self.pid = pid
        self.args = args
        self.returncode = None

    def poll(self):
        if self.returncode is None:
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:  # reaped by another home's search for leftovers
                pid, status = self.pid, 0
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self, timeout=None):
        if self.poll() is None:
            watched = os.pidfd_open(self.pid)
            try:
                if not select.select([watched], [], [], timeout)[0]:
                    raise subprocess.TimeoutExpired(self.args, timeout)
            finally:
                os.close(watched)
            while self.poll() is None:  # what traces it has not yet heard of its end
                time.sleep(0.01)
        return self.returncode

    def send_signal(self, signum):
        if self.poll() is None:
            os.kill(self.pid, signum)

    def kill(self):
        self.send_signal(signal.SIGKILL)

    def terminate(self):
        self.send_signal(signal.SIGTERM)


class Forge:
    """The tests' side: starts the process, and asks it for others."""

    pid = 0  # of the one process, which is no leftover of any home

    def __init__(self):
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._line.settimeout(START_S)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
            )
        Forge.pid = self._process.pid

    def can(self, command, env):
        """Whether a fork would be no different from a start of this command in this environment."""
        python, what, *_ = command
        plain = what in ("-m", "-c") or what.endswith(".py")
        return python == sys.executable and plain and at_start(env) == at_start(os.environ)

    def start(self, command, env, streams):
        """Fork a process for this command, with these descriptors as its standard streams."""
        request = {"command": command, "env": env, "cwd": str(Path.cwd())}
        socket.send_fds(self._line, [json.dumps(request).encode()], streams)
        return Process(int(self._line.recv(64)), command)

    def run(self, command, env, given, timeout):
        """Run a command to its end, as `subprocess.run` does."""
        file = tempfile.TemporaryFile
        with file() as stdin, file() as stdout, file() as stderr:
            stdin.write(given.encode())
            stdin.seek(0)
            streams = [stdin.fileno(), stdout.fileno(), stderr.fileno()]
            process = self.start(command, env, streams)
            try:
                process.wait(timeout)
            finally:
                process.kill()
                process.wait()
            texts = [read(file) for file in (stdout, stderr)]
        return subprocess.CompletedProcess(command, process.returncode, *texts)


def read(file):
    file.seek(0)
    return file.read().decode()


def at_start(env):
    return {name: value for name, value in env.items() if name.startswith(AT_START)}


def serve(line):
    """Fork for each request; only a forked process returns, with its request."""
    while True:
        data, fds, _, _ = socket.recv_fds(line, REQUEST_BYTES_MAX, 3)
        if not data:
            sys.exit()
        told, tell = os.pipe()
        adopted, adopt = os.pipe()
        parent = os.fork()
        if not parent:
            if pid := os.fork():
                os.write(tell, str(pid).encode())
                os._exit(0)
            os.close(adopt)
            os.read(adopted, 1)  # until the parent has ended
            for fd in (told, tell, adopted):
                os.close(fd)
            line.close()
            return json.loads(data), fds
        for fd in (*fds, tell, adopted):
            os.close(fd)
        os.waitpid(parent, 0)
        os.close(adopt)
        line.send(os.read(told, 64))
        os.close(told)


def become(env, cwd, fds):
    """Take over the environment, the folder and the standard streams."""
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    for fd, number in zip(fds, range(3), strict=True):
        os.dup2(fd, number)
        os.close(fd)
    sys.stdin = sys.__stdin__ = open(0, closefd=False)  # noqa: SIM115 - stays open
    sys.stdout = sys.__stdout__ = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = sys.__stderr__ = open(2, "w", closefd=False, errors="backslashreplace")  # noqa: SIM115


def fork_nursery():
    """Fork what becomes this process's first nursery, once that is started in the usual way."""
    from clew_daemon.processes import nursery as warm

    line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if not pid:
        line.close()
        nursery(theirs)
    theirs.close()

    def start(command, *, pass_fds, env, **options):
        warm.subprocess = subprocess  # the next one is started by itself
        request = {"command": command, "env": env, "fd": pass_fds[0]}
        with line:
            socket.send_fds(line, [json.dumps(request).encode()], pass_fds)
        return Process(pid, command)

    warm.subprocess = SimpleNamespace(
        Popen=start, DEVNULL=subprocess.DEVNULL, TimeoutExpired=subprocess.TimeoutExpired
    )


def nursery(line):
    """Wait to be started, and be the nursery."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with line:
        data, fds, _, _ = socket.recv_fds(line, REQUEST_BYTES_MAX, 1)
    if not data:
        os._exit(0)
    request = json.loads(data)
    if fds[0] != request["fd"]:
        os.dup2(fds[0], request["fd"])
        os.close(fds[0])
    null = os.open(os.devnull, os.O_RDWR)
    become(request["env"], "/", [null, os.dup(1), os.dup(2)])
    continue_as(request["command"])


def continue_as(command):
    """Be the program of this command, from its beginning to its end."""
    from clew_daemon.cli import main as clew
    from clew_worker.cell import nursery as cell_nursery

    code = 0
    sys.orig_argv[1:] = command[1:]
    try:
        match [one for one in command[1:] if one != "-P"]:
            case ["-m", "clew_daemon", *args]:
                sys.argv = ["clew", *args]
                clew()
            case ["-m", "clew_worker.cell.nursery", *args]:
                code = cell_nursery.main(["nursery", *args])
            case ["-c", text, *args]:
                sys.argv = ["-c", *args]
                exec(text, {"__name__": "__main__"})
            case [script, *args]:
                sys.argv = [script, *args]
                sys.path.insert(0, str(Path(script).parent))
                runpy.run_path(script, run_name="__main__")
    except SystemExit as ended:
        code = ended.code
    except BaseException:  # noqa: BLE001 - as Python's own end does it
        traceback.print_exc()
        code = 1
    if not isinstance(code, int | None):
        sys.stderr.write(f"{code}\n")
        code = 1
    threading._shutdown()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code or 0)


def preload():
    """Import what a daemon and a nursery import."""
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    import gc

    import clew_daemon.app.lifecycle
    import clew_daemon.cli.app
    import clew_worker.cell.nursery

    clew_worker.cell.nursery.preload([])
    for command in clew_daemon.cli.app.COMMANDS:
        command.imported()
    gc.collect()
    gc.freeze()


def main():
    sys.path.pop(0)  # the folder of this file
    line = socket.socket(fileno=int(sys.argv[1]))
    line.set_inheritable(False)
    env = dict(os.environ)
    setproctitle.getproctitle()  # it finds its room beside the first environment, which is cleared below
    preload()
    os.environ.clear()
    os.environ.update(env)
    request, fds = serve(line)
    become(request["env"], request["cwd"], fds)
    time.tzset()
    sys.path.insert(0, request["cwd"])
    if request["command"][-1] == "run":
        fork_nursery()
    continue_as(request["command"])


if __name__ == "__main__":
    main()
