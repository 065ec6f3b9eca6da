"""Peers from their registries, each into an environment of its own under bench/peers/.env: once, nothing global.

An environment is complete when its stamp says what was asked for; otherwise it is made again. For what cannot be
installed here (no apt, no npm, no network) `MissingError` is raised, and the bench continues without that peer.
"""

import fcntl
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

ENV = Path(__file__).parent / ".env"
INSTALL_S = 600


class MissingError(Exception):
    """A peer that cannot be installed on this machine, with the reason."""


def venv(name: str, *requirements: str) -> Path:
    """Make a Python environment with these packages, and return its `bin` folder."""

    def make(folder: Path) -> None:
        _run(sys.executable, "-m", "venv", str(folder))
        _run(str(folder / "bin" / "python"), "-m", "pip", "install", "-q", *requirements)

    return _once(name, requirements, make) / "bin"


def npm(name: str, *packages: str) -> Path:
    """Make an npm prefix with these packages, and return its folder of programs."""

    def make(folder: Path) -> None:
        (folder / "package.json").write_text("{}\n")
        quiet = ("--no-audit", "--no-fund", "--loglevel=error")
        _run("npm", "install", *quiet, *packages, cwd=folder)

    return _once(name, packages, make) / "node_modules" / ".bin"


def debian(name: str, *packages: str) -> Path:
    """Unpack Debian packages without installing them, and return the folder that stands for `/`."""

    def make(folder: Path) -> None:
        _run("apt-get", "download", "-qq", *packages, cwd=folder)
        debs = sorted(folder.glob("*.deb"))
        for deb in debs:
            _run("dpkg", "-x", str(deb), str(folder))
            deb.unlink()
        (folder / "debs").write_text("\n".join(deb.name for deb in debs) + "\n")

    return _once(name, packages, make)


def debian_version(folder: Path) -> str:
    """Return the version of the package after which an unpacked folder is named."""
    debs = (folder / "debs").read_text().split()
    return next(deb.split("_")[1] for deb in debs if deb.startswith(f"{folder.name}_"))


def _once(name: str, wanted: tuple[str, ...], make: Callable[[Path], None]) -> Path:
    folder = ENV / name
    stamp, text = folder / ".installed", "\n".join(wanted) + "\n"
    ENV.mkdir(parents=True, exist_ok=True)
    with (ENV / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # one bench installs at a time
        if not (stamp.exists() and stamp.read_text() == text):
            print(f"installing {name}: {' '.join(wanted)}", file=sys.stderr, flush=True)
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            make(folder)
            stamp.write_text(text)
    return folder


def _run(*command: str, cwd: Path | None = None) -> None:
    options = {"timeout": INSTALL_S, "capture_output": True, "text": True}
    try:
        done = subprocess.run(command, cwd=cwd, check=False, **options)
    except (FileNotFoundError, subprocess.TimeoutExpired) as error:
        raise MissingError(f"{command[0]}: {error}") from None
    if done.returncode:
        raise MissingError(f"{' '.join(command[:4])} … failed: {done.stderr.strip()[-300:]}")
