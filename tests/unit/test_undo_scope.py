"""Which snapshots an undo of a subtask lies between, where plans change and subtasks are tried again."""

from clew_daemon.undo.scope import Spans
from clew_shared.record import events as ev
from clew_shared.record import snapshot_events as snap
from clew_shared.record.spec import PlannedSubtask, PlannedTask, Spec


def task(*subtasks):
    return PlannedTask(
        description="Kitchen", subtasks=tuple(PlannedSubtask(description=one) for one in subtasks)
    )


class Record:
    """The record of a goal with one task, which `subtasks` make up."""

    def __init__(self, *subtasks):
        self.rows = []
        accepted = ev.GoalAccepted(
            goal_id="tea", spec=Spec(description="tea"), tasks=(task(*subtasks),)
        )
        self.add(accepted, ev.GoalStarted())

    def add(self, *events):
        self.rows += enumerate(events, len(self.rows) + 1)
        return len(self.rows)

    def snapshot(self):
        return self.add(snap.SnapshotTaken(tree="t"))

    def start(self, subtask):
        return self.add(ev.SubtaskStarted(task_idx=0, subtask_idx=subtask))

    def act(self):
        """Have an action carried out; return the number of its end."""
        seq = self.add(
            ev.ActionAllowed(epoch=1, tool="run_cmd", args={}, signature=str(len(self.rows)))
        )
        return self.add(ev.ActionFinished(of=seq, result="success", outcome=""))

    def end(self, status="completed"):
        return self.add(ev.SubtaskEnded(status=status))

    def span(self, subtask):
        found = Spans(self.rows).of_subtask((0, subtask))
        return found.first, found.last


def test_a_subtask_lies_between_the_snapshots_around_its_actions():
    goal = Record("boil", "steep")
    first = goal.snapshot()
    goal.start(0)
    goal.act()
    goal.end()
    goal.start(1)
    between = goal.snapshot()
    goal.act()
    assert Spans(goal.rows).of_goal().first == first
    assert goal.span(0) == (first, between)
    assert goal.span(1) == (between, None)
