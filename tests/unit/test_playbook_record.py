"""The playbook as events: what a change means, that a replay gives the same, and what an import does."""

import json

import pytest

from clew_daemon.learning import deltas
from clew_daemon.learning.deltas import DeltaError, Draft, fold
from clew_shared.playbook.playbook import LearnedPlaybook
from clew_shared.record.codec import decode_playbook, encode
from clew_shared.record.moment import iso

NOW = 1_790_000_000.0


class Kept:
    """A playbook, and the events that it came from."""

    def __init__(self):
        self.playbook, self.events = LearnedPlaybook(), []

    def do(self, change, *, at=NOW):
        """Decide, record and fold; the events of it."""
        draft = Draft.of(self.playbook, at, "g-1")
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
    kept.do(lambda draft: draft.restore(first))
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


def imported(kept, text):
    done = {}
    kept.do(lambda draft: done.update(draft.import_bullets(deltas.imported(text))))
    return done


def test_what_was_exported_is_imported_once(kept):
    kept.add("Run tests")
    kept.add("List first", "file_operations")
    kept.do(lambda draft: draft.tag("tes-00001", "helpful", "completed"))
    text = json.dumps(kept.playbook.to_dict())
    assert imported(kept, text) == {"added": 0, "updated": 0, "known": 2}
    other = Kept()
    assert imported(other, text) == {"added": 2, "updated": 0, "known": 0}
    assert imported(other, text) == {"added": 0, "updated": 0, "known": 2}
    assert [(one.id, one.content, one.helpful) for one in other.playbook.bullets()] == [
        ("tes-00001", "Run tests", 1),
        ("fil-00002", "List first", 0),
    ]
    assert other.add("Read logs") == "tes-00003"
    assert fold(other.events).to_dict() == other.playbook.to_dict()
