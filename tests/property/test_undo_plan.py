"""Undo against a model: whatever happens in which order, the goal's changes go and everyone else's stay."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew_daemon.undo import planning
from clew_shared.record import events as ev
from clew_shared.record.snapshot_events import SnapshotTaken, UndoFinished, UndoStarted
from clew_shared.record.touched import Touched
from clew_shared.snapshots.entries import Entry, file_of
from clew_shared.snapshots.plan import plan
from clew_shared.snapshots.store import SnapshotStore

NAMES = st.sampled_from(["a", "b", "c", "d/e"])
CONTENTS = st.sampled_from(["", "1", "2", "3"])  # "": there is no file
EDITS = st.dictionaries(NAMES, CONTENTS, max_size=3)
EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("act"), EDITS),
        st.tuples(st.just("someone"), EDITS),
        st.tuples(st.just("snapshot"), st.just({})),
        st.tuples(st.just("restart"), st.just({})),
        st.tuples(st.just("killed"), EDITS),
    ),
    max_size=16,
)


def entry(content):
    if content == "/":
        return Entry(0o040755, "")
    return Entry(0o100644, content) if content else None


def touched(own, foreign):
    own = tuple(own.items())
    foreign = tuple(foreign)
    return Touched(own=own, own_total=len(own), foreign=foreign, foreign_total=len(foreign))


@dataclass
class World:
    """A workspace, what the executor has noticed of it, and what is on record."""

    files: dict = field(default_factory=lambda: dict.fromkeys(["a", "b", "c", "d/e"], "0"))
    rows: list = field(default_factory=list)
    trees: dict = field(default_factory=dict)
    noticed: dict = field(default_factory=dict)
    by_goal: set = field(default_factory=set)
    by_others: set = field(default_factory=set)
    dead: bool = False

    def __post_init__(self):
        self.snapshot()
        self.base = dict(self.files)

    def edit(self, edits):
        changed = {name for name, content in edits.items() if self.files[name] != content}
        self.files |= edits
        return changed

    def foreign(self):
        """What someone else has changed since the last look, and not changed back."""
        found = frozenset(n for n in self.noticed if self.files[n] != self.noticed[n])
        self.by_others |= found
        return found

    def killed(self, edits):
        """An action is cut off unseen: what it did cannot be told from what someone else did until a new start."""
        self.edit(edits)
        self.record(ev.ActionInterrupted(of=0, reason="killed"))
        self.dead = True

    def act(self, edits):
        if self.dead:
            self.restart({})
        foreign = self.foreign()
        own = self.edit(edits)
        self.by_goal |= own
        found = touched({n: self.files[n] for n in own}, foreign)
        self.record(ev.ActionFinished(of=0, result="success", outcome="", touched=found))
        self.noticed = dict(self.files)

    def someone(self, edits):
        self.edit(edits)

    def snapshot(self, _edits=None, *, remembers=True):
        foreign = self.foreign()
        tree = str(len(self.rows) + 1)
        self.trees[tree] = dict(self.files)
        found = touched({}, foreign if remembers else ())
        moment = "subtask" if remembers else "worker"
        self.record(SnapshotTaken(tree=tree, moment=moment, touched=found))
        self.noticed = dict(self.files)

    def record(self, event):
        self.rows.append((len(self.rows) + 1, event))

    def listing(self, tree):
        return {n: entry(content) for n, content in self.trees[tree].items() if content}

    def restart(self, _edits):
        """A new executor remembers nothing of the one before it: the snapshot at its start shows what changed."""
        self.snapshot(remembers=False)


def undo(world, first, last=None):
    world.snapshot()
    found = plan(world.rows, world.listing, first, last)
    for one in found.restore:
        assert file_of(entry(world.files[one.name])) == one.present
        world.files[one.name] = one.wanted.id if one.wanted else ""
    return found


@given(EVENTS)
def test_undo_reverts_exactly_what_only_the_goal_has_changed(events):
    world = World()
    for kind, edits in events:
        getattr(world, kind)(edits)
    before = dict(world.files)
    found = undo(world, 1)
    for name, content in world.files.items():
        if name in world.by_others:
            assert content == before[name], "what someone else has changed is left as it is"
        else:
            assert content == world.base[name], "what only the goal has changed is as it was"
    assert {one.name for one in found.left} <= world.by_others


def undo_twice(world):
    """Undo all, and undo that; return how it was before."""
    world.snapshot()
    before, present = dict(world.files), len(world.rows)
    found = plan(world.rows, world.listing, 1)
    for one in found.restore:
        world.files[one.name] = one.wanted.id if one.wanted else ""
    world.record(UndoStarted(scope="goal", first=1))
    world.record(UndoFinished(of=len(world.rows), restored=len(found.restore)))
    world.noticed = dict(world.files)
    world.snapshot()
    undo(world, present)
    return before


@given(EVENTS, EVENTS)
def test_undoing_an_undo_brings_everything_back(events, earlier):
    world = World()
    for kind, edits in [*earlier, *events]:
        getattr(world, kind)(edits)
    assert undo_twice(world) == world.files


@pytest.mark.parametrize(("was", "then"), [("/", "1"), ("1", "/")])
def test_a_file_and_an_empty_folder_change_places(was, then):
    world = World(files={"a": was})
    world.act({"a": then})
    undo(world, 1)
    assert entry(world.files["a"]) == file_of(entry(was))
    world = World(files={"a": was})
    world.act({"a": then})
    undo_twice(world)
    assert entry(world.files["a"]) == file_of(entry(then))


@pytest.mark.parametrize(("acts", "scope"), [(True, "goal"), (False, "undo")])
def test_an_undo_is_not_reverted_where_newer_work_is_left(monkeypatch, acts, scope):
    world = World()
    monkeypatch.setattr(planning, "listed", lambda _: world.listing)
    world.act({"a": "1", "c": "1"})
    world.snapshot()
    world.files |= {"a": "0", "c": "0"}
    world.record(UndoStarted(scope="goal", first=1))
    world.record(UndoFinished(of=len(world.rows), restored=2))
    world.noticed = dict(world.files)
    world.snapshot()
    if acts:
        world.act({"b": "1"})
    world.someone({"a": "2", "b": "2"})
    world.snapshot()
    found = planning.planned_undo(SnapshotStore(Path(), "git"), world.rows, None)
    assert found.span.scope == scope
    assert [one.name for one in found.plan.restore] == ([] if acts else ["c"])


@given(EVENTS, EVENTS)
def test_undoing_one_subtask_leaves_what_was_changed_after_it(events, later):
    world = World()
    for kind, edits in events:
        getattr(world, kind)(edits)
    world.snapshot()
    end, last = dict(world.files), len(world.rows)
    for kind, edits in later:
        getattr(world, kind)(edits)
    before = dict(world.files)
    for one in undo(world, 1, last).restore:
        assert before[one.name] == end[one.name]
        assert world.files[one.name] == world.base[one.name]
