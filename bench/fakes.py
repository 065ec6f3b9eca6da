"""Fakes and honest finishes through a daemon: python -m bench.fakes CASES.jsonl … [--only KINDS] [--view copy].

Each case is a small workspace, what a person set up there, what an agent did, and the checks. A script does just that
and calls `finish`. Printed are the labels that are not as expected, and the sums. What stands for the places in cases
is in FAKES_PY (a Python with pytest), FAKES_VENV, FAKES_NODE, FAKES_RUST; cases without are skipped.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import yaml

AGENT = """\
import json, os, socket, sys
sock = socket.socket(fileno=int(os.environ["CLEW_FD"])); wire = sock.makefile("rw"); number = 0
def call(method, **params):
    global number; number += 1
    wire.write(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}) + "\\n"); wire.flush()
    while True:
        answer = json.loads(wire.readline())
        if answer.get("id") == number:
            return answer.get("result", answer)
call("hello")
for cmd in json.load(open(sys.argv[1]))[os.environ["CLEW_GOAL_ID"].rsplit("-", 1)[0]]:
    call("act", tool="run_cmd", args={"cmd": cmd})
answer = call("finish", success=True, summary="done")
if not answer.get("accepted"):
    call("ask", question="not accepted: " + json.dumps(answer)[:1500])
"""
CONFIG = """\
[agents]
default = "acts"
[agents.acts]
kind = "command"
command = {command}
[sandbox]
read = {read}
[daemon]
max_workers = 3
[proof]
view = "{view}"
"""
RESTS = ("completed", "failed", "blocked", "cancelled")
PLACES = {f"@{name}@": f"FAKES_{name}" for name in ("PY", "PYSITE", "VENV", "NODE", "RUST")}

Case = dict[str, Any]


class Home:
    """A daemon with a home of its own, and the workspaces of the cases."""

    def __init__(self, view: str, places: dict[str, str]) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="fakes-"))
        self._view, self._places = view, places
        self.acts: dict[str, list[str]] = {}

    def lay_out(self, case: Case) -> Case | None:
        """Make the workspace of a case; return it with its places filled in, None where something is missing."""
        text = json.dumps(case)
        for name, place in self._places.items():
            text = text.replace(name, place)
        if any(name in text for name in PLACES):
            return None
        case = json.loads(text)
        folder = self.folder / "goals" / case["id"]
        folder.mkdir(parents=True)
        for path, content in case["base"].items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(content)
        if case["setup"]:
            subprocess.run(["sh", "-c", case["setup"]], cwd=folder, capture_output=True, check=True)
        self.acts[case["id"]] = case["act"]
        return case

    def start(self) -> subprocess.Popen[bytes]:
        """Start the daemon."""
        config = self.folder / "config" / "clew"
        config.mkdir(parents=True)
        agent, acts = self.folder / "agent.py", self.folder / "acts.json"
        agent.write_text(AGENT)
        acts.write_text(json.dumps(self.acts))
        command = json.dumps([sys.executable, str(agent), str(acts)])
        read = json.dumps([str(agent), str(acts), *self._places.values()])
        text = CONFIG.format(command=command, read=read, view=self._view)
        (config / "config.toml").write_text(text)
        command_line = [sys.executable, "-m", "clew_daemon", "run"]
        with (self.folder / "log").open("wb") as log:
            return subprocess.Popen(command_line, env=self._env, stdout=log, stderr=log)

    def ask(self, *args: str) -> Any:
        """Return what a command of clew prints as JSON, {} where it prints nothing."""
        command = [sys.executable, "-m", "clew_daemon", *args]
        done = subprocess.run(command, env=self._env, capture_output=True, text=True, check=False)
        return json.loads(done.stdout) if done.stdout.strip() else {}

    @property
    def _env(self) -> dict[str, str]:
        kept = {key: os.environ[key] for key in ("PATH", "LANG", "HOME") if key in os.environ}
        names = ("CONFIG", "STATE", "DATA", "CACHE")
        xdg = {f"XDG_{name}_HOME": str(self.folder / name.lower()) for name in names}
        return kept | xdg | {"XDG_RUNTIME_DIR": str(self.folder / "run")}

    def drop(self, case: Case) -> None:
        """Submit the goal of a case."""
        workspace = str(self.folder / "goals" / case["id"])
        front = {"name": case["id"], "workspace": workspace, "checks": case["checks"]}
        text = f"---\n{yaml.safe_dump(front, width=10_000)}---\n# Do {case['id']}\n"
        inbox = self.folder / "data" / "clew" / "inbox"
        while not inbox.is_dir():
            time.sleep(0.1)
        (inbox / f"{case['id']}.md").write_text(text)

    def labels(self, waiting: set[str]) -> dict[str, str]:
        """Return the labels of the goals that rest, and take them out of `waiting`."""
        found = {}
        for one in self.ask("status", "--json", "--all").get("goals", []):
            if one["name"] in waiting and one["status"] in RESTS:
                waiting.discard(one["name"])
                made = one["proof"]
                found[one["name"]] = made["label"] if made else f"refused ({one['status']})"
        return found


def run(cases: list[Case], view: str) -> dict[str, str]:
    """Return the label of each case, by its id."""
    home = Home(view, {name: os.environ[var] for name, var in PLACES.items() if var in os.environ})
    laid = [one for case in cases if (one := home.lay_out(case))]
    daemon = home.start()
    out = {case["id"]: "skipped" for case in cases}
    waiting = {case["id"] for case in laid}
    out |= dict.fromkeys(waiting, "did not end")
    try:
        for case in laid:
            home.drop(case)
        until = time.monotonic() + 60 + 20 * len(laid)
        while waiting and time.monotonic() < until:
            time.sleep(1)
            out |= home.labels(waiting)
    finally:
        daemon.terminate()
        daemon.wait(30)
        shutil.rmtree(home.folder, ignore_errors=True)
    return out


def group(case: Case) -> str:
    """Return which sum a case belongs to."""
    if not case["fake"]:
        return "honest"
    return "limit" if case["limit"] else "inside" if case["inside"] else "around"


def main() -> None:
    """Run the cases and print what came out."""
    options = argparse.ArgumentParser(prog="python -m bench.fakes", description=__doc__)
    options.add_argument("file", type=Path, nargs="+", help="cases, one JSON object a line")
    options.add_argument("--only", default="", help="kinds or ids, with commas between")
    options.add_argument("--view", default="auto", help="overlay, copy or auto")
    given = options.parse_args()
    lines = [line for file in given.file for line in file.read_text().splitlines()]
    cases = [json.loads(line) for line in lines]
    wanted = set(given.only.split(",")) if given.only else set()
    cases = [one for one in cases if not wanted or wanted & {one["kind"], one["id"]}]
    out = run(cases, given.view)
    sums: Counter[tuple[str, str]] = Counter()
    for case in cases:
        got = out[case["id"]]
        is_right = got.partition(" ")[0] in case["expect"]
        what = "skipped" if got == "skipped" else "right" if is_right else "wrong"
        sums[group(case), what] += 1
        if what == "wrong":
            print(f"{group(case)} {case['id']}: {got}, not {' or '.join(case['expect'])}")
    for (of, what), count in sorted(sums.items()):
        print(f"{of:8} {what:8} {count}")


if __name__ == "__main__":
    main()
