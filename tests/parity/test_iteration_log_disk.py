"""The iteration log outlives its program: what a crash leaves is read back, and what is broken is left out."""

import json
import subprocess
import sys

import pytest

from clew_worker import IterationLog
from clew_worker.library import iteration_store

FILE = ".agent_context/iterations.jsonl"
TWO_TURNS = """
import os, sys
from clew_worker import IterationLog
log = IterationLog(goal=sys.argv[1])
for n in (1, 2):
    log.add({"iteration": n, "progress_assessment": "stuck", "tool_calls": [{"tool": f"t{n}"}]})
"""
CRASHES = {
    "killed": "os.kill(os.getpid(), 9)",
    "ended without its last words": "os._exit(1)",
    "an error": "raise RuntimeError",
}


def run(folder, end="", goal=""):
    """Run a program that adds two records, and then does what `end` says."""
    code = [sys.executable, "-c", TWO_TURNS + end, goal]
    subprocess.run(code, cwd=folder, capture_output=True, timeout=60, check=False)


def turns(log):
    return [record.iteration for record in log.records]


def lines(folder, name=FILE):
    return [json.loads(line) for line in (folder / name).read_text().splitlines() if line]


@pytest.mark.parametrize("crash", CRASHES.values(), ids=CRASHES)
def test_after_a_crash_the_log_goes_on_with_its_records_and_its_streak(folder, crash):
    run(folder, crash)
    log = IterationLog()
    assert turns(log) == [1, 2]
    assert log.reasoning_context() == ["did t1 → found no output", "did t2 → found no output"]
    assert "recover" in log.add({"iteration": 3, "progress_assessment": "stuck"})
    assert turns(IterationLog()) == [1, 2, 3]


def test_after_a_program_that_ended_as_it_should_the_next_log_is_empty(folder):
    run(folder)
    log = IterationLog()
    assert log.records == []
    assert [line["iteration"] for line in lines(folder) if "iteration" in line] == [1, 2]
    log.add({"iteration": 7})
    assert turns(IterationLog()) == [7]


def test_the_log_of_a_goal_goes_on_with_that_goal_and_with_no_other(folder):
    run(folder, goal="Write it")
    assert turns(IterationLog(goal="Write it")) == [1, 2]
    assert turns(IterationLog(goal="Test it")) == []
    assert turns(IterationLog()) == []


def test_under_the_daemon_the_goal_is_the_daemons(folder, monkeypatch):
    monkeypatch.setenv("CLEW_GOAL_ID", "write-it-7f3a")
    run(folder)
    assert turns(IterationLog()) == [1, 2]
    assert (folder / ".agent_context/iterations-write-it-7f3a.jsonl").exists()
    monkeypatch.setenv("CLEW_GOAL_ID", "../elsewhere")
    assert turns(IterationLog()) == []


def test_a_log_that_another_program_has_open_is_left_alone(folder):
    code = TWO_TURNS + "print('added', flush=True); sys.stdin.read()"
    program = [sys.executable, "-c", code, ""]
    with subprocess.Popen(
        program, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout.readline() == b"added\n"
        log = IterationLog()
        log.add({"iteration": 9})
        assert turns(log) == [9]
        assert [line.get("iteration") for line in lines(folder)] == [None, 1, 2]
        other.stdin.close()


def test_damaged_lines_are_skipped_with_a_warning_and_the_next_record_is_whole(folder):
    run(folder, CRASHES["killed"])
    path = folder / FILE
    path.write_bytes(
        path.read_bytes()
        + b'\x00\xff{"half\n[1]\n{"iteration": -1}\n{"opened": []}\n{"iteration": 3}\n{"iterat'
    )
    with pytest.warns(RuntimeWarning, match="5 damaged lines are skipped"):
        log = IterationLog()
    assert turns(log) == [1, 2, 3]
    log.add({"iteration": 4})
    with pytest.warns(RuntimeWarning, match="5 damaged lines"):
        assert turns(IterationLog()) == [1, 2, 3, 4]


def test_the_file_is_bounded_and_keeps_the_newest_records(folder, monkeypatch):
    monkeypatch.setattr(iteration_store, "BYTES_MAX", 4000)
    log = IterationLog()
    for n in range(60):
        log.add({"iteration": n, "synthesis": "x" * 100})
        assert (folder / FILE).stat().st_size <= 4000
    found = turns(IterationLog())
    assert 5 < len(found) < 60
    assert found == list(range(60))[-len(found) :]
    assert turns(log) == list(range(60))


def test_a_record_that_is_too_large_is_not_kept_on_disk_and_that_is_said(folder):
    log = IterationLog()
    with pytest.warns(RuntimeWarning, match="iteration 1 is too large"):
        log.add({"iteration": 1, "tool_calls": [{"tool": "t", "params": {"x": "y" * 300_000}}]})
    log.add({"iteration": 2})
    assert turns(log) == [1, 2]
    assert turns(IterationLog()) == [2]


def test_what_is_no_json_is_kept_as_text_and_keys_are_not_kept(folder):
    key = "sk-abcdef0123456789abcdef"
    log = IterationLog()
    params = {"path": folder, "password": "hunter22", "cmd": f"curl -H {key}"}
    log.add({"iteration": 1, "tool_calls": [{"tool": "t", "params": params}]})
    text = (folder / FILE).read_text()
    assert key not in text
    assert "hunter22" not in text
    assert IterationLog().records[0].tool_calls[0].params["path"] == str(folder)


@pytest.mark.parametrize("kind", ["link", "file"])
def test_where_nothing_can_be_kept_the_log_warns_once_and_goes_on_in_memory(folder, kind):
    place = folder / ".agent_context"
    (folder / "elsewhere").mkdir()
    place.symlink_to(folder / "elsewhere") if kind == "link" else place.write_text("mine")
    with pytest.warns(RuntimeWarning, match="continues in memory"):
        log = IterationLog()
    log.add({"iteration": 1})
    assert turns(log) == [1]
    assert place.is_symlink() if kind == "link" else place.read_text() == "mine"
    assert list((folder / "elsewhere").iterdir()) == []


def test_a_log_without_a_folder_writes_nothing(folder):
    log = IterationLog(folder=None)
    log.add({"iteration": 1})
    assert turns(log) == [1]
    assert list(folder.iterdir()) == []
    IterationLog()
    assert list(folder.iterdir()) == []
