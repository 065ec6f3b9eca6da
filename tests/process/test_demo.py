"""`clew demo` for real: the first thing that a person sees of clew must hold what it says."""

import os
import re
import subprocess
import sys

import pytest


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
