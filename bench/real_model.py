"""A small real model behind an OpenAI-compatible endpoint works on three goals: python -m bench.real_model URL MODEL.

It is asked by the built-in agent with what it learned in the runs before (`clew`), and by the same without the playbook
(`no-playbook`). The goal's checks decide: a goal counts only when the daemon records `completed`; else it ends by its
turns or by the time. One JSON line a run goes to standard output, a table at the end to standard error.
"""

import contextlib
import itertools
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from bench import runner
from bench.home import Home, temporary, wait_for
from bench.page import table

CALC = "def add(a, b):\n    return a - b\n\n\ndef mul(a, b):\n    return a * b\n"
CALC_TESTS = (
    "from calc import add, mul\n\n\ndef test_add():\n    assert add(2, 3) == 5\n\n\n"
    "def test_mul():\n    assert mul(2, 3) == 6\n"
)
PYTEST = {"tests": "python3 -m pytest -q"}
MATHX = "python3 -c 'from mathx import add, sub; assert add(2, 3) == 5 and sub(5, 3) == 2'"
GOALS = {  # text, checks, files
    "hello": (
        "Create a file hello.txt containing hello, then finish",
        {"hello": "grep -qx hello hello.txt"},
        {},
    ),
    "calc": (
        "There is a bug in calc.py: the tests fail. Fix it",
        PYTEST,
        {"calc.py": CALC, "test_calc.py": CALC_TESTS},
    ),
    "mathx": (
        "Create a Python package mathx with add(a, b) and sub(a, b), and pytest tests that pass",
        {"package": MATHX, **PYTEST},
        {},
    ),
}
KINDS = ("clew", "no-playbook")
ENDED = ("completed", "failed", "blocked", "cancelled")
FIELDS = ("status", "iteration", "actions_total", "blocked_total", "reason")
COLUMNS = {
    "iteration": "turns",
    "blocked_total": "refused",
    "tokens_in": "tokens in",
    "tokens_out": "out",
    "seconds": "s",
}


def asked(home: Home, *args: str) -> dict:
    done = subprocess.run(home.command(*args), check=True, capture_output=True, text=True)
    return json.loads(done.stdout) if "--json" in args else {}


def config(kind: str, options: runner.Options) -> str:
    model = f"base_url = '{options.url}'\nmodel = '{options.model}'\nmode = '{options.mode}'\n"
    learns = str(kind == "clew").lower()
    return (
        f"[daemon]\nmax_workers = 1\n[context]\nmax_iterations = {options.turns}\n"
        f"[playbook]\nenabled = {learns}\n[agents.default]\n{model}timeout_s = 600\n"
    )


def run(home: Home, name: str, number: int, limit_s: float) -> dict:
    """Work on a goal once; return its status."""
    text, checks, files = GOALS[name]
    workspace, outbox = home.folder / "work" / f"{name}-{number}", home.folder / "outbox"
    workspace.mkdir(parents=True)
    for path, content in files.items():
        (workspace / path).write_text(content)
    lines = "\n".join(f"  {check}: {json.dumps(cmd)}" for check, cmd in checks.items())
    known, began = {*outbox.glob("*.md")}, time.monotonic()
    front = f"---\nworkspace: {workspace}\nchecks:\n{lines}\n---\n"
    home.drop(f"{name}-{number}.md", f"{front}{text}\n")
    with contextlib.suppress(TimeoutError):
        (report,) = wait_for(lambda: {*outbox.glob("*.md")} - known, limit_s, 0.2)
        seconds = time.monotonic() - began
        return asked(home, "status", report.stem, "--json")["goal"] | {"seconds": seconds}
    goals = asked(home, "status", "--json")["goals"]
    (late,) = (goal["id"] for goal in goals if goal["status"] not in ENDED)
    asked(home, "cancel", late)
    wait_for((outbox / f"{late}.md").exists, 600, 0.2)
    found = asked(home, "status", late, "--json")["goal"]
    return found | {"status": "too long", "seconds": limit_s}


def row(kind: str, name: str, number: int, found: dict) -> dict:
    turn = {"kind": kind, "goal": name, "run": number, "seconds": round(found["seconds"], 1)}
    return turn | {key: found[key] for key in FIELDS} | found["cost"]


def summary(rows: list[dict]) -> str:
    lines = []
    for name, kind in itertools.product(GOALS, KINDS):
        if runs := [one for one in rows if (one["goal"], one["kind"]) == (name, kind)]:
            done = sum(one["status"] == "completed" for one in runs)
            cells = [f"{statistics.median(one[key] for one in runs):g}" for key in COLUMNS]
            lines.append([name, kind, f"{done} of {len(runs)}", *cells])
    return table(("goal", "context", "completed", *COLUMNS.values()), lines)


def main() -> None:
    given = {
        "runs": (5, "of each goal and kind"),
        "kinds": ([*KINDS], "with and without a playbook"),
        "goals": ([*GOALS], "which ones"),
        "mode": ("auto", "how the model calls tools"),
        "turns": (20, "at most, of each run"),
        "limit": (600.0, "seconds of each run"),
    }
    parser = runner.parser("bench.real_model", __doc__, given)
    parser.add_argument("url")
    parser.add_argument("model")
    options = parser.parse_args()
    os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    rows: list[dict] = []
    with contextlib.ExitStack() as stack:
        homes = {
            kind: stack.enter_context(temporary(config(kind, options))).start()
            for kind in options.kinds
        }
        # in turns, so that the machine's load is the same for all
        for name, number in itertools.product(options.goals, range(options.runs)):
            for kind, home in homes.items():
                rows.append(row(kind, name, number, run(home, name, number, options.limit)))
                print(json.dumps(rows[-1]), flush=True)
    print(summary(rows), file=sys.stderr)


if __name__ == "__main__":
    main()
