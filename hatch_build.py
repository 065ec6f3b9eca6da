"""Puts the commit that a wheel is built from into it, for `clew --version`; without git there is none."""

import subprocess
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

COMMIT = ["git", "rev-parse", "--short=7", "HEAD"]


class CommitHook(BuildHookInterface[Any]):
    """Adds `clew_daemon/commit` to a wheel that is built in a clone."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version != "standard" or not Path(self.root, ".git").exists():
            return
        try:
            done = subprocess.run(COMMIT, cwd=self.root, capture_output=True, text=True, check=True)
        except (OSError, subprocess.SubprocessError):
            return
        self._file = tempfile.NamedTemporaryFile("w", suffix=".commit")  # noqa: SIM115 - read later
        self._file.write(done.stdout)
        self._file.flush()
        build_data["force_include"][self._file.name] = "clew_daemon/commit"
