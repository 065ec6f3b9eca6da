"""What each command imports: the rule that keeps `clew` light; others belong into the function that needs them."""

import subprocess
import sys

import pytest

NEEDLESS = {
    "httpx2", "watchdog", "uvloop", "structlog", "psutil", "clew_worker", "textual",
    "starlette", "uvicorn", "jinja2", "anyio",  # the daemon's, the workers' and the views'
    "apprise", "prometheus_client", "opentelemetry", "google",  # for `clew herald` alone
    "rich", "pygments", "asyncio", "markdown_it", "yaml",
    "pydantic", "pydantic_core", "apsw", "email",  # with these a command takes three times as long
}  # fmt: skip
SCRIPT = """
import sys
from clew_daemon.cli import run
code = run(sys.argv[1:])
print(*sorted(m for m in sys.modules if "." not in m), file=sys.stderr)
sys.exit(code)
"""


@pytest.mark.parametrize(
    "args",
    [[], ["--help"], ["--version"], ["status", "--help"], ["submit", "--help"], ["logs"]],
    ids=" ".join,
)
def test_help_version_and_log_need_neither_models_nor_the_ledger(tmp_path, args):
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "clew.log").write_text('{"event": "daemon.ready"}\n')
    command = [sys.executable, "-c", SCRIPT, "--home", str(tmp_path), *args]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    seen = set(done.stderr.split())
    assert "click" in seen
    assert not seen & NEEDLESS
