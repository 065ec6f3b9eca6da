"""Fakes and honest finishes through a daemon: python -m bench.fakes CASES.jsonl [--only KIND] [--view copy] [--at-once 2].

Each case is a small workspace, what a person set up there, what an agent did, and the checks. The agent is a script that
does just that and calls `finish`. Printed are the labels that are not as expected, and the sums by kind.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

REPO = Path(__file__).parents[1]
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


@dataclass
class Home:
    """One daemon with a home of its own."""

    folder: Path
    view: str = "auto"
    acts: dict[str, list[str]] = field(default_factory=dict)

    @property
    def env(self) -> dict[str, str]:
        kept = {key: os.environ[key] for key in ("PATH", "LANG", "HOME") if key in os.environ}
        xdg = {
            f"XDG_{name}_HOME": str(self.folder / name.lower())
            for name in ("CONFIG", "STATE", "DATA", "CACHE")
        }
        return kept | xdg | {"XDG_RUNTIME_DIR": str(self.folder / "run")}

    def start(self, names: list[str]) -> subprocess.Popen[bytes]:
        config = self.folder / "config" / "clew"
        for path in (config, self.folder / "run", self.folder / "goals"):
            path.mkdir(parents=True, exist_ok=True)
        agent = self.folder / "agent.py"
        agent.write_text(AGENT)
        (self.folder / "acts.json").write_text(json.dumps(self.acts))
        command = json.dumps([sys.executable, str(agent), str(self.folder / "acts.json")])
        read = json.dumps([str(self.folder / "agent.py"), str(self.folder / "acts.json"), *names])
        (config / "config.toml").write_text(
            f'[agents]\ndefault = "acts"\n[agents.acts]\nkind = "command"\ncommand = {command}\n'
            f'[sandbox]\nread = {read}\n[daemon]\nmax_workers = 3\n[limits]\ncheck_timeout_s = 120\n[proof]\nview = "{self.view}"\n'
        )
        log = (self.folder / "log").open("wb")
        return subprocess.Popen(
            self.clew("run"), env=self.env, stdout=log, stderr=log, cwd=self.folder
        )

    def clew(self, *args: str) -> list[str]:
        return [sys.executable, "-m", "clew_daemon", *args]

    def ask(self, *args: str) -> Any:
        done = subprocess.run(
            self.clew(*args), env=self.env, capture_output=True, text=True, check=False
        )
        return json.loads(done.stdout) if done.stdout.strip() else {"error": done.stderr}


def places() -> dict[str, str]:
    """Return what stands for the names in the cases, as far as it can be had here."""
    python = shutil.which("python3") or sys.executable
    found = {"@PY@": python, "@PYSITE@": python}
    for name, variable in (
        ("@VENV@", "FAKES_VENV"),
        ("@NODE@", "FAKES_NODE"),
        ("@RUST@", "FAKES_RUST"),
        ("@PY@", "FAKES_PY"),
    ):
        if value := os.environ.get(variable):
            found[name] = value
    return found


def lay_out(case: dict[str, Any], folder: Path, names: dict[str, str]) -> dict[str, Any] | None:
    """Make the workspace of a case; return the case with its names filled in, None where something is missing."""
    text = json.dumps(case)
    for name, value in names.items():
        text = text.replace(name, value)
    if any(f"@{name}@" in text for name in ("PY", "VENV", "NODE", "RUST", "PYSITE")):
        return None
    case = json.loads(text)
    folder.mkdir(parents=True)
    for path, content in case["base"].items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(content)
    if case["setup"]:
        done = subprocess.run(
            ["sh", "-c", case["setup"]], cwd=folder, capture_output=True, check=False
        )
        if done.returncode:
            return None
    return case


def goal(case: dict[str, Any], folder: Path) -> str:
    front = {"name": case["id"], "workspace": str(folder), "checks": case["checks"]}
    return f"---\n{yaml.safe_dump(front, width=10_000)}---\n# Do {case['id']}\n"


async def run(cases: list[dict[str, Any]], view: str, out: dict[str, str]) -> None:
    names = places()
    home = Home(Path(tempfile.mkdtemp(prefix="fakes-")), view)
    ready = []
    for case in cases:
        laid = lay_out(case, home.folder / "goals" / case["id"], names)
        if laid is None:
            out[case["id"]] = "skipped"
            continue
        ready.append(laid)
        home.acts[case["id"]] = laid["act"]
    kept = home.folder / "goals"
    daemon = home.start(sorted(set(names.values())))
    try:
        inbox = home.folder / "data" / "clew" / "inbox"
        until = time.monotonic() + 30
        while not inbox.is_dir() and time.monotonic() < until:
            await asyncio.sleep(0.1)
        for case in ready:
            (inbox / f"{case['id']}.md").write_text(goal(case, kept / case["id"]))
        waiting = {case["id"] for case in ready}
        until = time.monotonic() + 60 + 20 * len(ready)
        while waiting and time.monotonic() < until:
            await asyncio.sleep(1)
            found = home.ask("status", "--json", "--all")
            for one in found.get("goals", []):
                name = one.get("name") or one["id"].rsplit("-", 1)[0]
                if name in waiting and one["status"] in (
                    "completed",
                    "failed",
                    "blocked",
                    "cancelled",
                ):
                    waiting.discard(name)
                    proof = one.get("proof")
                    out[name] = proof["label"] if proof else f"refused ({one['status']})"
                    if one["status"] == "completed" and not proof:
                        out[name] = "completed without a label"
        for name in waiting:
            out[name] = "did not end"
    finally:
        daemon.terminate()
        daemon.wait(30)
        if not os.environ.get("FAKES_KEEP"):
            shutil.rmtree(home.folder, ignore_errors=True)


def main() -> None:
    """Run the cases and print what came out."""
    options = argparse.ArgumentParser(prog="python -m bench.fakes", description=__doc__)
    options.add_argument("file", type=Path)
    options.add_argument("--only", default="", help="kinds or ids, with commas")
    options.add_argument("--view", default="auto")
    given = options.parse_args()
    cases = [json.loads(line) for line in given.file.read_text().splitlines()]
    if given.only:
        wanted = set(given.only.split(","))
        cases = [one for one in cases if one["kind"] in wanted or one["id"] in wanted]
    out: dict[str, str] = {}
    asyncio.run(run(cases, given.view, out))
    sums: Counter[tuple[str, str]] = Counter()
    for case in cases:
        got = out.get(case["id"], "?")
        group = (
            "honest"
            if not case["fake"]
            else "limit"
            if case["limit"]
            else "inside"
            if case["inside"]
            else "around"
        )
        word = got.partition(" ")[0]
        right = word in case["expect"]
        what = "skipped" if got == "skipped" else "right" if right else "wrong"
        sums[group, what] += 1
        if what == "wrong":
            print(
                f"{group:7} {case['kind']:8} {case['id']:28} {got:22} (expected {', '.join(case['expect'][:4])}; prototype {case['seen']})"
            )
    for (group, what), n in sorted(sums.items()):
        print(f"{group:8} {what:8} {n}")


if __name__ == "__main__":
    main()
