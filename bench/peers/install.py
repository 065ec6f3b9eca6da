"""Peers from their registries, each into an environment of its own under bench/peers/.env: once, and nothing global.

An environment is whole when its stamp is there and says what was asked for; else it is made anew. What cannot be had
here (no apt, no npm, no network) is a `MissingError`, and the bench goes on without that peer.
"""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ENV = Path(__file__).parent / ".env"
INSTALL_S = 600


class MissingError(Exception):
    """A peer that cannot be had on this machine; the message says why."""


def venv(name: str, *requirements: str) -> Path:
    """Make a Python environment with these packages; gives its `bin` folder."""

    def make(folder: Path) -> None:
        _run(sys.executable, "-m", "venv", str(folder))
        _run(str(folder / "bin" / "python"), "-m", "pip", "install", "-q", *requirements)

    return _once(name, requirements, make) / "bin"


def npm(name: str, *packages: str) -> Path:
    """Make an npm prefix with these packages; gives its folder of programs."""

    def make(folder: Path) -> None:
        (folder / "package.json").write_text("{}\n")
        quiet = ("--no-audit", "--no-fund", "--loglevel=error")
        _run("npm", "install", *quiet, *packages, cwd=folder)

    return _once(name, packages, make) / "node_modules" / ".bin"


def debian(name: str, *packages: str) -> Path:
    """Unpack Debian packages, without installing them; gives the folder that stands for `/`."""

    def make(folder: Path) -> None:
        _run("apt-get", "download", "-qq", *packages, cwd=folder)
        debs = sorted(folder.glob("*.deb"))
        for deb in debs:
            _run("dpkg", "-x", str(deb), str(folder))
            deb.unlink()
        (folder / "debs").write_text("\n".join(deb.name for deb in debs) + "\n")

    return _once(name, packages, make)


def debian_version(name: str, package: str) -> str:
    """The version of a package that `debian` unpacked: `runit_2.1.2-54_amd64.deb`."""
    debs = (ENV / name / "debs").read_text().split()
    return next(deb.split("_")[1] for deb in debs if deb.startswith(f"{package}_"))


def _once(name: str, asked: tuple[str, ...], make: Callable[[Path], None]) -> Path:
    folder, wanted = ENV / name, "\n".join(asked) + "\n"
    stamp = folder / ".installed"
    with _lock():
        if not (stamp.exists() and stamp.read_text() == wanted):
            print(f"installing {name}: {' '.join(asked)}", file=sys.stderr, flush=True)
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            make(folder)
            stamp.write_text(wanted)
    return folder


@contextmanager
def _lock() -> Iterator[None]:
    """Let one bench install at a time."""
    ENV.mkdir(parents=True, exist_ok=True)
    with (ENV / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _run(*command: str, cwd: Path | None = None) -> None:
    try:
        done = subprocess.run(
            command, cwd=cwd, check=False, timeout=INSTALL_S, capture_output=True, text=True
        )
    except (FileNotFoundError, subprocess.TimeoutExpired) as error:
        raise MissingError(f"{command[0]}: {error}") from None
    if done.returncode:
        raise MissingError(f"{' '.join(command[:4])} … failed: {done.stderr.strip()[-300:]}")
