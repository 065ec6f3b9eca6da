"""A small real model behind an OpenAI-compatible endpoint works on three goals: python -m bench.real_model URL MODEL.

    python -m bench.real_model URL MODEL [RUNS] [KIND...]      KIND: clew, no-playbook, simple
    GOALS="hello calc" MODE=json TURNS=20 LIMIT_S=600 python -m bench.real_model ...

`clew` is the built-in agent with what it learned in the runs before, `no-playbook` the same without the playbook,
`simple` has the need-to-know text alone (`simple_agent.py`). The goal's checks decide: a goal counts only when the
daemon records `completed`; else it ends by its turns or by the time. One JSON line a run goes to standard output, a
table at the end to standard error.
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

from bench.home import Home, temporary, wait_for
from bench.page import table

import clew_shared
import clew_worker

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
KINDS = ("clew", "no-playbook", "simple")
ENDED = ("completed", "failed", "blocked", "cancelled")
FIELDS = ("status", "iteration", "actions_total", "blocked_total", "reason")
COLUMNS = {
    "iteration": "turns",
    "blocked_total": "refused",
    "tokens_in": "tokens in",
    "tokens_out": "out",
    "seconds": "s",
}
MODE = os.environ.get("MODE", "auto")
TURNS = int(os.environ.get("TURNS", "20"))
LIMIT_S = float(os.environ.get("LIMIT_S", "600"))


def asked(home: Home, *args: str) -> dict:
    done = subprocess.run(home.command(*args), check=True, capture_output=True, text=True)
    return json.loads(done.stdout) if "--json" in args else {}


def config(kind: str, url: str, model: str) -> str:
    agent = f"base_url = '{url}'\nmodel = '{model}'\nmode = '{MODE}'\ntimeout_s = 600\n"
    if kind == "simple":
        program = Path(__file__).with_name("simple_agent.py")
        command = json.dumps([sys.executable, str(program), url, model, MODE])
        sources = sorted({str(Path(m.__file__).parents[1]) for m in (clew_shared, clew_worker)})
        sandbox = f"[sandbox]\nread = {json.dumps(sources)}\nenv = ['PYTHONPATH']\n"
        agent = f"kind = 'command'\ncommand = {command}\n{sandbox}"
    learns = str(kind == "clew").lower()
    return (
        f"[daemon]\nmax_workers = 1\n[context]\nmax_iterations = {TURNS}\n"
        f"[playbook]\nenabled = {learns}\n[agents.default]\n{agent}"
    )


def run(home: Home, name: str, number: int) -> dict:
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
        (report,) = wait_for(lambda: {*outbox.glob("*.md")} - known, LIMIT_S, 0.2)
        seconds = time.monotonic() - began
        return asked(home, "status", report.stem, "--json")["goal"] | {"seconds": seconds}
    goals = asked(home, "status", "--json")["goals"]
    (late,) = (goal["id"] for goal in goals if goal["status"] not in ENDED)
    asked(home, "cancel", late)
    wait_for((outbox / f"{late}.md").exists, 600, 0.2)
    found = asked(home, "status", late, "--json")["goal"]
    return found | {"status": "too long", "seconds": LIMIT_S}


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
    url, model = sys.argv[1:3]
    runs = int(sys.argv[3]) if len(sys.argv) > 3 else 5
    os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    rows: list[dict] = []
    with contextlib.ExitStack() as stack:
        homes = {
            kind: stack.enter_context(temporary(config(kind, url, model))).start()
            for kind in sys.argv[4:] or KINDS
        }
        for name in os.environ.get("GOALS", " ".join(GOALS)).split():
            for number in range(runs):  # in turns, so that the machine's load is the same for all
                for kind, home in homes.items():
                    rows.append(row(kind, name, number, run(home, name, number)))
                    print(json.dumps(rows[-1]), flush=True)
    print(summary(rows), file=sys.stderr)


if __name__ == "__main__":
    main()
