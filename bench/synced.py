"""Proof by strace that nothing is heard of before it is durable.

A real daemon runs under strace while an agent makes some steps. In what the kernel saw, each verdict and each answer
to an outcome must stand after a completed fdatasync of the ledger's log, which itself began after the record was
written to it. Exit code 1 where one does not, 2 where strace is missing or may not trace.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from bench import home

AGENT = Path(__file__).with_name("stepping.py")
CALLS = "write,writev,pwrite64,pwritev,sendto,sendmsg,fsync,fdatasync"
BYTES = 9_000  # of a call's data that strace shows: two pages

_CALL = re.compile(r"^(?P<pid>\d+) +(?P<at>[\d.]+) (?P<rest>.*)$")
_RESUMED = re.compile(r"^<\.\.\. (?P<call>\w+) resumed>")
_STEP = re.compile(r"(?:done )?step-\d{5}")
_ANSWER = re.compile(r'\{\\"jsonrpc\\":\\"2\.0\\",\\"id\\":(?P<id>\d+),\\"result\\":')


@dataclass
class Seen:
    """What a trace holds, by the numbers of its lines: each call begins at one and ends at one."""

    written: dict[str, int] = field(
        default_factory=dict
    )  # a record's first write to the log: its end
    synced: list[tuple[int, int]] = field(default_factory=list)
    answered: dict[int, int] = field(
        default_factory=dict
    )  # by the request's id: the send's beginning


def read(trace: Path) -> Seen:
    """Read what strace wrote, with `-f -y`."""
    seen, open_calls = Seen(), {}
    for number, line in enumerate(trace.read_text(errors="replace").splitlines()):
        found = _CALL.match(line)
        if not found:
            continue
        pid, rest = found["pid"], found["rest"]
        if _RESUMED.match(rest):
            began, call = open_calls.pop(pid, (number, rest))
            _take(seen, call, rest, began, number)
        elif rest.endswith("<unfinished ...>"):
            open_calls[pid] = (number, rest)
        else:
            _take(seen, rest, rest, number, number)
    return seen


def _take(seen: Seen, call: str, end: str, began: int, ended: int) -> None:
    name = call.partition("(")[0]
    to_log = "/ledger.db-wal>" in call
    if name in ("fdatasync", "fsync"):
        if to_log and end.rstrip().endswith("= 0"):
            seen.synced.append((began, ended))
    elif to_log:
        for record in _STEP.findall(call):
            seen.written.setdefault(record, ended)
    elif answer := _ANSWER.search(call):
        seen.answered.setdefault(int(answer["id"]), began)


def faults(seen: Seen, steps: int) -> list[str]:
    """Name every answer that no sync stands before; the agent's hello is request 1."""
    found = []
    for step in range(steps):
        for record, request in (
            (f"step-{step:05d}", 2 * step + 2),
            (f"done step-{step:05d}", 2 * step + 3),
        ):
            written, answered = seen.written.get(record), seen.answered.get(request)
            if written is None or answered is None:
                found.append(f"{record}: not seen in the trace")
            elif not any(written < began and ended < answered for began, ended in seen.synced):
                found.append(
                    f"{record}: written at line {written}, answered at {answered}, no sync between"
                )
    return found


def trace(steps: int, keep: Path) -> None:
    """Run a daemon under strace for so many steps; what it saw goes to `keep`."""
    config = "[limits]\nmax_actions = 1000000\n" + home.command_agent("bench", AGENT, str(steps))
    with home.throw_away(config) as place:
        place.before = strace(keep)
        place.start()
        place.drop("proof.md", "---\nagent: bench\n---\n# Steps that are watched\n")
        home.wait_for(lambda: place.workspaces("*/times.0"))
        place.stop()
        last = f"{place.daemon.pid} "  # strace goes on writing for a moment
        home.wait_for(
            lambda: any(
                line.startswith(last) and "+++ exited" in line
                for line in keep.read_text(errors="replace").splitlines()[-100:]
            )
        )


def strace(keep: Path) -> list[str]:
    """The command that a traced program follows; the tracer stands aside, so that signals reach the program."""
    options = [
        "-DDD",
        "-f",
        "-y",
        "-ttt",
        "-s",
        str(BYTES),
        "-e",
        f"trace={CALLS}",
        "-e",
        "signal=none",
    ]
    return ["strace", *options, "-o", str(keep)]


@dataclass(frozen=True)
class Proof:
    """What was found: the exit code and the words."""

    code: int
    words: str


def prove(steps: int, kept: Path | None = None) -> Proof:
    """Trace a daemon, or read the trace that is kept."""
    if kept and kept.exists():
        return _judged(read(kept), steps)
    if not shutil.which("strace"):
        return Proof(2, "strace is missing: nothing was proved")
    with tempfile.TemporaryDirectory(prefix="clew-trace-") as folder:
        there = kept or Path(folder, "trace")
        tried = subprocess.run([*strace(there), "true"], check=False, capture_output=True)
        if tried.returncode:
            return Proof(2, "strace may not trace here: nothing was proved")
        trace(steps, there)
        return _judged(read(there), steps)


def _judged(seen: Seen, steps: int) -> Proof:
    found = faults(seen, steps)
    words = (
        f"By strace: {2 * steps} answers checked ({steps} verdicts, {steps} to outcomes), {len(seen.synced)} syncs of"
        f" the ledger's log, {len(found)} answers sent before their record was durable."
    )
    return Proof(1 if found else 0, "\n".join([words, *found[:20]]))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--trace", type=Path, help="keep the trace here; one that is there is read")
    options = parser.parse_args()
    proof = prove(options.steps, options.trace)
    print(proof.words)
    sys.exit(proof.code)


if __name__ == "__main__":
    main()
