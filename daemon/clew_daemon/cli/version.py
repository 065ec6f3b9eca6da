"""The version of clew, with the commit where there is one."""

from __future__ import annotations

import subprocess
from pathlib import Path

import clew_daemon
from clew_daemon import VERSION

GIT_S = 5.0


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
