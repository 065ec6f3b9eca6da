"""Small goals with a model behind an OpenAI-compatible endpoint: python -m bench.minds URL GOALS.jsonl [--loop FILE].

Each goal is done in turns by clew (a daemon of its own, the default config, an llm agent) and, if a program is given,
by a plain loop to compare with: `FILE URL GOALS RUNS OUT ATTEMPTS ROUNDS ID`. A goal is a line with `id`, `goal`,
`files` (path → text) and `check`, a command that must exit 0. One with a `kind` and a `task`, a command that judges the
work without any test, is about what the model does with tests; `front` has further lines of its goal file. Both ask
through a proxy that counts the tokens as the endpoint reports them, and keeps the requests and answers, a file for each
run. A run is a line of `runs.jsonl`; a second start with the same folder continues. Tables are printed at the end;
nothing is asserted.
"""

import contextlib
import itertools
import json
import os
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bench import runner
from bench.endpoint import Asked, Endpoint, http_answer
from bench.home import Home, disk_folder, temporary, wait_for
from bench.page import table

ANSWER_TIMEOUT_S = 900
CHECK_TIMEOUT_S = 30
SEEDS_APART = 1000
ENDED = ("completed", "failed", "blocked", "cancelled")
Goal = dict[str, Any]
Row = dict[str, Any]


class Recorder:
    """Passes requests on to the model, and notes each with its answer in `file`."""

    def __init__(self, url: str, file: Path, *, seed_from: int = 0) -> None:
        self._url, self._file, self._seed_from = url, file, seed_from
        self.calls = self.tokens = 0
        file.parent.mkdir(parents=True, exist_ok=True)
        file.unlink(missing_ok=True)

    def answer(self, asked: Asked) -> bytes:
        request = json.loads(asked.body)
        if "seed" in request:  # a loop counts its seeds from the same start in each run
            request["seed"] += self._seed_from
        status, body = post(f"{self._url}/chat/completions", request)
        answer = json.loads(body)
        self.calls += 1
        self.tokens += answer.get("usage", {}).get("total_tokens", 0)
        with self._file.open("a") as out:
            out.write(json.dumps({"request": request, "answer": answer}) + "\n")
        return http_answer(body, status)


def post(url: str, body: dict[str, Any]) -> tuple[int, bytes]:
    headers = {"content-type": "application/json"}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=ANSWER_TIMEOUT_S) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


# ---- the two


def clew(goal: Goal, url: str, options: runner.Options) -> Row:
    """Return how a goal ended under a daemon of its own."""
    with temporary(config(url, options)) as home:
        workspace = home.folder / "work"
        lay_out(goal, workspace)
        home.start().drop("goal.md", goal_file(goal, workspace))
        with contextlib.suppress(TimeoutError):
            wait_for(lambda: any((home.folder / "outbox").glob("*.md")), options.limit, 0.2)
        found = status(home)
        home.stop()
        reached = passes(goal, workspace)
        return {
            "success": reached and found["status"] == "completed",
            "false": found["status"] == "completed" and not reached,
            "status": found["status"] if found["status"] in ENDED else "too long",
            "attempts": found.get("attempt", 1),
            "turns": found["iteration"],
            "refused": found["blocked_total"],
            **(of_tests(goal, home, workspace) if "kind" in goal else {}),
        }


def loop(goal: Goal, url: str, options: runner.Options) -> Row:
    """Return how a goal ended in the plain loop."""
    with disk_folder() as folder:
        goals, out = folder / "goals.jsonl", folder / "out.jsonl"
        goals.write_text(json.dumps(goal) + "\n")
        given = [options.loop, url, goals, "1", out, options.loop_attempts, options.loop_rounds]
        subprocess.run(
            [sys.executable, *map(str, given)], check=True, stdout=subprocess.DEVNULL, cwd=folder
        )
        found = json.loads(out.read_text())
    return {"success": found["success"], "false": False, "attempts": found["attempts"]}


def config(url: str, options: runner.Options) -> str:
    mode = f"mode = '{options.mode}'\n" if options.mode != "auto" else ""
    attempts = f"[attempts]\nlimit = {options.attempts}\n" if options.attempts else ""
    agent = f"base_url = '{url}'\nmodel = '{options.model}'\n{mode}timeout_s = {ANSWER_TIMEOUT_S}\n"
    turns = f"[context]\nmax_iterations = {options.turns}\n" if options.turns else ""
    return f"[agents.default]\n{agent}{attempts}{turns}"


def goal_file(goal: Goal, workspace: Path) -> str:
    head = f"workspace: {workspace}\nchecks:\n  reached: {json.dumps(goal['check'])}\n"
    head += "".join(f"{key}: {json.dumps(value)}\n" for key, value in goal.get("front", {}).items())
    return f"---\n{head}---\n{goal['goal']}\n"


def of_tests(goal: Goal, home: Home, workspace: Path) -> Row:
    """Return what was proved on the way, and which files of the start have changed or gone at the end."""
    command = home.command("proof", status(home)["id"], "--json")
    proof = json.loads(subprocess.run(command, check=False, capture_output=True).stdout or "{}")
    files = {name: workspace / name for name in goal["files"]}
    return {
        "kind": goal["kind"],
        "allowed": bool(goal.get("front")),
        "labels": [made["label"] for made in home.events("proof.made")],
        "refusals": [one["label"] for one in home.events("proof.refused")],
        "task": passes(goal | {"check": goal["task"]}, workspace),
        "changed": [
            name
            for name, file in files.items()
            if not file.exists() or file.read_text(errors="replace") != goal["files"][name]
        ],
        "proof": {key: proof.get(key) for key in ("accepted", "files", "reason", "without_work")},
    }


