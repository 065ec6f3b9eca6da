"""`clew playbook` beside a ledger, without a daemon: what it prints."""

import asyncio
import json

import pytest

from clew_daemon.cli import run
from clew_daemon.record.goals import GoalStore
from clew_shared.config.tables import Settings
from clew_shared.core.answers import ActionReport
from clew_shared.ledger import Ledger
from clew_shared.record import events as ev
from clew_shared.record.daemon_events import (
    BulletAdded,
    BulletRemoved,
    BulletTagged,
    ModelUsed,
)
from clew_shared.record.spec import Spec

AT = 1_790_000_000.0
GOAL = "make-it-7f3a"
SMALL = "small@127.0.0.1:8080"


async def record(home):
    """Record a goal with an action, and two strategies: one drawn from it and tagged, one put away."""
    (home / "state").mkdir(parents=True)
    ledger = Ledger.open(home / "state" / "ledger.db")
    book = GoalStore(ledger, Settings())
    book.listeners.clear()
    spec = Spec(description="Make it")
    await book.accept(ev.GoalAccepted(at=AT, goal_id=GOAL, spec=spec), b"goal")
    core = book.cores[GOAL]
    with book.entering(core):
        core.emit(ev.GoalStarted(at=AT))
        core.start(AT)
        seq = core.propose("run_cmd", {"cmd": "pytest"}, AT).seq
        core.outcome(seq, ActionReport("success", "ok", changed=False), AT)
    await book.commit(core)
    learned = {"section": "testing", "source_goal": GOAL, "evidence": "call 1", "actions": (seq,)}
    await book.emit_own(
        [
            BulletAdded(at=AT, id="tes-00001", content="Run tests \x1b[31m", **learned),
            BulletAdded(at=AT, id="she-00002", section="shell", content="Quote paths"),
            BulletAdded(at=AT, id="tes-00003", section="testing", content="Never run tests"),
            BulletTagged(at=AT, id="tes-00001", tag="helpful", reason="imported", times=2),
            BulletRemoved(at=AT, id="she-00002", reason="by a person"),
            *(ModelUsed(at=AT, model=SMALL, goal=f"g-{n}", needed=2) for n in range(5)),
            ModelUsed(at=AT, model="new\x1b[31m@h", goal="g-0", needed=7),
        ]
    )
    await ledger.close(5)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clew")
    asyncio.run(record(folder))
    return folder


@pytest.fixture
def playbook(home, capsys, monkeypatch):
    monkeypatch.delenv("CLEW_HOME", raising=False)

    def call(*args, home=home):
        code = run(["--home", str(home), "playbook", *args])
        said = capsys.readouterr()
        return code, said.out, said.err

    return call


def test_it_lists_by_sections_as_agents_see_it_and_spells_out_controls(playbook):
    code, out, _ = playbook("list")
    assert code == 0
    assert out.startswith(
        "## Learned Strategies\n\n### Testing\n- [tes-00001] Run tests \\x1b[31m ("
    )
    assert "(helpful=2, harmful=0)" in out
    assert "Quote paths" not in out
    assert "## Archived\n\n### Shell\n- [she-00002]" in playbook("list", "--archived")[1]


def test_show_says_where_a_strategy_came_from_and_what_became_of_it(playbook):
    out = playbook("show", "tes-00001")[1]
    assert f"from {GOAL}" in out
    assert "tagged helpful x 2  imported" in out
    view = json.loads(playbook("show", "she-00002", "--json")[1])
    assert view["archived"]
    assert [event["event"] for event in view["events"]] == ["added", "removed"]
    assert view["events"][1]["reason"] == "by a person"
