"""The executor: commands, deadlines, output, and what happens around them."""

import contextlib
import os
import signal
from pathlib import Path

import pytest

from clew_shared.wire.executor import RunRequest
from clew_shared.wire.nursery import CellLimits


def processes_line(pid):
    """What the kernel says of the limit of processes."""
    lines = Path(f"/proc/{pid}/limits").read_text().splitlines()
    return next(line for line in lines if line.startswith("Max processes"))


def test_a_deadline_ends_the_command_with_all_that_it_started(hands):
    script = "setsid sleep 1000 & echo $! > pid; echo head; sleep 1000"
    done = hands.sh(script, timeout_s=0.5)
    assert done.result == "timeout"
    assert done.output.startswith("head\n")
    assert hands.sh("kill -0 $(cat pid)").result == "failure"


def test_an_action_may_lower_its_deadline_but_not_raise_it(hands):
    for limit_s, asked_s in ((0.3, 1000), (1000, 0.3)):
        args = {"cmd": "sleep 1000", "timeout_s": asked_s}
        hands.send(RunRequest(id=1, seq=1, tool="run_cmd", args=args, timeout_s=limit_s))
        assert hands.receive().result == "timeout"


def test_a_background_child_lives_on_and_a_later_command_can_end_it(hands):
    hands.sh("sleep 1000 & echo $! > pid")
    assert hands.sh("kill -0 $(cat pid)").result == "success"
    assert hands.sh("kill $(cat pid)").result == "success"


def test_a_huge_output_keeps_its_head_and_its_tail(hands):
    done = hands.sh("echo first; yes | head -c 300000000; echo last", output_bytes=1000)
    assert done.result == "success"
    assert done.output.startswith("first\n")
    assert done.output.endswith("last\n")
    assert "bytes left out" in done.output
    assert len(done.output) < 1200


def test_a_command_that_meets_the_limit_of_processes_is_refused_and_the_executor_lives(executor):
    most = 30
    hands = executor(limits=CellLimits(processes=most))
    if f"{most} " not in processes_line(hands.cell.pid):
        pytest.skip("processes are not counted by cell here")
    last = [hands.sh("sleep 1000 &") for _ in range(most)][-1]
    assert (last.result, last.output) == (
        "error",
        "cannot start the command: Resource temporarily unavailable",
    )
    for pid in hands.cell.tree():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if Path(f"/proc/{pid}/comm").read_text() == "sleep\n":
                os.kill(pid, signal.SIGKILL)
    assert hands.sh("echo again").output == "again\n"


def test_a_command_holds_no_descriptor_of_the_executor(hands):
    script = "for n in 0 1 2 3 4 5 6 7 8 9; do [ -e /proc/$$/fd/$n ] && echo $n; done; true"
    assert hands.sh(script).output.split() == ["0", "1", "2"]


def test_the_executor_ends_when_the_daemon_hangs_up(hands):
    hands.start("run_cmd", cmd="sleep 1000", timeout_s=1000)
    hands.cell.channel.shutdown(2)
    assert hands.cell.wait() == 0


def test_a_broken_line_ends_the_executor_as_a_fault_of_the_protocol(hands):
    hands.cell.channel.sendall(b"no json\n")
    assert hands.cell.wait() == 78
    assert "invalid message" in hands.cell.read_log()


def place_of(folder):
    found = folder.stat()
    return found.st_dev, found.st_ino


def test_a_cell_that_finds_another_folder_than_its_own_does_not_start(nursery, spec, home):
    wanted = place_of(home / "workspace")
    (home / "workspace").rename(home / "original")
    (home / "workspace").mkdir(mode=0o777)
    for kind in ({}, {"sh": "touch acted"}):
        answer = nursery.refused(spec(**kind, stands_on=wanted))
        assert (answer.type, answer.reason) == ("spawn_failed", "workspace")
    assert list((home / "workspace").iterdir()) == []


def test_commands_stay_in_the_folder_that_their_executor_began_in(executor, home):
    hands = executor(stands_on=place_of(home / "workspace"))
    (home / "workspace").rename(home / "original")
    (home / "workspace").mkdir(mode=0o777)
    assert hands.sh("touch acted").result == "success"
    assert (home / "original" / "acted").exists()
    assert list((home / "workspace").iterdir()) == []
