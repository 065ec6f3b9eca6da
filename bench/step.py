"""A judged and recorded step against two bare WAL commits, in one run: python bench/step.py [STEPS] [ROUNDS].

A real daemon on a throw-away home on this disk, and a real foreign worker that proposes and reports in a loop
(`propose` + `outcome`, `changed` given, so that nothing but judging and recording is measured). Between the
worker's batches the same disk takes pairs of bare commits (`synchronous=FULL`). Also printed: the cost of step
5,000 against step 100. No timing is asserted; the issue's aims are 2.5 times and 1.2 times.
"""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import apsw

AGENT = """
import json, os, socket, sys, time
s = socket.socket(fileno=int(os.environ["CLEW_FD"])); f = s.makefile("rwb"); n = 0
def call(m, **p):
    global n; n += 1
    f.write((json.dumps({"jsonrpc": "2.0", "id": n, "method": m, "params": p}) + "\\n").encode()); f.flush()
    while True:
        r = json.loads(f.readline())
        if r.get("id") == n: return r["result"]
call("hello", protocol=1, agent="bench/1")
steps, out = int(sys.argv[1]), open("times.txt", "w", buffering=1)
for i in range(steps):
    t = time.perf_counter()
    v = call("propose", tool="edit", args={"path": "a.py", "line": i})
    assert v["verdict"] == "allowed", v
    call("outcome", seq=v["seq"], result="success", output="edited line %d" % i, changed=True)
    out.write("%d %.9f\\n" % (i, time.perf_counter() - t))
    if i % 250 == 249: time.sleep(0.4)
out.write("end\\n")
call("finish", success=False, summary="bench over")
"""


def bare_pairs(folder: Path, seconds: float) -> list[float]:
    db = apsw.Connection(str(folder / "bare.db"))
    for sql in (
        "pragma journal_mode=wal",
        "pragma synchronous=full",
        "pragma wal_autocheckpoint=0",
        "create table if not exists t(a integer primary key, b blob)",
    ):
        db.execute(sql).fetchall()
    body, times = b"x" * 400, []
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        began = time.perf_counter()
        db.execute("insert into t(b) values(?)", (body,))
        db.execute("insert into t(b) values(?)", (body,))
        times.append(time.perf_counter() - began)
    db.execute("pragma wal_checkpoint(passive)")
    db.close()
    return times


def measure(home: Path, daemon: subprocess.Popen[bytes]) -> tuple[list[str], list[float]]:
    bare: list[float] = []
    while True:
        found = list(home.glob("workspaces/*/times.txt"))
        lines = found[0].read_text().splitlines() if found else []
        if lines and lines[-1] == "end":
            return lines, bare
        if daemon.poll() is not None:
            sys.exit((home / "log").read_text()[-2000:])
        # the worker rests 0.4 s after 250 steps: measure the bare pairs then
        if lines and len(lines) % 250 == 0:
            bare += bare_pairs(home, 0.2)
        time.sleep(0.02)


def main() -> None:
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 5250
    with tempfile.TemporaryDirectory(
        prefix="clew-bench-", dir=os.environ.get("BENCH_DIR", "/var/tmp")
    ) as name:
        home = Path(name)
        (home / "agent.py").write_text(AGENT)
        command = json.dumps([sys.executable, str(home / "agent.py"), str(steps)])
        (home / "config.toml").write_text(
            "[limits]\nmax_actions = 1000000\n"
            f"[agents.bench]\nkind = 'command'\nown_tools = true\ncommand = {command}\n"
        )
        with (home / "log").open("w") as log:
            daemon = subprocess.Popen(
                [sys.executable, "-m", "clew_daemon", "--home", name, "run"], stdout=log
            )
        (home / "inbox").mkdir(exist_ok=True)
        (home / "inbox" / "b.md").write_text("---\nagent: bench\n---\n# Bench\nmany steps\n")
        try:
            lines, bare = measure(home, daemon)
        finally:
            daemon.send_signal(signal.SIGTERM)
            daemon.wait(20)
    step = [float(line.split()[1]) for line in lines[:-1]]
    near = lambda i: statistics.median(step[max(0, i - 50) : i + 50])  # noqa: E731
    pair = statistics.median(bare)
    print(f"steps {len(step)}, bare pairs {len(bare)}, load {os.getloadavg()[0]:.2f}")
    print(
        f"two bare commits: median {pair * 1e6:.0f} us; a step: median {statistics.median(step) * 1e6:.0f} us"
        f" = {statistics.median(step) / pair:.2f} times"
    )
    if len(step) > 5050:
        early, late = near(100), near(5000)
        print(
            f"step 100: {early * 1e6:.0f} us; step 5000: {late * 1e6:.0f} us = {late / early:.2f} times"
        )


if __name__ == "__main__":
    main()
