"""No answer is sent before its record is durable, as strace sees it beside a real daemon; `STEPS=300 …` shows more."""

import os
import re
import shutil
import subprocess

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


def calls(lines):
    """Each call of the trace, and its end, with the numbers of the lines at which it begins and ends."""
    begun = {}
    for number, line in enumerate(lines):
        if not (found := _CALL.match(line)):
            continue
        pid, rest = found["pid"], found["rest"]
        if rest.endswith("<unfinished ...>"):
            begun[pid] = (number, rest)
        else:
            began, call = begun.pop(pid) if rest.startswith("<... ") else (number, rest)
            yield call, rest, began, number


def unsynced(lines):
    """A line for each answer that no sync of the log precedes; the agent's hello is request 1."""
    written, synced, answered = {}, [], {}
    for call, end, began, ended in calls(lines):
        to_log = "/ledger.db-wal>" in call
        if call.startswith(("fdatasync(", "fsync(")):
            if to_log and end.rstrip().endswith("= 0"):
                synced.append((began, ended))
        elif to_log:
            written = dict.fromkeys(_STEP.findall(call), ended) | written
        elif answer := _ANSWER.search(call):
            answered.setdefault(int(answer["id"]), began)
    found = []
    for number in range(2 * STEPS):
        record = f"{'done ' if number % 2 else ''}step-{number // 2:05d}"
        at, until = written.get(record), answered.get(number + 2)
        if at is None or until is None:
            found.append(f"{record}: not seen in the trace")
        elif not any(at < began and ended < until for began, ended in synced):
            found.append(f"{record}: no sync between lines {at} and {until}")
    return found


def test_a_sync_of_the_log_stands_between_each_record_and_its_answer(make_clew, tmp_path):
    clew, trace = make_clew({"limits.max_actions": 10 * STEPS}), tmp_path / "trace"
    # the tracer is detached, so that signals reach the daemon
    options = f"-DDD -f -y -ttt -s {BYTES} -e trace={CALLS} -e signal=none -o {trace}"
    strace = ("strace", *options.split())
    if not shutil.which("strace") or subprocess.run([*strace, "true"], check=False).returncode:
        pytest.skip("strace is missing, or may not trace here")
    clew.agent("stepper", AGENT, own_tools=True)
    clew.start(under=strace)
    clew.completed("---\nagent: stepper\n---\n# Steps that are watched\n")
    clew.stop()  # waits for the tracer, too
    lines = trace.read_text(errors="replace").splitlines()
    found = unsynced(lines)
    print(f"{2 * STEPS} answers, {len(found)} of them sent too early")  # noqa: T201
    assert not found
    without = unsynced([line for line in lines if "fdatasync" not in line])
    assert len(without) == 2 * STEPS, "a log that is never synced was not noticed"
