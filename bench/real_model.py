"""Small goals with a real model, by the real daemon: python bench/real_model.py BASE_URL MODEL [RUNS] [MODE ...].

Three goals, each RUNS times (5) in each MODE (tools json): a file with a word in it, a package with tests, a bug to
mend. One goal at a time. Printed for each run: how it ended, turns, actions, refusals, tokens, seconds. A goal counts
only when the daemon says `completed`, that is, when its checks have passed.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

GOALS = {
    "hello": (
        "Create a file hello.txt containing hello, then finish",
        {"hello": "grep -qx hello hello.txt"},
        {},
    ),
    "mathx": (
        "Create a Python package mathx with add(a, b) and sub(a, b), and pytest tests that pass",
        {
            "package": "python3 -c 'from mathx import add, sub; assert add(2, 3) == 5 and sub(5, 3) == 2'",
            "tests": "python3 -m pytest -q",
        },
        {},
    ),
    "calc": (
        "There is a bug in calc.py: the tests fail. Fix it",
        {"tests": "python3 -m pytest -q"},
        {
            "calc.py": "def add(a, b):\n    return a - b\n\n\ndef mul(a, b):\n    return a * b\n",
            "test_calc.py": "from calc import add, mul\n\n\ndef test_add():\n    assert add(2, 3) == 5\n\n\n"
            "def test_mul():\n    assert mul(2, 3) == 6\n",
        },
    ),
}
LIMIT_S = float(os.environ.get("LIMIT_S", "900"))


def status(home: Path) -> list[dict]:
    command = [sys.executable, "-m", "clew_daemon", "--home", str(home), "status", "--json"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)[
        "goals"
    ]


def detail(home: Path, goal: str) -> dict:
    command = [sys.executable, "-m", "clew_daemon", "--home", str(home), "status", goal, "--json"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)[
        "goal"
    ]


def run(home: Path, name: str, mode: str, number: int) -> dict:
    text, checks, files = GOALS[name]
    workspace = home / "work" / f"{name}-{mode}-{number}"
    workspace.mkdir(parents=True)
    for path, content in files.items():
        (workspace / path).write_text(content)
    lines = "\n".join(f"  {check}: {json.dumps(cmd)}" for check, cmd in checks.items())
    known = {g["id"] for g in status(home)}
    drop = home / "inbox" / f"{name}-{mode}-{number}.md"
    drop.write_text(f"---\nworkspace: {workspace}\nagent: {mode}\nchecks:\n{lines}\n---\n{text}\n")
    began = time.monotonic()
    while time.monotonic() - began < LIMIT_S:
        time.sleep(1)
        for goal in status(home):
            if goal["id"] not in known and goal["status"] in (
                "completed",
                "failed",
                "blocked",
                "cancelled",
            ):
                return detail(home, goal["id"]) | {"seconds": time.monotonic() - began}
    late = next(g["id"] for g in status(home) if g["id"] not in known)
    cancel = [sys.executable, "-m", "clew_daemon", "--home", str(home), "cancel", late]
    subprocess.run(cancel, check=True, capture_output=True)
    return detail(home, late) | {"status": "too long", "seconds": LIMIT_S}


def main() -> None:
    base_url, model = sys.argv[1:3]
    runs = int(sys.argv[3]) if len(sys.argv) > 3 else 5
    modes = sys.argv[4:] or ["tools", "json"]
    goals = os.environ.get("GOALS", " ".join(GOALS)).split()
    with tempfile.TemporaryDirectory(prefix="clew-model-", dir="/var/tmp") as name:
        home = Path(name)
        (home / "config.toml").write_text(
            "[daemon]\nmax_workers = 1\n"
            + "".join(
                f"[agents.{m}]\nkind = 'llm'\nbase_url = '{base_url}'\nmodel = '{model}'\n"
                f"mode = '{m}'\ntimeout_s = 600\n"
                for m in modes
            )
        )
        env = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        with (home / "log").open("w") as log:
            daemon = subprocess.Popen(
                [sys.executable, "-m", "clew_daemon", "--home", name, "run"], stdout=log, env=env
            )
        try:
            while "daemon.ready" not in (home / "log").read_text():
                time.sleep(0.1)
            for goal in goals:
                for mode in modes:
                    for number in range(runs):
                        found = run(home, goal, mode, number)
                        cost = found.get("cost") or {}
                        print(
                            f"{goal:6} {mode:6} {number} {found['status']:10} turns {found.get('iteration')}"
                            f" actions {found.get('actions_total')} refused {found.get('blocked_total')}"
                            f" tokens {cost.get('tokens')} {found['seconds']:.0f} s {found.get('reason') or ''}",
                            flush=True,
                        )
                        if os.environ.get("KEEP"):
                            subprocess.run(["cp", "-r", str(home), os.environ["KEEP"]], check=False)
        finally:
            daemon.send_signal(signal.SIGTERM)
            daemon.wait(30)


if __name__ == "__main__":
    main()
