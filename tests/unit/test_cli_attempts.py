"""What people are shown of attempts: status, history, the live feed, the report, and the prompt of an earlier one."""

import asyncio
import json

import pytest

from clew_daemon.cli import run
from clew_daemon.publish.report import render
from clew_daemon.reading.describe import advance
from clew_daemon.reading.goal_text import goal_lines
from clew_daemon.record.goals import GoalStore
from clew_shared.config.tables import Settings
from clew_shared.core.answers import ActionReport
from clew_shared.core.attempts import AttemptGround
from clew_shared.core.journal import AttemptLimits
from clew_shared.ledger import Ledger
from clew_shared.record import events as ev
from clew_shared.record.moment import iso
from clew_shared.record.spec import Spec
from clew_shared.record.state import State
from clew_shared.views.publish import goal_detail

AT = 1_790_000_000.0
GOAL = "write-it-1a2b"
REASON = "it said twice that it was done, but these checks fail: tests"


def start_over(core, rung="temperature 0.7", at=AT, **ground):
    """End the present attempt and begin the next with a worker of its own."""
    core.attempts = AttemptLimits(3, 10)
    for _ in range(2):
        core.refuse_finish(("tests",), at, own_tools=False)
    epoch = core.state.epoch
    core.emit(ev.WorkerExited(at=at, epoch=epoch, reason="attempt"))
    core.begin_attempt(at, AttemptGround(**ground), rung=rung)
    core.emit(ev.WorkerStarted(at=at, epoch=epoch + 1, agent="bigger"))


def turn(core, tokens):
    core.reflect(ev.Reflected(at=AT, iteration=0, tokens=tokens, tokens_in=tokens, llm_s=1.0))


@pytest.fixture
def twice(played):
    """A goal in its second attempt."""
    agent = played(["one"])
    agent.core.emit(ev.WorkerStarted(epoch=1, agent="small"))
    agent.run("ls")
    turn(agent.core, 900)
    start_over(agent.core, restored=2)
    turn(agent.core, 100)
    return agent


def drawn(agent, **known):
    lines = goal_lines(goal_detail(agent.state, AT) | known, at=AT)
    return ["".join(text for text, _ in line).rstrip() for line in lines]


def test_status_says_which_attempt_it_is_and_why_the_one_before_ended(twice):
    lines = drawn(twice, attempt_limit=3)
    assert any("attempt 2 of 3" in line for line in lines)
    at = lines.index(f"attempt 1 ended: {REASON}")
    assert lines[at + 1] == "    attempt 2: temperature 0.7, 2 files restored"
    assert all(len(line) <= 80 for line in lines[at : at + 2])


def test_a_goal_in_detail_lists_its_fresh_starts_as_json(twice):
    detail = goal_detail(twice.state, AT)
    assert json.loads(json.dumps(detail)) == detail
    assert detail["attempt"] == 2
    assert detail["attempts"] == [
        {
            "attempt": 2, "task_idx": 0, "subtask_idx": 0, "epoch": 2,
            "started_at": iso(AT), "reason": REASON,
            "rung": "temperature 0.7", "restored": 2, "kept": None, "left": [],
        }
    ]  # fmt: skip


def feed(agent):
    state = State()
    entries = (advance(state, event, seq) for seq, event in agent.take())
    return [(entry.kind, entry.title) for entry in entries if entry]


def test_the_report_says_how_many_fresh_starts_there_were_and_why(twice):
    text = render(twice.state, [], [])
    assert "- fresh starts: 1\n" in text
    assert (
        f"  - 1.1 attempt 2 (temperature 0.7; 2 files restored), after attempt 1 ended: {REASON}"
        in text
    )


async def record(home):
    (home / "state").mkdir(parents=True)
    ledger = Ledger.open(home / "state" / "ledger.db")
    book = GoalStore(ledger, Settings())
    book.listeners.clear()
    spec = Spec(description="Write it", workspace="/nowhere")
    await book.accept(ev.GoalAccepted(at=AT, goal_id=GOAL, spec=spec, identity=(GOAL,)), b"goal")
    core = book.cores[GOAL]
    with book.entering(core):
        core.emit(ev.GoalStarted(at=AT))
        core.emit(ev.WorkerStarted(at=AT, epoch=1, agent="small", pid=4242))
        core.start(AT)
        for n in (1, 2):
            seq = core.propose("run_cmd", {"cmd": f"echo in attempt {n}"}, AT).seq
            core.outcome(seq, ActionReport("success", f"output {n}", False, ""), AT)
            turn(core, 100)
            if n == 1:
                start_over(core)
    await book.commit(core)
    await ledger.close(5)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home = tmp_path_factory.mktemp("clew")
    asyncio.run(record(home))
    return home


@pytest.fixture
def clew(home, capsys):
    def call(*args):
        code = run(["--home", str(home), *args])
        return code, *capsys.readouterr()

    return call
