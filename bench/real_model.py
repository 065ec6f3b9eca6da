"""A small real model behind an OpenAI-compatible endpoint works on three goals: python -m bench.real_model URL MODEL.

    bench/real_model.py URL MODEL [RUNS] [KIND...]      KIND: clew, no-playbook, simple
    GOALS="hello calc" MODE=json TURNS=20 LIMIT_S=600 bench/real_model.py ...

`clew` is the built-in agent with what it learned in the runs before, `no-playbook` the same without the playbook,
`simple` the need-to-know text of the old designs in its place (`simple_agent.py`). Real daemon, real executor; the
goal's checks decide. A goal counts only when the daemon says `completed`; else it ends by its turns or by the time.
One JSON line a run goes to standard output, a table at the end to standard error.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import clew_shared
import clew_worker

if TYPE_CHECKING:
    from collections.abc import Iterator

GOALS = {
    "hello": (
        "Create a file hello.txt containing hello, then finish",
        {"hello": "grep -qx hello hello.txt"},
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
    "mathx": (
        "Create a Python package mathx with add(a, b) and sub(a, b), and pytest tests that pass",
        {
            "package": "python3 -c 'from mathx import add, sub; assert add(2, 3) == 5 and sub(5, 3) == 2'",
            "tests": "python3 -m pytest -q",
        },
        {},
    ),
}
KINDS = ("clew", "no-playbook", "simple")
ENDED = ("completed", "failed", "blocked", "cancelled")
MODE = os.environ.get("MODE", "auto")
TURNS = int(os.environ.get("TURNS", "20"))
LIMIT_S = float(os.environ.get("LIMIT_S", "600"))


def asked(home: Path, *args: str) -> dict:
    command = [sys.executable, "-m", "clew_daemon", "--home", str(home), *args]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout) if "--json" in args else {}


def config(kind: str, url: str, model: str) -> str:
    if kind == "simple":
        here = Path(__file__).with_name("simple_agent.py")
        command = json.dumps([sys.executable, str(here), url, model, MODE])
        sources = {str(Path(m.__file__).parents[1]) for m in (clew_shared, clew_worker)}
        agent = (
            f"kind = 'command'\ncommand = {command}\n"
            f"[sandbox]\nread = {json.dumps(sorted(sources))}\nenv = ['PYTHONPATH']\n"
        )
    else:
        agent = f"base_url = '{url}'\nmodel = '{model}'\nmode = '{MODE}'\ntimeout_s = 600\n"
    learns = str(kind == "clew").lower()
    return (
        f"[daemon]\nmax_workers = 1\n[context]\nmax_iterations = {TURNS}\n"
        f"[playbook]\nenabled = {learns}\n[agents.default]\n{agent}"
    )


@contextlib.contextmanager
def daemon(home: Path) -> Iterator[None]:
    env = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    with (home / "out").open("w") as out:
        command = [sys.executable, "-m", "clew_daemon", "--home", str(home), "run"]
        process = subprocess.Popen(command, stdout=out, env=env)
    try:
        while "daemon.ready" not in (home / "out").read_text():
            time.sleep(0.1)
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def run(home: Path, name: str, number: int) -> dict:
    text, checks, files = GOALS[name]
    workspace = home / "work" / f"{name}-{number}"
    workspace.mkdir(parents=True)
    for path, content in files.items():
        (workspace / path).write_text(content)
    lines = "\n".join(f"  {check}: {json.dumps(cmd)}" for check, cmd in checks.items())
    known = {*(home / "outbox").glob("*.md")}
    goal_file = home / "inbox" / f"{name}-{number}.md"
    goal_file.write_text(f"---\nworkspace: {workspace}\nchecks:\n{lines}\n---\n{text}\n")
    began = time.monotonic()
    while time.monotonic() - began < LIMIT_S:
        time.sleep(0.2)  # the report says that it is over; asking would take a start of Python
        if reports := {*(home / "outbox").glob("*.md")} - known:
            seconds = time.monotonic() - began
            (report,) = reports
            found = asked(home, "status", report.stem, "--json")["goal"]
            return found | {"seconds": seconds}
    (late,) = (
        g["id"] for g in asked(home, "status", "--json")["goals"] if g["status"] not in ENDED
    )
    asked(home, "cancel", late)
    while not (home / "outbox" / f"{late}.md").exists():
        time.sleep(0.2)
    found = asked(home, "status", late, "--json")["goal"]
    return found | {"status": "too long", "seconds": LIMIT_S}


def row(kind: str, name: str, number: int, found: dict) -> dict:
    cost = found["cost"]
    return {
        "kind": kind,
        "goal": name,
        "run": number,
        "status": found["status"],
        "turns": found["iteration"],
        "actions": found["actions_total"],
        "refused": found["blocked_total"],
        "tokens_in": cost["tokens_in"],
        "cached": cost["tokens_cached"],
        "tokens_out": cost["tokens_out"],
        "llm_s": cost["llm_s"],
        "seconds": round(found["seconds"], 1),
        "reason": found["reason"],
    }


def table(rows: list[dict]) -> None:
    print("| goal | context | completed | turns | refused | tokens in | out | s |", file=sys.stderr)
    print("| --- | --- | --- | --- | --- | --- | --- | --- |", file=sys.stderr)
    for name in GOALS:
        for kind in KINDS:
            runs = [r for r in rows if (r["goal"], r["kind"]) == (name, kind)]
            if not runs:
                continue
            done = sum(r["status"] == "completed" for r in runs)
            keys = ("turns", "refused", "tokens_in", "tokens_out", "seconds")
            cells = [f"{statistics.median(r[key] for r in runs):g}" for key in keys]
            print(
                f"| {name} | {kind} | {done} of {len(runs)} | {' | '.join(cells)} |",
                file=sys.stderr,
            )


def main() -> None:
    url, model = sys.argv[1:3]
    runs = int(sys.argv[3]) if len(sys.argv) > 3 else 5
    kinds = sys.argv[4:] or list(KINDS)
    goals = os.environ.get("GOALS", " ".join(GOALS)).split()
    rows: list[dict] = []
    with contextlib.ExitStack() as stack:
        where = os.environ.get("BENCH_DIR", "/var/tmp")
        homes = {}
        for kind in kinds:
            folder = stack.enter_context(tempfile.TemporaryDirectory("", "clew-model-", where))
            homes[kind] = Path(folder)
            (homes[kind] / "config.toml").write_text(config(kind, url, model))
            stack.enter_context(daemon(homes[kind]))
        for name in goals:  # by turns, so that the machine's load is the same for all
            for number in range(runs):
                for kind in kinds:
                    rows.append(row(kind, name, number, run(homes[kind], name, number)))
                    print(json.dumps(rows[-1]), flush=True)
    table(rows)


if __name__ == "__main__":
    main()