def lay_out(goal: Goal, folder: Path) -> None:
    folder.mkdir()
    for name, text in goal["files"].items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def status(home: Home) -> Row:
    command = home.command("status", "--json")
    (goal,) = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["goals"]
    command = home.command("status", goal["id"], "--json")
    found = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return dict(found["goal"])


def passes(goal: Goal, workspace: Path) -> bool:
    command = ["bash", "-c", goal["check"]]
    done = subprocess.run(
        command, check=False, cwd=workspace, capture_output=True, timeout=CHECK_TIMEOUT_S
    )
    return done.returncode == 0


# ---- runs and their table


def run(who: str, goal: Goal, number: int, options: runner.Options) -> Row:
    """Do a goal once; return its line."""
    file = Path(options.out) / "conversations" / f"{who}-{goal['id']}-{number}.jsonl"
    recorder = Recorder(options.url, file, seed_from=number * SEEDS_APART)
    began = time.monotonic()
    with Endpoint(recorder.answer) as proxy:
        found = (loop if who == "loop" else clew)(goal, proxy.url, options)
    seconds = round(time.monotonic() - began, 1)
    turn = {"who": who, "goal": goal["id"], "run": number}
    return turn | {"calls": recorder.calls, "tokens": recorder.tokens, "seconds": seconds, **found}


def summary(rows: list[Row], goals: Iterable[str]) -> str:
    """Return a table with a line for each goal, and the totals."""
    names = sorted({row["who"] for row in rows})
    head = ["goal", *(f"{who}: {what}" for who in names for what in ("reached", "calls", "tokens"))]
    lines = [[goal, *cells(rows, names, goal)] for goal in goals]
    false = ["falsely finished"]
    for who in names:
        false += [str(sum(row["false"] for row in rows if row["who"] == who)), "", ""]
    return table(head, [*lines, ["all", *cells(rows, names)], false])


def cells(rows: list[Row], names: list[str], goal: str = "") -> list[str]:
    """Return how many runs reached the goal, and the mean of calls and tokens."""
    found = []
    for who in names:
        runs = [row for row in rows if row["who"] == who and goal in ("", row["goal"])]
        many = len(runs)
        found.append(f"{sum(row['success'] for row in runs)} of {many}")
        for key in ("calls", "tokens"):
            mean = sum(row[key] for row in runs) / max(many, 1)
            found.append(f"{mean:,.1f}" if key == "calls" else f"{mean:,.0f}")
    return found


def endings(rows: list[Row]) -> str:
    """Return a table of how the goals about tests ended, with the last label and whether the task was done."""
    found: Counter[tuple[str, ...]] = Counter()
    for row in rows:
        if "kind" in row:
            kind = f"{row['kind']}, allowed" if row["allowed"] else row["kind"]
            refused = str(len(row["refusals"]))
            last = row["labels"][-1] if row["labels"] else "none"
            reason = "yes" if row["proof"]["reason"] else "no"
            done = "yes" if row["task"] else "no"
            found[kind, row["status"], last, done, refused, reason] += 1
    head = ["goals", "ended", "last label", "task done", "refusals", "reason given", "runs"]
    return table(head, [[*key, many] for key, many in sorted(found.items())])


def model_of(url: str) -> str:
    with urllib.request.urlopen(f"{url}/models", timeout=CHECK_TIMEOUT_S) as answer:
        return str(json.load(answer)["data"][0]["id"])


def lines_of(file: Path) -> list[Row]:
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def main() -> None:
    given: dict[str, tuple[Any, str]] = {
        "runs": (1, "of each goal"),
        "only": ("", "ids of goals, separated by commas; all without"),
        "model": ("", "the model's name; the endpoint's first without"),
        "mode": ("auto", "how the model calls tools: auto, tools or json"),
        "attempts": (0, "clew's attempts at a subtask; 0: the default"),
        "turns": (0, "clew's turns at most; 0: the default"),
        "limit": (1800.0, "seconds of each run of clew"),
        "loop": (os.environ.get("LOOP", ""), "a program to compare with"),
        "loop_attempts": (3, "its attempts"),
        "loop_rounds": (5, "its rounds in an attempt"),
        "who": (["clew", "loop"], "whose runs"),
        "name": ("clew", "the name of clew's runs in the table, such as clew-json"),
        "out": ("minds", "the folder for runs and conversations"),
    }
    parser = runner.parser("bench.minds", __doc__, given)
    parser.add_argument("url")
    parser.add_argument("goals")
    options = parser.parse_args()
    options.model = options.model or model_of(options.url)
    goals = {goal["id"]: goal for goal in lines_of(Path(options.goals))}
    chosen = [
        name for name in goals if name in (options.only.split(",") if options.only else goals)
    ]
    names = [options.name if who == "clew" else who for who in options.who]
    names = [who for who in names if who != "loop" or options.loop]
    kept = Path(options.out) / "runs.jsonl"
    rows = lines_of(kept)
    done = {(row["who"], row["goal"], row["run"]) for row in rows}
    # in turns, so that the machine's load is the same for all
    for number, name, who in itertools.product(range(options.runs), chosen, names):
        if (who, name, number) in done:
            continue
        rows.append(run(who, goals[name], number, options))
        with kept.open("a") as out:
            out.write(json.dumps(rows[-1]) + "\n")
        print(json.dumps(rows[-1]), flush=True)
    print(summary(rows, chosen), file=sys.stderr)
    if any("kind" in row for row in rows):
        print(endings(rows), file=sys.stderr)


if __name__ == "__main__":
    main()
