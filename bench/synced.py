"""Proof by strace that no answer is sent before its record is durable: python -m bench.synced.

A real daemon runs under strace while an agent makes some steps. Each verdict and each answer to an outcome must follow
a completed fdatasync of the ledger's log that began after the record was written to it. Exit code 1 where one does
not, 2 where strace is missing or may not trace.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from bench import home

CALLS = "write,writev,pwrite64,pwritev,sendto,sendmsg,fsync,fdatasync"
BYTES = 9_000  # of a call's data that strace shows: two pages

_CALL = re.compile(r"^(?P<pid>\d+) +[\d.]+ (?P<rest>.*)$")
_STEP = re.compile(r"(?:done )?step-\d{5}")
_ANSWER = re.compile(r'\{\\"jsonrpc\\":\\"2\.0\\",\\"id\\":(?P<id>\d+),\\"result\\":')


@dataclass
class Seen:
    """What a trace holds, by the numbers of its lines: each call begins at one and ends at one."""

    # the end of a record's first write to the log; syncs; the beginning of a request's answer
    written: dict[str, int] = field(default_factory=dict)
    synced: list[tuple[int, int]] = field(default_factory=list)
    answered: dict[int, int] = field(default_factory=dict)

    def take(self, call: str, end: str, began: int, ended: int) -> None:
        to_log = "/ledger.db-wal>" in call
        if call.startswith(("fdatasync(", "fsync(")):
            if to_log and end.rstrip().endswith("= 0"):
                self.synced.append((began, ended))
        elif to_log:
            for record in _STEP.findall(call):
                self.written.setdefault(record, ended)
        elif answer := _ANSWER.search(call):
            self.answered.setdefault(int(answer["id"]), began)


def read(trace: Path) -> Seen:
    """Return what strace wrote with `-f -y`."""
    seen, open_calls = Seen(), {}
    for number, line in enumerate(trace.read_text(errors="replace").splitlines()):
        if not (found := _CALL.match(line)):
            continue
        pid, rest = found["pid"], found["rest"]
        if rest.endswith("<unfinished ...>"):
            open_calls[pid] = (number, rest)
        elif rest.startswith("<... "):
            began, call = open_calls.pop(pid, (number, rest))
            seen.take(call, rest, began, number)
        else:
            seen.take(rest, rest, number, number)
    return seen


def faults(seen: Seen, steps: int) -> list[str]:
    """Return a line for every answer that no sync precedes; the agent's hello is request 1."""
    found = []
    for number in range(2 * steps):
        record = f"{'done ' if number % 2 else ''}step-{number // 2:05d}"
        written, answered = seen.written.get(record), seen.answered.get(number + 2)
        if written is None or answered is None:
            found.append(f"{record}: not seen in the trace")
        elif not any(written < began and ended < answered for began, ended in seen.synced):
            where = f"written at line {written}, answered at {answered}"
            found.append(f"{record}: {where}, no sync between")
    return found


def trace(steps: int, out: Path) -> None:
    """Run a daemon under strace while its agent makes steps."""
    with home.temporary(home.bench_agent("step", str(steps))) as place:
        place.before = strace(out)
        place.start()
        place.drop("proof.md", "---\nagent: bench\n---\n# Steps that are watched\n")
        home.wait_for(lambda: place.workspaces("*/times.0"))
        place.stop()
        last = re.compile(rf"^{place.pid} .*\+\+\+ exited", re.MULTILINE)
        home.wait_for(lambda: last.search(out.read_text(errors="replace")[-100_000:]))


def strace(out: Path) -> list[str]:
    """Return the command that a traced program follows; the tracer is detached, so that signals reach the program."""
    options = f"-DDD -f -y -ttt -s {BYTES} -e trace={CALLS} -e signal=none -o"
    return ["strace", *options.split(), str(out)]


class Proof(NamedTuple):
    """The exit code and the result as text."""

    code: int
    text: str


def prove(steps: int, saved: Path | None = None) -> Proof:
    """Trace a daemon, or read a trace that is there."""
    with tempfile.TemporaryDirectory(prefix="clew-trace-") as folder:
        target = saved or Path(folder, "trace")
        if not target.exists():
            if not shutil.which("strace"):
                return Proof(2, "strace is missing: nothing was proved")
            tried = subprocess.run([*strace(target), "true"], check=False, capture_output=True)
            if tried.returncode:
                return Proof(2, "strace may not trace here: nothing was proved")
            trace(steps, target)
        seen = read(target)
    found = faults(seen, steps)
    text = (
        f"By strace: {2 * steps} answers checked ({steps} verdicts, {steps} to outcomes), {len(seen.synced)} syncs of"
        f" the ledger's log, {len(found)} answers sent before their record was durable."
    )
    return Proof(1 if found else 0, "\n".join([text, *found[:20]]))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.synced", description=__doc__)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--trace", type=Path, help="keep the trace here; one that is there is read")
    options = parser.parse_args()
    proof = prove(options.steps, options.trace)
    print(proof.text)
    sys.exit(proof.code)
