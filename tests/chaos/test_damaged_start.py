"""A daemon and the command line on a damaged ledger: what a person sees, and that nothing is touched."""

import json
import shutil
from pathlib import Path

import apsw
import pytest
from harness import runbook

GOAL = runbook("echo the word is amaranth", "seq 2000")


@pytest.fixture
def ended(clew):
    """A home with a completed goal, whose daemon has stopped; all is in the ledger's file."""
    goal = clew.start().completed(GOAL)
    clew.report(goal)
    assert clew.stop() == 0
    return clew, goal


def edit(path: Path, sql: str) -> None:
    con = apsw.Connection(str(path))
    con.execute(sql)
    assert con.changes() == 1
    con.close()


def overwrite(path: Path, old: bytes, new: bytes) -> None:
    """Change bytes where they stand, as a disk does that forgets."""
    data = path.read_bytes()
    assert old in data
    path.write_bytes(data.replace(old, new))


def files(clew) -> dict[str, bytes]:
    state = clew.home / "state"
    found = (path for path in state.glob("ledger.db*") if path.is_file() and path.suffix != ".lock")
    return {path.name: path.read_bytes() for path in found}


def refused(clew, *words: str, code: int = 78) -> None:
    """The daemon does not start, says why in a line or two, and leaves the files as they are."""
    before = files(clew)
    said = clew.clew("run", code=code)
    message = [line for line in said.splitlines() if line.startswith("clew: ")]
    assert len(message) == 1, said
    assert all(word in message[0] for word in words), message
    assert "Traceback" not in said
    now = files(clew)
    assert {name: now.get(name) for name in before if "-shm" not in name} == {
        name: data for name, data in before.items() if "-shm" not in name
    }


def says(clew, *args: str, words: tuple = (), code: int = 1) -> str:
    said = clew.cli(*args, code=code)
    assert "Traceback" not in said
    assert all(word in said for word in words), said
    return said


@pytest.mark.long
def test_an_event_that_was_changed_stops_the_start_and_is_named(ended):
    clew, goal = ended
    edit(
        clew.ledger, "UPDATE events SET body = CAST(body || ' ' AS BLOB) WHERE kind = 'goal_ended'"
    )

    refused(clew, "damaged", f"of {goal} does not fit", "clew restore FILE")
    says(clew, "verify", words=("error", goal, "was changed"))
    says(clew, "status", words=("damaged", "clew verify"))
    says(clew, "history", goal, words=("damaged",))


def test_a_ledger_that_is_gone_or_empty_is_not_begun_anew_where_goals_were_accepted(ended):
    clew, goal = ended
    ledger, kept = clew.ledger, clew.home / "kept.db"
    shutil.move(ledger, kept)

    refused(
        clew,
        "is gone, but these goals were accepted",
        goal,
        "clew restore FILE",
        "move the whole folder",
    )
    assert not ledger.exists()
    ledger.touch()
    refused(clew, "is empty, but these goals were accepted", goal)
    assert ledger.stat().st_size == 0
    says(clew, "verify", words=("is empty", goal))
    says(clew, "status", words=("is empty", goal))

    shutil.move(kept, ledger)
    clew.start()
    assert clew.goal(goal)["status"] == "completed"
    clew.stop()

    ledger.unlink()
    shutil.rmtree(clew.home / "state" / "goals")
    refused(clew, "is gone, but", "events were recorded")  # the note beside it says so, too
    shutil.move(clew.home / "state", clew.home / "old state")  # as the message says
    clew.start()
    assert clew.goals() == {}
    clew.stop()


def test_an_output_that_was_changed_is_named_and_shown_as_damaged(ended):
    clew, goal = ended
    overwrite(clew.ledger, b"amaranth\n", b"amarynth\n")

    says(clew, "verify", words=("output was changed", goal))
    history = json.loads(says(clew, "history", goal, "--json", code=0))["actions"]
    assert "amarynth" not in json.dumps([line["output"] for line in history])
    assert sum("damaged" in line["output"] for line in history) == 1
    assert sum(line["output"].startswith("1\n2\n") for line in history) == 1


def test_half_a_file_that_a_killed_daemon_left_is_removed_at_the_next_start(clew):
    outbox, rejected = clew.home / "outbox", clew.home / "inbox" / "rejected"
    drafts = [folder / ".0123456789abcdef.tmp" for folder in (outbox, rejected)]
    mine = outbox / ".mine.tmp"
    for one in (*drafts, mine):
        one.parent.mkdir(parents=True, exist_ok=True)
        one.write_text("half")
    clew.start()
    assert not any(one.exists() for one in drafts)
    assert mine.exists()
