"""What a goal's run says about strategies: who is credited, what is taught, and that it is done once."""

import pytest

from clew_daemon.learning.playbook import PlaybookStore, playbook_events
from clew_daemon.learning.review import ReviewFold, lessons
from clew_daemon.learning.reviewer import unreviewed_outcomes
from clew_daemon.record.goals import GoalStore
from clew_shared.config.tables import Settings
from clew_shared.core.answers import ActionReport
from clew_shared.ledger import Ledger
from clew_shared.playbook.reflector import ExecutionReflector
from clew_shared.record import events as ev
from clew_shared.record.spec import Spec

AT = 1_790_000_000.0
CHECKED = Spec(description="Do it", checks={"ok": "true"})
SHOWN = ev.StrategiesShown(epoch=1, ids=("tes-00001",))
BLOCKED = ev.Escalated(to="person", reason="failed twice")
AGAIN = "Do not call `run_cmd pytest -q` again while nothing has changed: it ends as it did before"
REFLECTOR = ExecutionReflector(2, 0.7)


def rests(events, spec=CHECKED, outputs=()):
    runs = ReviewFold("g", spec, lambda seq: dict(outputs).get(seq, ""))
    taken = [runs.take(seq, event) for seq, event in enumerate(events, start=1)]
    return [rest for rest in taken if rest]


def action(seq, tool, result="success", **args):
    """Two events: allowed as `seq`, and finished."""
    allowed = ev.ActionAllowed(epoch=1, tool=tool, args=args, signature=tool)
    return [allowed, ev.ActionFinished(of=seq, result=result, outcome=result)]


def ended(status):
    return ev.GoalEnded(status=status)


@pytest.mark.parametrize(
    ("events", "spec", "tag"),
    [
        ([ended("completed")], CHECKED, "helpful"),
        ([ended("completed")], Spec(description="Do it"), "neutral"),
        ([ended("failed")], CHECKED, "harmful"),
        ([ended("cancelled")], CHECKED, "neutral"),
        ([BLOCKED, ev.GoalBlocked(reason="failed twice")], CHECKED, "harmful"),
        ([ev.GoalBlocked(reason="budget: 30 iterations")], CHECKED, "harmful"),
        ([ev.GoalBlocked(reason="no key for the endpoint")], CHECKED, "neutral"),
        (
            [BLOCKED, ev.Planned(tasks=(), replan="task"), ev.GoalBlocked(reason="x")],
            CHECKED,
            "neutral",
        ),
    ],
)
def test_only_what_was_verified_credits(events, spec, tag):
    found = rests([SHOWN, *events], spec)
    assert [(rest.tag, rest.shown) for rest in found] == [(tag, ("tes-00001",))]


def test_each_rest_credits_what_was_shown_since_the_one_before():
    other = ev.StrategiesShown(epoch=3, ids=("tes-00002", "tes-00003"))
    again = ev.StrategiesShown(epoch=2, ids=("tes-00002",))
    found = rests([SHOWN, BLOCKED, ev.GoalBlocked(reason="x"), again, other, ended("completed")])
    assert [(rest.tag, rest.shown) for rest in found] == [
        ("harmful", ("tes-00001",)),
        ("helpful", ("tes-00002", "tes-00003")),
    ]


def taught(*events, outputs=(), spec=CHECKED):
    (rest,) = rests([event for part in events for event in part], spec, outputs)
    return [(one.section, one.content, one.actions) for one in lessons(rest, REFLECTOR)]


DONE = [ev.SubtaskEnded(status="completed")]
WROTE = action(1, "write_file", path="a.py", content="x" * 5000)
TESTED = action(3, "run_cmd", cmd="pytest")


def test_a_subtask_of_a_completed_goal_teaches_its_pattern_and_names_the_actions():
    lesson = ("testing", "Run tests after code changes", (1, 3))
    assert taught(WROTE, TESTED, DONE, [ended("completed")]) == [lesson]
    assert taught(WROTE, TESTED, [ended("completed")]) == [lesson]


@pytest.mark.parametrize("end", [ended("failed"), ended("cancelled"), ev.GoalBlocked(reason="x")])
def test_success_is_not_learned_from_a_goal_that_did_not_complete(end):
    assert taught(WROTE, TESTED, DONE, [end]) == []


def test_patterns_do_not_reach_over_subtasks_and_a_lesson_comes_once():
    again = [*action(6, "write_file", path="b.py"), *action(8, "run_cmd", cmd="pytest")]
    assert taught(WROTE, DONE, action(4, "run_cmd", cmd="pytest"), DONE, [ended("completed")]) == []
    assert len(taught(WROTE, TESTED, DONE, again, DONE, [ended("completed")])) == 1


def test_a_blocked_subtask_teaches_how_to_meet_the_error_from_its_whole_output():
    failing = action(3, "run_cmd", "failure", cmd="pip install x")
    found = taught(
        WROTE,
        failing,
        [BLOCKED],
        [ev.GoalBlocked(reason="x")],
        outputs={4: "pip: command not found"},
    )
    assert [(section, actions) for section, _, actions in found] == [("error_handling", (3,))]
    assert "missing" in found[0][1]


def test_a_blocked_subtask_in_which_nothing_failed_teaches_nothing():
    assert taught(WROTE, TESTED, [BLOCKED], [ev.GoalBlocked(reason="x")]) == []


