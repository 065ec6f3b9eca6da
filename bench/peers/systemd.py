"""systemd: a real user manager in namespaces of its own, where the tool for it and the right to use it are there."""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from bench.peers import processes
from bench.peers.install import MissingError
from bench.peers.peer import Child, Peer, wait_for_file

if TYPE_CHECKING:
    import psutil

TOOL = Path(__file__).parents[2].parent / "shared" / "tools" / "systemd-user.sh"
MANAGER = "/lib/systemd/systemd"
INSIDE = """\
mkdir -p ~/.config/systemd/user; cp {units}/*.service ~/.config/systemd/user/ 2>/dev/null
systemctl --user daemon-reload && touch {up}
cd {units}; for unit in *.service; do test -e "$unit" && echo "$unit"; done | xargs -r systemctl --user --no-block start
cat >/dev/null  # until the bench closes its end
"""


class Systemd(Peer):
    name, key = "systemd", "systemd"
    setting = "`Restart=always`; by default `RestartSec=100ms`, five starts in 10 s at most"
    restart_s: str | None = None

    def install(self) -> str:
        if os.getuid() or not TOOL.exists() or not Path(MANAGER).exists():
            raise MissingError(f"a user manager needs root, {MANAGER} and {TOOL.name} in ../shared")
        said = subprocess.check_output([MANAGER, "--version"], text=True)
        return said.split()[1]

    def begin(self, children: list[Child]) -> None:
        units, up = self.fresh("units"), self.folder / "up"
        units.mkdir()
        up.unlink(missing_ok=True)
        for child in children:
            (units / f"{child.name}.service").write_text(self._unit(child))
        script = INSIDE.format(units=shlex.quote(str(units)), up=shlex.quote(str(up)))
        self.launch(str(TOOL), "--", "sh", "-c", script, SD_UID="0", TMPDIR=str(self.folder))
        wait_for_file(up)

    def _unit(self, child: Child) -> str:
        lines = ["[Service]", f"ExecStart={shlex.join(child.argv)}", "Restart=always"]
        if self.restart_s is not None:
            lines.append(f"RestartSec={self.restart_s}")
        return "\n".join(lines) + "\n"

    def top(self) -> psutil.Process:
        return next(one for one in self._all() if processes.command(one)[:2] == [MANAGER, "--user"])

    def pids(self, names: list[str]) -> list[int]:
        """The children by the pids that they have in the manager's PID namespace."""
        seen = {processes.pid_inside(one): one.pid for one in self._all()}
        return [seen[self.said.last[name].pid] for name in names]

    def ask_to_end(self) -> None:
        """Close its standard input, and it takes down what it made."""
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


class SystemdAtOnce(Systemd):
    name, key = "systemd, RestartSec=0", "systemd-0"
    setting = "`Restart=always`, `RestartSec=0`"
    restart_s = "0"
