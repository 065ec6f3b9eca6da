"""`clew demo` for real: the first thing that a person sees of clew must hold what it says."""

import os
import re
import subprocess
import sys

import pytest


def test_the_demo_completes_its_goals_and_leaves_nothing_behind(tmp_path):
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-m", "clew_daemon", "demo", "--chaos"]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=110, check=False, env=env
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    assert "ledger: ok" in done.stdout
    assert "refused: sh check.sh: 3rd time the same" in done.stdout
    assert "says it is done: refused, tests_pass fails" in done.stdout
    assert "it proves nothing" not in done.stdout
    assert "demo passed" in done.stdout
    assert (
        len(re.findall(r"^  clew ", done.stdout.partition("What to try next:")[2], re.MULTILINE))
        == 4
    )
    for label in ("proven", "with tests of its own; there were none before"):
        assert f"status: **completed, {label}**" in done.stdout
    killed = re.search(r"workers killed: (\d+)", done.stdout)
    assert (int(killed[1]) if killed else 0) >= 3
    assert list(tmp_path.iterdir()) == []
    daemon = re.search(r"daemon: pid (\d+)", done.stdout)
    assert daemon is not None
    with pytest.raises(ProcessLookupError):
        os.kill(int(daemon[1]), 0)


@pytest.mark.parametrize(("number", "code"), [(2, 130), (15, 143)], ids=["SIGINT", "SIGTERM"])
def test_a_demo_that_is_stopped_stops_its_daemon_and_removes_its_home(tmp_path, number, code):
    command = [sys.executable, "-m", "clew_daemon", "demo"]
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env
    ) as demo:
        assert demo.stdout is not None
        daemon = re.search(r"pid (\d+)", demo.stdout.readline())
        demo.send_signal(number)
        _, err = demo.communicate(timeout=60)
    assert (demo.returncode, err) == (code, "")
    assert list(tmp_path.iterdir()) == []
    assert daemon is not None
    with pytest.raises(ProcessLookupError):
        os.kill(int(daemon[1]), 0)
