"""Real coding agents outside clew: started as clew does it, a double in the place of its MCP server."""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from installed import BASE, native
from scripted_endpoint import ScriptedEndpoint

from clew_worker.bridge.clis import CLIS
from clew_worker.bridge.clis.cli import CliOptions

DOUBLE = Path(__file__).parent / "mcp_double.py"
TURN_MAX_S = 300
"""For a machine that does much else; a turn takes seconds."""


@dataclass
class Turn:
    """What one run of a CLI printed, as events, and what it asked its model."""

    events: list
    code: int
    seen: list
    workspace: Path

    def of(self, kind):
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def results(self):
        """The results of tools that the last request told the model."""
        return self.seen[-1].results


class RealCli:
    """One CLI with a HOME and a workspace of its own."""

    def __init__(self, name, folder, *, key="k"):
        self.cli, self.program, self.key = CLIS[name], native(name), key
        self.home, self.workspace, self.tmp = folder / "home", folder / "workspace", folder / "tmp"
        for one in (self.home, self.workspace, self.tmp):
            one.mkdir(parents=True)

    def turn(self, script, *, model="m", session="", prompt="Do the work."):
        """Run one turn against a model that plays the script."""
        relay = (sys.executable, "-I", "-S", str(DOUBLE), str(self.home / "calls.jsonl"))
        with ScriptedEndpoint(script) as endpoint:
            url = endpoint.url + BASE[self.cli.name]
            options = CliOptions(str(self.program), relay, str(self.home), model, url, self.key)
            launch = self.cli.launch(options, prompt, session)
            self._write(launch.files)
            ended = self._run(launch)
        reader = self.cli()
        lines = ended.stdout.splitlines() + ended.stderr.splitlines()
        events = [event for line in lines for event in reader.feed(line)]
        return Turn(events, ended.returncode, endpoint.talks, self.workspace)

    def _write(self, files):
        for name, text in files.items():
            path = self.home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def _run(self, launch):
        own = {"HOME": str(self.home), "TMPDIR": str(self.tmp), "TZ": "UTC"}
        env = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", **own, **launch.env}
        return subprocess.run(
            launch.argv,
            env=env,
            cwd=self.workspace,
            input=launch.stdin.encode(),
            capture_output=True,
            timeout=TURN_MAX_S,
            check=False,
        )


@pytest.fixture
def make_cli(tmp_path):
    """Give a function that makes a CLI by its name."""
    return lambda name, folder="", **keys: RealCli(name, tmp_path / (folder or name), **keys)
