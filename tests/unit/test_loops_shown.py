"""What people see of loops: why an agent was told or refused, and what came of it (docs/loops.md)."""

import pytest

from clew_daemon.cli.commands.loops import loop_lines
from clew_daemon.record.findings import findings, step
from clew_daemon.record.goals import GoalStore
from clew_shared.config.tables import Settings
from clew_shared.core.answers import ActionReport
from clew_shared.core.journal import AttemptLimits
from clew_shared.ledger import Ledger
from clew_shared.record import events as ev
from clew_shared.record.spec import Spec


def done(core, tool, args, output, result="success", world="w0"):
    verdict = core.propose(tool, args, 1.0)
    if verdict.allowed:
        core.outcome(verdict.seq, ActionReport(result, output, None, world), 1.0)


def search(core, n):
    done(core, "search", {"pattern": f"word{n}"}, "nothing found")


def make(core, _n):
    done(core, "run_cmd", {"cmd": "make"}, "No rule to make target", "failure")


def news(core, n):
    done(core, "read_file", {"path": f"f{n}"}, f"a line of text number{n}")


def till(step_, words):
    """Do the same until the agent was told or refused so many times."""

    def play(core, _n):
        for n in range(60):
            if len(core.state.findings) < words and not core.state.attempt.over:
                step_(core, n)
        assert len(core.state.findings) == words

    return play


@pytest.fixture
async def told(tmp_path):
    """Play steps into a ledger; give the loops as `clew loops` has them, and as it prints them."""
    ledger = Ledger.open(tmp_path / "ledger.db")
    book = GoalStore(ledger, Settings())
    book.listeners.clear()

    async def play(*steps, attempts=1):
        await book.accept(ev.GoalAccepted(goal_id="g", spec=Spec(description="Do")), b"file")
        core = book.cores["g"]
        core.attempts = AttemptLimits(limit=attempts)
        with book.entering(core):
            core.emit(ev.GoalStarted())
            core.see_world("w0", 0.0)
            core.start(0.0)
            for n, one in enumerate(steps):
                one(core, n)
        await book.commit(core)
        found, _ = findings(ledger, "g", 100)
        seqs = {seq for one in found for seq in one["steps"]}
        named = {seq: one for seq in seqs if (one := step(ledger, "g", seq))}
        shown = [row for one in found for row in loop_lines(one, named)]
        return core, found, "\n".join("".join(text for text, _ in row) for row in shown)

    yield play
    await ledger.close(10)


@pytest.mark.parametrize(
    ("steps", "attempts", "came"),
    [
        ([till(search, 1)], 1, ["open"]),
        ([till(search, 1), news], 1, ["heeded"]),
        ([till(search, 2)], 1, ["ignored", "open"]),
        ([till(search, 3)], 3, ["ignored", "ignored", "attempt_ended"]),
        ([till(make, 1)], 1, ["open"]),
        ([till(make, 1), news], 1, ["heeded"]),
        ([till(make, 1), make], 1, ["ignored"]),
    ],
)
async def test_what_came_of_it(told, steps, attempts, came):
    _, found, _ = await told(*steps, attempts=attempts)
    assert [one["came_of_it"] for one in found] == came
