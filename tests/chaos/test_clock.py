"""The wall clock is set back and forward by a day under a working daemon: nothing is lost, nothing is spent."""

import datetime as dt
import sys
from pathlib import Path

import pytest

from surroundings import bystander, runbook, sound, unharmed

STARTER = Path(__file__).parent / "shifted.py"
DAY_S = 86_400
GO = "until test -e {}; do sleep 0.02; done"


class Clock:
    """The wall clock of a daemon; `set` takes effect at once."""

    def __init__(self, clew):
        self.file = clew.folder / "shift"

    def set(self, shift_s):
        part = self.file.with_suffix(".part")
        part.write_text(str(shift_s))
        part.replace(self.file)


@pytest.mark.cold  # the clock comes before all imports
@pytest.mark.parametrize("jump_s", [-DAY_S, pytest.param(DAY_S, marks=pytest.mark.long)])
def test_a_clock_that_is_set_loses_and_spends_nothing(make_clew, jump_s):
    clew = make_clew({"daemon.max_workers": 5})
    clock = Clock(clew)
    clew.start(under=(sys.executable, str(STARTER), str(clock.file)))
    done = clew.completed(runbook("echo 1 >> trace"), "done.md")
    steps = ["echo 1 >> trace", GO.format("go"), "echo 2 >> trace"]
    goal = clew.submit(runbook(*steps, budget="{wall_s: 120}"), "goal.md")
    clew.wait("action.allowed", goal=goal, count=2)
    clock.set(jump_s)
    other = bystander(clew)
    clew.kill_agent(goal)
    clew.wait("worker.ready", goal=goal, epoch=2)
    (clew.workspace(goal) / "go").touch()
    clew.wait("goal.completed", goal=goal)
    unharmed(clew, other)
    clock.set(0)
    last = clew.completed(runbook("echo 1 >> trace"), "last.md")
    seqs = [line["seq"] for line in clew.history(goal)]
    assert seqs == sorted(set(seqs))
    assert clew.lines(goal, "trace") == ["1", "2"]
    assert set(clew.goals()) == {done, goal, other, last}  # the ended ones are kept
    stamps = [dt.datetime.fromisoformat(e["timestamp"]) for e in clew.events]
    assert max(stamps) - min(stamps) > dt.timedelta(hours=23)  # people see the clock as it was
    assert not clew.seen("worker.killed")
    sound(clew)
