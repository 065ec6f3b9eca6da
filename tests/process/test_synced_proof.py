"""Nothing is heard of before it is durable, as the kernel sees it: strace stands beside a real daemon."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STEPS = 8

pytestmark = pytest.mark.skipif(not shutil.which("strace"), reason="strace is missing")


def prove(trace: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bench.synced", "--steps", str(STEPS), "--trace", str(trace)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=150, check=False
    )
    if done.returncode == 2:
        pytest.skip(done.stdout)
    return done


def test_a_sync_of_the_log_stands_between_each_record_and_its_answer(tmp_path):
    found = prove(tmp_path / "trace")
    assert found.returncode == 0, found.stdout + found.stderr
    assert f"{2 * STEPS} answers checked" in found.stdout

    without = tmp_path / "without"
    lines = (tmp_path / "trace").read_text(errors="replace").splitlines(keepends=True)
    without.write_text("".join(line for line in lines if "fdatasync" not in line))
    assert prove(without).returncode == 1, "a log that is never synced was not noticed"
