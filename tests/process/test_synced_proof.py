"""No answer is sent before its record is durable, as strace sees it beside a real daemon.

Each verdict and each answer to an outcome follows a completed fdatasync of the ledger's log that began after the record
was written to it. `STEPS=300 python -m pytest -s FILE` watches more steps and prints what was seen.
"""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest

STEPS = int(os.environ.get("STEPS", "8"))
CALLS = "write,writev,pwrite64,pwritev,sendto,sendmsg,fsync,fdatasync"
BYTES = 9_000  # of a call's data that strace shows: two pages
AGENT = f"""
hello()
for number in range({STEPS}):
    step = f"step-{{number:05d}}"
    verdict = call("propose", tool="edit", args={{"path": "a.py", "text": step}})
    call("outcome", seq=verdict["seq"], result="success", output=f"done {{step}}", changed=True)
done()
"""

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

    def unsynced(self) -> list[str]:
        """Return a line for each answer that no sync precedes; the agent's hello is request 1."""
        found = []
        for number in range(2 * STEPS):
            record = f"{'done ' if number % 2 else ''}step-{number // 2:05d}"
            written, answered = self.written.get(record), self.answered.get(number + 2)
            if written is None or answered is None:
                found.append(f"{record}: not seen in the trace")
            elif not any(written < began and ended < answered for began, ended in self.synced):
                found.append(f"{record}: no sync between lines {written} and {answered}")
        return found


def read(lines: list[str]) -> Seen:
    """Return what strace wrote with `-f -y`."""
    seen, open_calls = Seen(), {}
    for number, line in enumerate(lines):
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


def strace(out: Path) -> tuple[str, ...]:
    """Return the command that a traced program follows; the tracer is detached, so that signals reach the program."""
    if not shutil.which("strace"):
        pytest.skip("strace is missing")
    options = f"-DDD -f -y -ttt -s {BYTES} -e trace={CALLS} -e signal=none -o"
    command = ("strace", *options.split(), str(out))
    if subprocess.run([*command, "true"], check=False, capture_output=True).returncode:
        pytest.skip("strace may not trace here")
    return command


def test_a_sync_of_the_log_stands_between_each_record_and_its_answer(make_clew, tmp_path):
    clew, trace = make_clew({"limits.max_actions": 10 * STEPS}), tmp_path / "trace"
    clew.agent("stepper", AGENT, own_tools=True)
    clew.start(under=strace(trace))
    clew.completed("---\nagent: stepper\n---\n# Steps that are watched\n")
    clew.stop()  # waits for the tracer, too

    lines = trace.read_text(errors="replace").splitlines()
    seen = read(lines)
    found = seen.unsynced()
    print(f"{2 * STEPS} answers, {len(seen.synced)} syncs, {len(found)} answers sent too early")  # noqa: T201
    assert not found
    without = read([line for line in lines if "fdatasync" not in line]).unsynced()
    assert len(without) == 2 * STEPS, "a log that is never synced was not noticed"
