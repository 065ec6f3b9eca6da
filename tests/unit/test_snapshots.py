"""Which stores of snapshots are removed, when."""

import contextlib
import os
from types import SimpleNamespace

import pytest

from clew_daemon.host.snapshot_space import SnapshotSpace
from clew_daemon.record.comparison import comparison
from clew_daemon.supervision.afterwards import MB, SnapshotStores
from clew_shared.record import snapshot_events as snap
from clew_shared.record.fold import apply
from clew_shared.record.state import State
from clew_shared.snapshots.store import SnapshotStore, StoreError


class Home:
    """A daemon with ended goals `old` and `new`, each with a store of 2 MB, where 5 MB are allowed."""

    def __init__(self, folder):
        self.folder = folder / "snapshots"
        self.cores, self.log, self.used, self.gone = {}, [], set(), {}
        for number, goal in enumerate(("old", "new"), start=1):
            self.add(goal, ended_at=number)
        goals = SimpleNamespace(
            cores=self.cores, gone=self.gone, states=self.states, whole=self.whole, emit=self.emit
        )
        self.daemon = SimpleNamespace(
            goals=goals,
            places=SimpleNamespace(snapshots=self.folder),
            settings=SimpleNamespace(snapshots=SimpleNamespace(max_mb=5)),
            space=SnapshotSpace(self.folder),
        )
        self.stores = SnapshotStores(self.daemon, self.used.__contains__, self.hold)

    def add(self, goal, ended_at):
        state = State(goal_id=goal, ended_at=ended_at, rested_seq=1, reported_seq=2, reviewed_seq=2)
        state.goal.status, state.snapshots.first = "completed", "4b825d"
        self.cores[goal] = SimpleNamespace(state=state)
        self.make(goal)

    def make(self, goal):
        (self.folder / goal).mkdir(parents=True)
        (self.folder / goal / "HEAD").touch()
        (self.folder / goal / "pack").write_bytes(bytes(2 * MB))

    def states(self):
        return {goal: core.state for goal, core in self.cores.items()}

    async def whole(self, goal):
        return self.cores[goal]

    async def emit(self, core, event):
        assert self.has(core.state.goal_id) or event.reason.startswith("they are not")
        apply(core.state, event, 9)
        self.log.append(core.state.goal_id)

    @contextlib.contextmanager
    def hold(self, goal):
        self.used.add(goal)
        yield
        self.used.discard(goal)

    def has(self, goal):
        return (self.folder / goal).exists()


@pytest.fixture
async def home(tmp_path):
    made = Home(tmp_path)
    await made.stores.open()
    return made


async def test_below_the_limit_every_store_stays(home):
    await home.stores.run()
    assert home.has("old")
    assert home.has("new")
    assert home.log == []


@pytest.mark.parametrize("why", ["at work", "undone now", "not ended"])
async def test_a_store_that_is_needed_stays_and_the_next_one_goes(home, why):
    state = home.cores["old"].state
    if why == "at work":
        home.used.add("old")
    elif why == "undone now":
        state.snapshots.undoing = 7
    else:
        state.goal.status = "blocked"
    home.daemon.settings.snapshots.max_mb = 4
    assert await home.daemon.space.make_room("third")
    assert home.has("old")
    assert not home.has("new")


async def test_a_removal_that_was_cut_off_after_it_was_recorded_is_completed(home):
    removed = snap.SnapshotsMissing(reason="they were removed", removed=True)
    apply(home.cores["old"].state, removed, 8)
    await home.stores.run()
    assert not home.has("old")


def test_a_comparison_removes_what_a_killed_one_left_and_nothing_of_today(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for name in ("clew-diff-old", "clew-diff-new"):
        (tmp_path / name).mkdir()
    os.utime(tmp_path / "clew-diff-old", (0, 0))
    with pytest.raises(StoreError), comparison(SnapshotStore(tmp_path, "/no/git"), "", {}):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["clew-diff-new"]