# ---- on record


@pytest.fixture
async def opened(tmp_path):
    """A function that opens the ledger anew, as a new daemon does: its book, playbook and settings."""
    ledgers = []

    async def open_():
        if ledgers:
            await ledgers[-1].close(5)
        ledgers.append(Ledger.open(tmp_path / "ledger.db"))
        book = GoalStore(ledgers[-1], Settings())
        book.listeners.clear()
        playbook = PlaybookStore(book)
        playbook.load()
        return book, playbook

    yield open_
    await ledgers[-1].close(5)


async def ran(book, playbook):
    """A goal that was shown a strategy, wrote and tested, and completed; nobody has looked back on it yet."""
    settings = book.settings.playbook
    await book.accept(ev.GoalAccepted(at=AT, goal_id="g-1", spec=CHECKED), b"goal")
    core = book.cores["g-1"]
    add = {"op": "add", "section": "shell", "content": "Quote every path"}
    learned = await playbook.learn([add], core.state, settings)
    with book.entering(core):
        core.emit(ev.GoalStarted(at=AT))
        core.emit(ev.StrategiesShown(epoch=1, ids=tuple(one["id"] for one in learned)))
        core.start(AT)
        for tool, args in [("write_file", {"path": "a.py"}), ("run_cmd", {"cmd": "pytest"})]:
            verdict = core.propose(tool, args, AT)
            core.outcome(verdict.seq, ActionReport("success", "ok", changed=False), AT)
        core.emit(ended("completed"))
    await book.commit(core)


async def test_a_rest_is_looked_back_on_once_by_whichever_daemon_finds_it(opened):
    book, playbook = await opened()
    await ran(book, playbook)
    for found in (1, 0, 0):
        book, playbook = await opened()
        core = book.cores["g-1"]
        due = unreviewed_outcomes(book.ledger, core.state)
        assert len(due) == found
        if due:
            await playbook.review(core, due, book.settings.playbook)
    assert [(e.kind, e.id, getattr(e, "tag", "")) for _, e in playbook_events(book.ledger)] == [
        ("bullet_added", "she-00001", ""),
        ("bullet_tagged", "she-00001", "helpful"),
        ("bullet_added", "tes-00002", ""),
    ]


async def test_the_playbook_is_the_same_after_a_replay(opened):
    book, playbook = await opened()
    await ran(book, playbook)
    core = book.cores["g-1"]
    await playbook.review(
        core, unreviewed_outcomes(book.ledger, core.state), book.settings.playbook
    )
    before = playbook.current.to_dict()
    _, playbook = await opened()
    assert playbook.current.to_dict() == before


async def test_switched_off_a_rest_is_looked_back_on_without_a_trace(opened):
    book, playbook = await opened()
    await ran(book, playbook)
    core, off = book.cores["g-1"], Settings(playbook={"enabled": False}).playbook
    await playbook.review(core, unreviewed_outcomes(book.ledger, core.state), off)
    assert playbook.chosen(core.state, off) == []
    assert await playbook.learn([{"op": "nonsense"}], core.state, off) == []
    assert [e.kind for _, e in playbook_events(book.ledger)] == ["bullet_added"]
    assert unreviewed_outcomes(book.ledger, core.state) == []


async def ran_into_it(book, playbook, goal):
    """Record a goal that is shown the playbook, calls the same failing command four times, and completes."""
    await book.accept(ev.GoalAccepted(at=AT, goal_id=goal, spec=CHECKED), b"goal")
    core = book.cores[goal]
    with book.entering(core):
        core.emit(ev.GoalStarted(at=AT))
        shown = tuple(one.id for one in playbook.current.bullets())
        core.emit(ev.StrategiesShown(epoch=1, ids=shown))
        core.start(AT)
        for _ in range(4):
            verdict = core.propose("run_cmd", {"cmd": "pytest -q"}, AT)
            if verdict.allowed:
                report = ActionReport("failure", "1 failed", changed=False)
                core.outcome(verdict.seq, report, AT)
        core.emit(ev.SubtaskEnded(status="completed"))
        core.emit(ended("completed"))
    await book.commit(core)


async def test_a_loop_is_learned_once_by_whichever_daemon_reviews_it_and_then_counts(opened):
    book, playbook = await opened()
    await ran_into_it(book, playbook, "g-1")
    for due in (1, 0, 0):
        book, playbook = await opened()
        core = book.cores["g-1"]
        found = unreviewed_outcomes(book.ledger, core.state)
        assert len(found) == due
        if found:
            await playbook.review(core, found, Settings().playbook)
    await ran_into_it(book, playbook, "g-2")
    core = book.cores["g-2"]
    await playbook.review(core, unreviewed_outcomes(book.ledger, core.state), Settings().playbook)
    assert [
        (e.kind, e.id, getattr(e, "tag", ""), e.source_goal)
        for _, e in playbook_events(book.ledger)
        if e.id.startswith("loo")
    ] == [
        ("bullet_added", "loo-00001", "", "g-1"),
        ("bullet_tagged", "loo-00001", "harmful", "g-2"),
    ]
    (bullet,) = [one for one in playbook.current.bullets() if one.section == "loops"]
    assert bullet.content == f"{AGAIN}"
