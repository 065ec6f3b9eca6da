"""A key by a credential of the unit, given by a real systemd user manager to an ordinary user's daemon."""

import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

import pytest
from llm_server import ScriptedLlm, calls

sys.path.insert(0, str(Path(__file__).parents[1] / "security"))

import as_user

ROOT = Path(__file__).parents[2]
TOOL = ROOT.parent / "shared" / "tools" / "systemd-user.sh"
KEY = "Unit/test+4fT9bQ2mW8sLcVnR5yH1dKj0aG3pE6uIoXzB7iUeMq"

pytestmark = pytest.mark.systemd

CONFIG = """\
[sandbox]
mode = "best_effort"
read = ["SITE"]
[agents.hosted]
base_url = "URL"
model = "scripted"
api_key_file = "$CREDENTIALS_DIRECTORY/llm"
"""

LIFE = """\
set -eu
clew() { PYTHON -m clew_daemon "$@"; }
failed() { echo "$1"; journalctl --user-unit clew --no-pager -o cat | tail -20; exit 1; }
export PYTHONPATH=PATHS
export PYTHONDONTWRITEBYTECODE=1
mkdir -p ~/.config/clew ~/.config/systemd/user
cp CONFIG ~/.config/clew/config.toml
(umask 077; echo KEY > ~/llm.key)
cat > ~/.config/systemd/user/clew.service <<END
[Service]
Type=notify
Environment="PYTHONPATH=PLAIN" PYTHONDONTWRITEBYTECODE=1
LoadCredential=llm:%h/llm.key
ExecStart=PYTHON -m clew_daemon run
END
systemctl --user daemon-reload
systemctl --user start clew
goal=$(printf -- '---\\nagent: hosted\\n---\\nAsk\\n' | clew submit -)
report=~/.local/share/clew/outbox/$goal.md
for _ in $(seq 600); do test -e $report && break; sleep 0.1; done
grep -q "status: .*failed" $report || failed "$(cat $report)"
if grep -q KEY /proc/$(systemctl --user show -p MainPID --value clew)/environ; then failed environ; fi
systemctl --user stop clew
if grep -rl KEY ~/.local; then failed written; fi
if journalctl --user-unit clew --no-pager -o cat | grep KEY; then failed logged; fi
clew doctor | grep -A1 "agent hosted"
echo "all of it"
"""


def python_of_others() -> str:
    """A Python of this version that an ordinary user may run; "" where there is none."""
    found = shutil.which(f"python{sys.version_info[0]}.{sys.version_info[1]}", path="/usr/bin")
    return found or ""


@pytest.fixture
def open_folder():
    """A folder that everybody may read; pytest's own are closed to others."""
    with tempfile.TemporaryDirectory(prefix="clew-test-") as made:
        Path(made).chmod(0o755)
        yield Path(made)


def test_a_key_is_given_by_a_credential_of_the_unit(open_folder):
    if not TOOL.exists() or not Path("/lib/systemd/systemd").exists():
        pytest.skip("needs systemd, and the script that starts a throw-away manager")
    if reason := as_user.reason_to_skip():
        pytest.skip(reason)
    if not python_of_others():
        pytest.skip("an ordinary user has no Python of this version")
    site = sysconfig.get_paths()["purelib"]
    paths = ":".join([site, *(str(ROOT / name) for name in ("daemon", "shared", "worker"))])
    with ScriptedLlm(then=calls(("finish", {"success": False, "summary": f"no {KEY}"}))) as llm:
        config = open_folder / "given.toml"
        config.write_text(CONFIG.replace("URL", llm.base_url).replace("SITE", site))
        script = LIFE.replace("CONFIG", str(config)).replace("KEY", KEY)
        script = script.replace("PATHS", shlex.quote(paths)).replace("PLAIN", paths)
        script = script.replace("PYTHON -m", f"{python_of_others()} -m")
        manager = [str(TOOL.resolve()), "bash", "-c", script]
        done = subprocess.run(
            [sys.executable, as_user.__file__, "0", *manager],  # clew may lie in a closed folder
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=100,
            check=False,
        )
    assert done.returncode == 0, done.stdout
    assert llm.headers[0]["authorization"] == f"Bearer {KEY}"
    assert "LoadCredential=llm:" in done.stdout
    assert done.stdout.rstrip().endswith("all of it")
