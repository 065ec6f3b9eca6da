"""The supervisors that are compared, one row each, set to "always restart" as their documentation says.

pm2, which detaches itself, and systemd, which runs in namespaces of its own, need a class for what is different.
"""

import contextlib
import importlib.metadata
import json
import os
import shlex
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import psutil
from bench import processes
from bench.home import wait_for
from bench.peers import install
from bench.peers.clew_supervisor import BuiltInPeer, ClewPeer
from bench.peers.peer import ChildSpec, Peer, Row, fresh

TOOL = Path(__file__).parents[2].parent / "shared" / "tools" / "systemd-user.sh"
MANAGER = "/lib/systemd/systemd"
INSIDE = """\
mkdir -p ~/.config/systemd/user; cp {units}/*.service ~/.config/systemd/user/ 2>/dev/null
systemctl --user daemon-reload && touch {up}
cd {units}; for unit in *.service; do test -e "$unit" && echo "$unit"; done | xargs -r systemctl --user --no-block start
cat >/dev/null  # until the bench closes its end
"""
S6_PACKAGES = ("s6", "execline", "libs6-2.11", "libexecline2.9", "libskarnet2.13")


class Pm2Peer(Peer):
    """pm2: every command is a program of its own, which starts or asks the daemon."""

    def begin(self, children: list[ChildSpec]) -> None:
        fresh(self.folder / "pm2")
        argv = {"script": children[0].argv[0], "interpreter": "none"} if children else {}
        cwd = {"cwd": str(self.folder)}
        apps = [{"name": one.name, "args": one.argv[1:], **argv, **cwd} for one in children]
        (self.folder / "apps.json").write_text(json.dumps({"apps": apps}))
        self._run("ping")  # starts the daemon
        wait_for(self._pid_file.exists, 30)
        if apps:
            self._run("start", "apps.json")

    @property
    def _pid_file(self) -> Path:
        return self.folder / "pm2" / "pm2.pid"

    def top(self) -> psutil.Process:
        return psutil.Process(int(self._pid_file.read_text()))

    def stop(self) -> None:
        if self.process is None:
            return
        left = processes.tree(int(self._pid_file.read_text())) if self._pid_file.exists() else []
        try:
            if left:
                self._run("kill")
        finally:
            processes.end(one for one in left if processes.alive(one))
            self.process = None

    def _run(self, *words: str) -> None:
        env = {"PM2_HOME": str(self.folder / "pm2"), "PM2_DISABLE_VERSION_CHECK": "true"}
        self.launch(str(self.bin / "pm2"), *words, **env)
        assert self.process is not None
        if self.process.wait(120):
            raise OSError(f"pm2 {words[0]} failed: {self.tail()}")


class SystemdPeer(Peer):
    """systemd: a real user manager in namespaces of its own, if the tool for that is there."""

    def begin(self, children: list[ChildSpec]) -> None:
        units, up = fresh(self.folder / "units"), self.folder / "up"
        up.unlink(missing_ok=True)
        restart = f"Restart=always\n{'RestartSec=0' if self.key == 'systemd-0' else ''}\n"
        for child in children:
            text = f"[Service]\nExecStart={shlex.join(child.argv)}\n{restart}"
            (units / f"{child.name}.service").write_text(text)
        script = INSIDE.format(units=shlex.quote(str(units)), up=shlex.quote(str(up)))
        self.launch(str(TOOL), "--", "sh", "-c", script, SD_UID="0", TMPDIR=str(self.folder))
        wait_for(up.exists, 30)

    def top(self) -> psutil.Process:
        return next(one for one in self._all() if processes.command(one)[:2] == [MANAGER, "--user"])

    def pids(self, names: list[str]) -> list[int]:
        """Return the children by the pids that they have in the manager's PID namespace."""
        seen = {processes.pid_inside(one): one.pid for one in self._all()}
        return [seen[self.pipe.last[name].pid] for name in names]

    def ask_to_end(self) -> None:
        """Close its standard input, and it removes what it made."""
        assert self.process is not None
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()

    def stop(self) -> None:
        number = self.process.pid if self.process else 0
        super().stop()
        for left in Path("/sys/fs/cgroup").glob(f"**/sdtest-{number}"):
            for group in [*sorted(left.rglob("*/"), reverse=True), left]:
                with contextlib.suppress(OSError):
                    group.rmdir()

    def _all(self) -> list[psutil.Process]:
        assert self.process is not None
        return processes.tree(self.process.pid)


def _clew() -> tuple[Path, str]:
    return Path(), importlib.metadata.version("clew")


def _python(key: str, option: str, program: str, *packages: str) -> Callable[[], tuple[Path, str]]:
    def make() -> tuple[Path, str]:
        folder = install.venv(key, *packages)
        return folder, subprocess.check_output([folder / program, option], text=True).strip()

    return make


def _debian(key: str, programs: str, *packages: str) -> Callable[[], tuple[Path, str]]:
    def make() -> tuple[Path, str]:
        root = install.debian(key, *packages)
        return root / programs, install.debian_version(root)

    return make


