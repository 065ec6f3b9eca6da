"""A ledger that is taken away from under its daemon: it notices, judges nothing more, and says so."""

import json
import shutil
from pathlib import Path

import pytest
from harness import DEADLINE_S, remove_at_once, runbook
from of_proc import paused

DONE = runbook("echo the word is amaranth", title="Say a word")
STEPS = [f"echo {i} >> trace; sleep 0.05" for i in range(400)]
WORK = runbook(*STEPS, on_interrupt="retry")


def at_work(clew) -> str:
    """A completed goal, and another one that has taken some steps."""
    clew.start().completed(DONE, "done.md")
    goal = clew.submit(WORK, "work.md")
    clew.wait("action.finished", goal=goal, count=3)
    return goal


def older_copy(clew) -> Path:
    old = clew.folder / "old.db"
    clew.clew("backup", str(old))
    return old


def ended(clew) -> str:
    """Wait for the daemon's end, with 78 and nothing left over; its last words."""
    assert clew.daemon.wait(DEADLINE_S) == 78
    clew.assert_alone()
    clew.now()
    said = [
        line
        for line in clew.log.read_text(errors="replace").splitlines()
        if line.startswith("clew: ")
    ]
    assert len(said) == 1, said
    assert clew.seen("ledger.lost")
    return said[0]


def refused(clew, *words: str) -> str:
    said = clew.clew("run", code=78)
    message = next(line for line in said.splitlines() if line.startswith("clew: "))
    assert all(word in message for word in words), message
    return message


def goes_on(clew, goal: str) -> None:
    """The next daemon has all that was recorded, and works on once a person says so."""
    since = clew.now()
    clew.start()
    if clew.goal(goal)["status"] == "blocked":
        clew.clew("resume", goal)
    clew.wait("action.finished", since=since, goal=goal, count=2)
    assert clew.stop() == 0
    assert clew.verified()


def removed(state):
    remove_at_once(state)


def overwritten(state):
    (state / "ledger.db").write_bytes((state.parents[1] / "old.db").read_bytes())


def without_its_log(state):
    (state / "ledger.db-wal").unlink()


@pytest.mark.parametrize(
    "happens", [removed, overwritten, without_its_log], ids=lambda h: h.__name__
)
def test_a_daemon_whose_ledger_is_taken_away_accepts_and_judges_nothing_more(clew, happens):
    goal = at_work(clew)
    older_copy(clew)
    clew.wait("action.finished", since=clew.now(), goal=goal, count=3)
    with paused(clew.daemon):
        happens(clew.home / "state")
    clew.drop(DONE, "late.md")
    assert "clew restore FILE" in ended(clew)
    kept = [p for p in (clew.home / "inbox").iterdir() if p.name.endswith("late.md")]
    assert [p.read_text() for p in kept] == [DONE]  # claimed or not, it is the next daemon's
    assert len(clew.lines(goal, "trace")) <= len(clew.seen("action.allowed", goal=goal))
    if happens is without_its_log:
        refused(clew, "clew restore")
    clew.clew("restore", str(clew.folder / "old.db"), "--yes")
    goes_on(clew, goal)


def test_an_older_ledger_put_back_while_no_daemon_runs_is_refused_and_named(clew):
    first = clew.start().completed(DONE, "first.md")
    old = older_copy(clew)
    second = clew.completed(DONE.replace("Say", "Sing"), "second.md")
    third = clew.submit("---\nnot_before: 2999-01-01T00:00:00Z\n---\n# Later\n", "third.md")
    assert clew.stop() == 0
    new = clew.folder / "new.db"
    shutil.copy(clew.ledger, new)
    shutil.copy(old, clew.ledger)

    refused(clew, "it ends at event", second, third, "clew restore --keep")
    found = json.loads(clew.clew("verify", "--json", code=1))
    assert second in found["fault"]["message"]
    assert second in clew.clew("doctor", code=1)

    shutil.copy(new, clew.ledger)  # the newer file put back: as if nothing had been
    clew.start()
    assert set(clew.goals()) == {first, second, third}
    clew.stop()

    shutil.copy(old, clew.ledger)
    Path(f"{clew.ledger}.head").unlink()  # the goals' folders alone say it, too
    refused(clew, second, third)
    told = json.loads(clew.clew("restore", "--keep", "--json"))
    assert [g["id"] for g in told["goals_lost"]] == sorted([second, third])
    assert all(Path(g["file"]).read_text() for g in told["goals_lost"])
    clew.start()
    assert set(clew.goals()) == {first}
    clew.stop()
    assert all(Path(g["file"]).exists() for g in told["goals_lost"])
