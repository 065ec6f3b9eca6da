"""`clew version`: the versions of clew and Python, the commit where there is one, and the platform."""

from __future__ import annotations

import platform
import subprocess
from pathlib import Path

import click

import clew_daemon
from clew_daemon import VERSION
from clew_daemon.cli import parameters
from clew_daemon.reading.output import print_json

GIT_S = 5.0


@click.command()
@parameters.as_json
def version(as_json: bool) -> None:
    """Show the version of clew; with --json also that of Python, and the platform."""
    if as_json:
        python, here = platform.python_version(), platform.platform()
        found = {"version": VERSION, "commit": _commit() or None}
        print_json({**found, "python": python, "platform": here})
    else:
        print(version_line())


def version_line() -> str:
    """Return the line of `clew --version`."""
    commit = _commit()
    return f"clew {VERSION} ({commit})" if commit else f"clew {VERSION}"


def _commit() -> str:
    """Return the commit that this clew was built from, or is a checkout of; "" where neither is known."""
    package = Path(clew_daemon.__file__).parent
    if (package / "commit").exists():
        return (package / "commit").read_text().strip()
    clone = package.parents[1]
    if not (clone / ".git").exists():
        return ""
    command = ["git", "-C", str(clone), "rev-parse", "--short=7", "HEAD"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=GIT_S)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()
