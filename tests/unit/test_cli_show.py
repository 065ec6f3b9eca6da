"""`clew show`: one action in full, as the ledger has it; and what the history says of actions."""

import asyncio

import pytest

from clew_daemon.cli import run
from clew_daemon.record.goals import GoalStore
from clew_shared.config.tables import Settings
from clew_shared.core.answers import ActionReport
from clew_shared.ledger import Ledger
from clew_shared.record import events as ev
from clew_shared.record.moment import local
from clew_shared.record.spec import Spec

AT = 1_790_000_000.0
GOAL, EMPTY = "write-it-1a2b", "empty-0000"
OUTPUT = "one  two\n\tthree [x]\n" + "\n".join(f"line {n} of a long output" for n in range(3_000))
CMD = "printf  'two  spaces'\nmake all"


async def record(home) -> dict[str, int]:
    """Record a goal with an action of each kind; their numbers, and that of the first one's end."""
    (home / "state").mkdir(parents=True)
    ledger = Ledger.open(home / "state" / "ledger.db")
    book = GoalStore(ledger, Settings())
    book.listeners.clear()
    for goal in (GOAL, EMPTY):
        spec = Spec(description="Write it", workspace="/nowhere")
        await book.accept(
            ev.GoalAccepted(at=AT, goal_id=goal, spec=spec, identity=(goal,)), b"goal"
        )
    core, seqs = book.cores[GOAL], {}
    with book.entering(core):
        core.emit(ev.GoalStarted(at=AT))
        core.emit(ev.WorkerStarted(at=AT, epoch=1, agent="llm", pid=4242))
        core.start(AT)
        seqs["finished"] = core.propose("run_cmd", {"cmd": CMD, "n": [1]}, AT, "to [see] it").seq
        report = ActionReport("failure", OUTPUT, False, "", 1.25, 3)
        core.outcome(seqs["finished"], report, AT + 1.25)
        for _ in range(4):
            verdict = core.propose("run_cmd", {"cmd": "false"}, AT + 2)
            if verdict.allowed:
                core.outcome(verdict.seq, ActionReport("failure", "", False, "", 0.5, 1), AT + 3)
        seqs["refused"] = verdict.seq
        seqs["interrupted"] = core.propose("read_file", {"path": "a"}, AT + 4).seq
        core.interrupt("executor_died", AT + 5, counts=True, only=seqs["interrupted"])
        seqs["running"] = core.propose("read_file", {"path": "b"}, AT + 6).seq
    await book.commit(core)
    ended = ("action_finished", "action_blocked", "action_interrupted")
    rows = list(ledger.read(GOAL))
    seqs["end"] = [row.seq for row in rows if row.kind in ended][-10:][0]
    await ledger.close(5)
    return seqs


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    home = tmp_path_factory.mktemp("clew")
    return home, asyncio.run(record(home))


@pytest.fixture
def clew(recorded, capsys):
    def call(*args: object, code: int = 0) -> str:
        assert run(["--home", str(recorded[0]), *map(str, args)]) == code
        said = capsys.readouterr()
        return said.out if code == 0 else said.err

    return call


def test_an_action_is_shown_with_all_that_is_recorded_of_it(clew, recorded):
    seq = recorded[1]["finished"]
    shown = clew("show", GOAL, seq)
    lines = shown.splitlines()
    assert lines[:8] == [
        f"#{seq}  run_cmd  failure",
        f"goal: {GOAL}, subtask 1.1, epoch 1",
        f"time: {local(AT)}",
        "duration: 1.25 s",
        "exit code: 3",
        "workspace: not changed",
        "rationale: to [see] it",
        "verdict: allowed",
    ]
    assert "    cmd:\n        printf  'two  spaces'\n        make all\n    n: [1]\n" in shown
    output = shown[shown.index("output:\n") :].splitlines()[1:]
    assert output[:2] == ["    one  two", "            three [x]"]
    assert output[-1] == "    line 2999 of a long output"
    assert len(output) == 3_002