def _s6() -> tuple[Path, str]:
    """Debian's s6-svscan starts /usr/bin/s6-supervise; the unpacked copy looks for it on PATH."""
    folder, version = _debian("s6", "usr/bin", *S6_PACKAGES)()
    scan, path = folder / "s6-svscan", b"/usr/bin/s6-supervise\0"
    scan.write_bytes(scan.read_bytes().replace(path, b"s6-supervise\0".ljust(len(path), b"\0")))
    return folder, version


def _pm2() -> tuple[Path, str]:
    folder = install.npm("pm2", "pm2@7.0.4")
    package = (folder / "pm2").resolve().parents[1] / "package.json"
    return folder, str(json.loads(package.read_text())["version"])


def _systemd() -> tuple[Path, str]:
    if os.getuid() or not TOOL.exists() or not Path(MANAGER).exists():
        need = f"a user manager needs root, {MANAGER} and {TOOL.name} in ../shared"
        raise install.MissingError(need)
    return Path(), subprocess.check_output([MANAGER, "--version"], text=True).split()[1]


def _sections(file: str, head: str, section: str, each: str) -> Callable[..., None]:
    """Write an INI file with a section for each child."""

    def configure(folder: Path, children: list[ChildSpec]) -> None:
        parts = [head.format(folder=folder)]
        parts += [f"[{section}:{c.name}]\n{each.format(shlex.join(c.argv))}\n" for c in children]
        (folder / file).write_text("".join(parts))

    return configure


def _services(before: str = "") -> Callable[..., None]:
    """Write a folder of services, each with a `run` script, as runit and s6 read it."""

    def configure(folder: Path, children: list[ChildSpec]) -> None:
        services = fresh(folder / "service")
        for child in children:
            run = services / child.name / "run"
            run.parent.mkdir()
            run.write_text(f"#!/bin/sh\n{before}exec {shlex.join(child.argv)}\n")
            run.chmod(0o755)

    return configure


SUPERVISORD = """\
[supervisord]
nodaemon=true
childlogdir={folder}
logfile=supervisord.log
pidfile=supervisord.pid
"""
CIRCUS = """\
[circus]
pidfile = circus.pid
endpoint = ipc://{folder}/ask
pubsub_endpoint = ipc://{folder}/pub
"""
CIRCUS_PACKAGES = ("circus==0.19.0", "pyzmq==27.3.0", "tornado==6.6.1", "psutil==7.2.2")

# fmt: off
ROSTER: tuple[tuple[type[Peer], Row], ...] = (
    (BuiltInPeer, Row(
        "clew-built-in", "as above; the agent is forked from the nursery, with all that it needs imported", _clew,
        name="clew, built-in agent", watcher="guard", bare=False)),
    (ClewPeer, Row(
        "clew", "as installed, with room for all workers; the first crash in a window restarts at once", _clew,
        watcher="guard")),
    (Peer, Row(
        "supervisord", "`autorestart=true`; by default `startsecs=1`, `startretries=3`; one tick a second",
        _python("supervisord", "-v", "supervisord", "supervisor==4.3.0", "setuptools<81"),
        _sections("conf", SUPERVISORD, "program", "command={}\nautorestart=true"),
        ("{bin}/supervisord", "-c", "conf"), up="supervisord.pid")),
    (Peer, Row(
        "circus", "`respawn` is on by default; `check_delay` 5 s, `warmup_delay` 0",
        _python("circus", "--version", "circusd", *CIRCUS_PACKAGES),
        _sections("circus.ini", CIRCUS, "watcher", "cmd = {}"),
        ("{bin}/circusd", "circus.ini"), up="circus.pid")),
    (Peer, Row(
        "runit", "always restarts; a service that lived under a second waits one",
        _debian("runit", "usr/bin", "runit"), _services(),
        ("{bin}/runsvdir", "{folder}/service"), {"PATH": "{bin}:{path}"},
        stop=signal.SIGHUP,  # it ends its services, too
        watcher="runsv")),
    (Peer, Row(
        "s6", "always restarts; at least a second between two starts", _s6, _services("unset LD_LIBRARY_PATH\n"),
        ("{bin}/s6-svscan", "{folder}/service"),
        {"PATH": "{bin}:{path}", "LD_LIBRARY_PATH": "{bin}/../lib/x86_64-linux-gnu"}, watcher="s6-supervise")),
    (Pm2Peer, Row(
        "pm2", "`autorestart` is on by default; no back-off unless `exp_backoff_restart_delay` is set", _pm2)),
    (SystemdPeer, Row(
        "systemd", "`Restart=always`; by default `RestartSec=100ms`, five starts in 10 s at most", _systemd)),
    (SystemdPeer, Row(
        "systemd-0", "`Restart=always`, `RestartSec=0`", _systemd, name="systemd, RestartSec=0")),
)
# fmt: on
