"""An error that nobody expected in a goal's run: tried again with back-off, and in the end a person is asked."""

import sys

import pytest

GOAL = "# Work\n\n## S\n- [ ] one\n  ```sh\n  true\n  ```\n"
FAULTS = {
    "a module that is missing since an upgrade": """
from clew_daemon.session.methods import Methods
def choose(self):
    import clew_daemon.no_longer_there
Methods._choose_strategies = choose
""",
    "an error while the goal is queued": """
from clew_daemon.record.goals import GoalStore
emit = GoalStore.emit
async def failing(self, core, event, *rest, **named):
    if event.kind == "goal_started":
        raise ZeroDivisionError("division by zero")
    await emit(self, core, event, *rest, **named)
GoalStore.emit = failing
""",
    "an event that the fold cannot take in": """
from clew_shared.record import events, fold
real = fold.TABLE["action_allowed"]
def half(state, event, seq):
    real(state, event, seq)
    raise IndexError("list index out of range")
fold.TABLE["action_allowed"] = half
""",
}
SAID = (
    "ModuleNotFoundError: No module named",
    "ZeroDivisionError: division",
    "IndexError: list index",
)
DAEMON = """
import sys
{fault}
from clew_daemon.cli import main
sys.argv = ["clew", *sys.argv[4:]]
main()
"""


@pytest.mark.parametrize(("fault", "said"), [*zip(FAULTS.values(), SAID, strict=True)], ids=FAULTS)
def test_an_unexpected_error_in_a_run_ends_at_a_person(make_clew, fault, said):
    clew = make_clew({"restart.max_restarts": 3, "restart.backoff_initial_s": 0.05})
    clew.start(under=(sys.executable, "-c", DAEMON.format(fault=fault)))
    goal = clew.submit(GOAL)
    blocked = clew.wait("goal.blocked", goal=goal)
    assert said in blocked["reason"]
    assert said in blocked["question"]
    assert "clew continue" in blocked["question"]
    failed = clew.seen("goal.run_failed", goal=goal) + clew.seen("daemon.bug", goal=goal)
    assert len(failed) == 4
    assert all("Traceback" in str(line) for line in failed)
    assert clew.goal(goal)["pid"] is None
    clew.kill()
    since = clew.now()
    clew.start()  # whole again
    clew.ask("resume", goal=goal)
    clew.wait("goal.completed", goal=goal, since=since)
    clew.stop()
    clew.events.clear()  # these faults were wanted
