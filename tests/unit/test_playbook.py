"""Strategies: what changes them, what a run says about them, and which an agent is shown."""

import json

import pytest

from clew_daemon.learning.deltas import DeltaError, Draft, fold, imported
from clew_daemon.learning.playbook import select
from clew_daemon.learning.review import ReviewFold, lessons
from clew_shared.playbook.playbook import Bullet, LearnedPlaybook
from clew_shared.playbook.reflector import ExecutionReflector
from clew_shared.record import events as ev
from clew_shared.record.codec import decode_playbook, encode
from clew_shared.record.daemon_events import BulletRestored
from clew_shared.record.moment import iso
from clew_shared.record.spec import Spec

NOW = 1_790_000_000.0


class Kept:
    """A playbook, and the events that it came from."""

    def __init__(self):
        self.playbook, self.events = LearnedPlaybook(), []

    def do(self, change, *, at=NOW):
        """Decide, record and fold; the events of it."""
        draft = Draft(self.playbook.copy(), at, "g-1")
        change(draft)
        self.playbook = draft.playbook
        self.events += draft.events
        return draft.events

    def learn(self, *changes, at=NOW):
        return self.do(lambda draft: draft.learn(changes), at=at)

    def add(self, content, section="testing", at=NOW):
        return self.learn({"op": "add", "section": section, "content": content}, at=at)[0].id

    def contents(self):
        return [one.content for one in self.playbook.bullets()]


@pytest.fixture
def kept():
    return Kept()


def test_a_replay_of_the_events_gives_the_same_playbook(kept):
    first = kept.add("Run tests")
    kept.add("Read logs")
    kept.learn({"op": "tag", "id": first, "tag": "helpful"})
    kept.learn({"op": "update", "id": first, "content": "Run all tests"}, at=NOW + 5)
    kept.do(lambda draft: draft.remove(first, "by a person"))
    kept.do(lambda draft: draft._record(BulletRestored(id=first)))  # of an earlier clew
    written = [decode_playbook(encode(event)) for event in kept.events]
    assert written == kept.events
    assert fold(written).to_dict() == kept.playbook.to_dict()
    bullet = kept.playbook.get_bullet(first)
    assert (bullet.helpful, bullet.content) == (1, "Run all tests")
    assert (bullet.created_at, bullet.source_goal) == (iso(NOW), "g-1")


@pytest.mark.parametrize(
    ("delta", "said"),
    [
        ({"op": "add", "section": "s"}, "needs `section` and `content`"),
        ({"op": "add", "section": "s", "content": " "}, "needs a section and a content"),
        ({"op": "add", "section": "s", "content": "x" * 1001}, "at most 1000"),
        ({"op": "tag", "id": "tes-00001", "tag": "good"}, "'good'; use one of"),
        ({"op": "tag", "id": "tes-09999", "tag": "helpful"}, "no strategy 'tes-09999'"),
        ({"op": "remove", "id": ["tes-00001"]}, "no strategy"),
        ({"op": "update", "id": "tes-00001"}, "needs `content`"),
        ({"op": "update", "id": "tes-00001", "content": "Read logs"}, "tes-00002 says the same"),
        ({"op": "rewrite"}, "'rewrite' is not one of"),
    ],
)
def test_of_deltas_with_a_wrong_one_none_is_taken(kept, delta, said):
    kept.add("Run tests")
    kept.add("Read logs")
    before = kept.playbook.to_dict()
    with pytest.raises(DeltaError, match="delta 1") as refused:
        kept.learn({"op": "add", "section": "s", "content": "Quote paths"}, delta)
    assert said in str(refused.value)
    assert kept.playbook.to_dict() == before


def test_what_is_imported_keeps_its_ids_and_the_larger_counts(kept):
    kept.add("Run tests")
    old = imported(json.dumps(kept.playbook.to_dict()))
    kept.do(lambda draft: draft.tag("tes-00001", "helpful", "completed"))
    new = imported(json.dumps(kept.playbook.to_dict()))
    other, counts = Kept(), []
    for bullets in (old, new, new, old):
        other.do(lambda draft, some=bullets: counts.append(draft.import_bullets(some)))
    done = [next(name for name, count in one.items() if count) for one in counts]
    assert done == ["added", "updated", "known", "known"]
    assert [(one.id, one.helpful) for one in other.playbook.bullets()] == [("tes-00001", 1)]
    assert other.add("Read logs") == "tes-00002"
    own = imported(
        '[{"section": "testing", "content": "Run one"}, {"id": "git-00007", "section": "git", "content": "Pull"}]'
    )
    other.do(lambda draft: draft.import_bullets(own))
    assert [one.id for one in other.playbook.bullets()][2:] == ["tes-00003", "git-00007"]
    assert fold(other.events).to_dict() == other.playbook.to_dict()


CHECKED = Spec(description="Do it", checks={"ok": "true"})
SHOWN = ev.StrategiesShown(epoch=1, ids=("tes-00001",))
BLOCKED = ev.Escalated(to="person", reason="failed twice")
REPLANNED = ev.Planned(tasks=(), replan="task")
REFLECTOR = ExecutionReflector(2, 0.7)


def rests(events, spec=CHECKED):
    runs = ReviewFold("g", spec)
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
        ([BLOCKED, REPLANNED, ev.GoalBlocked(reason="x")], CHECKED, "neutral"),
    ],
)
def test_only_what_was_verified_credits(events, spec, tag):
    found = rests([SHOWN, *events], spec)
    assert [(rest.tag, tuple(rest.shown)) for rest in found] == [(tag, ("tes-00001",))]


def taught(*events):
    (rest,) = rests([event for part in events for event in part])
    return [(one.section, one.content, one.actions) for one in lessons(rest, REFLECTOR)]


DONE = [ev.SubtaskEnded(status="completed")]
WROTE = action(1, "write_file", path="a.py", content="x" * 5000)
TESTED = action(3, "run_cmd", cmd="pytest")


def test_a_subtask_of_a_completed_goal_teaches_its_pattern_and_names_the_actions():
    lesson = ("testing", "Run tests after code changes", (1, 3))
    assert taught(WROTE, TESTED, DONE, [ended("completed")]) == [lesson]
    assert taught(WROTE, TESTED, [ended("completed")]) == [lesson]


def bullet(number, section="shell", content="", **fields):
    return Bullet(f"she-{number:05d}", section, content or f"Strategy {number}", **fields)


def ids(chosen):
    return [int(one.id[-5:]) for one in chosen]


def test_what_fits_the_goal_comes_before_what_does_not():
    fits = bullet(2, "testing", "Run the tests of one module alone", helpful=1)
    other = bullet(1, "git_operations", "Look at the log before a rebase", helpful=1)
    assert ids(select([other, fits], "Write tests for the parser module", 1)) == [2]
    assert ids(select([other, fits], "Rebase the branch; see the log", 1)) == [1]


def test_five_of_five_outranks_one_of_one_and_that_a_harmful_one():
    harmful, once, often = bullet(1, harmful=2), bullet(2, helpful=1), bullet(3, helpful=5)
    assert ids(select([harmful, once, often], "", 1)) == [3]
    assert ids(select([harmful, once, often], "", 2)) == [2, 3]


def test_a_fifth_of_the_places_is_for_new_ones_where_all_others_have_helped():
    proven = [bullet(n, helpful=5) for n in range(1, 21)]
    assert ids(select([*proven, bullet(21), bullet(22), bullet(23)], "", 10))[-2:] == [21, 22]
    assert ids(select([*proven, bullet(21)], "", 30))[-1] == 21
