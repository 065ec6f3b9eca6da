"""Progress never goes down: the share of the goal that is done.

Whatever is replanned, edited, tried again, undone or reopened; only work that is added after all was done lowers the
share.
"""

from types import SimpleNamespace

from hypothesis import given, settings
from hypothesis import strategies as st

from clew_shared.record import events as ev
from clew_shared.record import snapshot_events as snap
from clew_shared.record.codec import decode, encode
from clew_shared.record.fold import apply, fold
from clew_shared.record.spec import PlannedSubtask, PlannedTask, Spec
from clew_shared.record.state import State
from clew_shared.views.publish import status_view

NAMES = st.sampled_from(["one", "two", "three", "four"])
STATUSES = st.sampled_from(["pending", "completed", "skipped", "failed", "blocked"])
PLANS = st.lists(st.lists(NAMES, min_size=1, max_size=4), min_size=1, max_size=2)
PLACES = st.tuples(st.integers(0, 1), st.integers(0, 3))


def planned(names, **fields):
    tasks = (
        PlannedTask(description="t", subtasks=tuple(PlannedSubtask(description=n) for n in task))
        for task in names
    )
    return ev.Planned(tasks=tuple(tasks), **fields)


def edited(tree):
    tasks = [
        {"description": "t", "subtasks": [{"description": n, "status": s} for n, s in task]}
        for task in tree
    ]
    return ev.TreeEdited(goal={"description": "goal", "tasks": tasks}, replan=bool(len(tree) % 2))


EVENTS = st.one_of(
    st.builds(
        planned,
        PLANS,
        replan=st.sampled_from(["task", "goal"]),
        covers=st.one_of(st.none(), st.lists(st.integers(1, 4)).map(tuple)),
    ),
    st.builds(edited, st.lists(st.lists(st.tuples(NAMES, STATUSES), max_size=4), max_size=2)),
    st.builds(lambda at: ev.SubtaskStarted(task_idx=at[0], subtask_idx=at[1]), PLACES),
    st.builds(ev.SubtaskFailed, failure=NAMES),
    st.builds(ev.SubtaskEnded, status=st.sampled_from(["completed", "skipped", "failed"])),
    st.builds(
        ev.Escalated, to=st.sampled_from(["task", "goal", "person"]), reason=st.just("no way")
    ),
    st.builds(ev.ActionAllowed, epoch=st.just(1), tool=st.just("run_cmd"), signature=NAMES, args=st.just({})),
    st.builds(
        ev.ActionBlocked, tool=st.just("run_cmd"), signature=NAMES, args=st.just({}), reason=NAMES
    ),
    st.builds(ev.Reflected, iteration=st.integers(0, 9)),
    st.builds(ev.AttemptEnded, attempt=st.just(1), reason=NAMES),
    st.builds(ev.AttemptStarted, attempt=st.integers(2, 3), reason=NAMES),
    st.just(ev.GoalBlocked(reason="no way")),
    st.builds(ev.GoalEnded, status=st.sampled_from(["completed", "failed", "cancelled"])),
    st.builds(ev.GoalRequeued, reopen=st.booleans(), subtask=st.sampled_from(["", "more"])),
    st.just(ev.GoalStarted()),
    st.builds(snap.UndoStarted, scope=st.just("goal"), first=st.just(1)),
    st.builds(snap.UndoFinished, of=st.just(1), restored=st.just(1)),
)  # fmt: skip


class Record:
    """The events of one goal, in the shape of a ledger, and the state that they make."""

    def __init__(self, tree):
        self.rows, self.state = [], State()
        tasks = planned(tree).tasks
        self.add(ev.GoalAccepted(goal_id="g", spec=Spec(description="goal"), tasks=tasks))
        self.add(ev.GoalStarted())

    def add(self, event):
        seq = len(self.rows) + 1
        self.rows.append(SimpleNamespace(seq=seq, kind=event.kind, body=encode(event)))
        apply(self.state, event, seq)


@settings(max_examples=150, deadline=None)
@given(tree=PLANS, events=st.lists(EVENTS, max_size=30))
def test_what_is_done_never_becomes_less(tree, events):
    record = Record(tree)
    for event in events:
        if _breaks_what_is_done(event, record.state):
            continue
        before, was_reached = status_view(record.state)["progress"], record.state.goal.reached
        record.add(event)
        now, statuses = status_view(record.state)["progress"], _statuses(record.state)
        assert now >= before or was_reached == 1.0 or before == 1.0
        assert 0.0 <= now <= 1.0
        assert (now == 1.0) == (record.state.goal.status == "completed")
        if statuses:
            all_done = all(s in ("completed", "skipped") for s in statuses)
            assert (record.state.goal.reached == 1.0) == all_done
    rows = [(row.seq, decode(row.body)) for row in record.rows]
    assert fold(rows) == record.state


def _breaks_what_is_done(event, state):
    """Return whether an event concerns a subtask that is done, which the core never does."""
    place = state.place
    if isinstance(event, ev.SubtaskStarted):
        place = event.task_idx, event.subtask_idx
    elif not isinstance(event, ev.Escalated | ev.SubtaskEnded):
        return False
    subtask = state.subtask_at(*place)
    return subtask is not None and subtask.status in ("completed", "skipped")


def _statuses(state):
    return [s.status for t in state.goal.tasks for s in t.subtasks]
