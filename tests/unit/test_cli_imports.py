"""What each command imports, and what it must do without: the rule that keeps `clew` quick to start, and light.

An import that a test here finds belongs into the function that needs it.
"""

import asyncio
import os
import subprocess
import sys

import pytest

from clew_daemon.record.goals import GoalStore
from clew_shared.config.tables import Settings
from clew_shared.ledger.ledger import Ledger
from clew_shared.record import events as ev
from clew_shared.record.spec import Spec

GOAL = "say-hello-1a2b"
FILE = "# Say hello\n- [ ] Say it\n  ```sh\n  echo hello\n  ```\n"
NEVER = {
    "httpx2", "watchdog", "uvloop", "structlog", "psutil", "clew_worker", "textual",
    "starlette", "uvicorn", "jinja2", "anyio",
}  # fmt: skip
"""No command of a few moments needs these: they are the daemon's and the workers'."""
HERALD = {"apprise", "prometheus_client", "opentelemetry", "google"}
"""These are for `clew herald` alone."""
NEVER |= HERALD
TERMINAL = {"rich", "pygments"}
READING = {"asyncio", "markdown_it", "yaml"}
LIGHT = {"pydantic", "pydantic_core", "apsw", "email"}
"""With these a command takes three times as long; `email` comes with importlib.metadata."""
ALL = NEVER | TERMINAL | READING | LIGHT

SCRIPT = """
import sys
from clew_daemon.cli import run
code = run(sys.argv[1:])
print(*sorted(m for m in sys.modules if "." not in m), file=sys.stderr)
sys.exit(code)
"""


def loaded(script, *args, **env):
    """The top-level modules that are there when a program ends, which must end well."""
    command = [sys.executable, "-c", script, *map(str, args)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=60, env={**os.environ, **env}, check=False
    )
    assert done.returncode == 0, done.stderr
    return set(done.stderr.split())


async def record(folder):
    (folder / "state").mkdir()
    ledger = Ledger.open(folder / "state" / "ledger.db")
    accepted = ev.GoalAccepted(at=1.0, goal_id=GOAL, spec=Spec(description="Say hello"))
    await GoalStore(ledger, Settings()).accept(accepted, b"goal")
    await ledger.close(5)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("imports")
    asyncio.run(record(folder))
    (folder / "state" / "clew.log").write_text('{"event": "daemon.ready"}\n')
    (folder / "goal.md").write_text(FILE)
    return folder


@pytest.mark.parametrize(
    "args",
    [[], ["--help"], ["--version"], ["status", "--help"], ["submit", "--help"], ["logs"]],
    ids=" ".join,
)
def test_help_version_and_log_need_neither_models_nor_the_ledger(home, args):
    seen = loaded(SCRIPT, "--home", home, *args)
    assert "click" in seen
    assert not seen & ALL
