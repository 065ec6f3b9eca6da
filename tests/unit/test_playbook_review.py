"""What a goal's run says about strategies: who is credited, what is taught, and that it is done once."""

import pytest

from clew_daemon.learning.review import ReviewFold, lessons
from clew_shared.playbook.reflector import ExecutionReflector
from clew_shared.record import events as ev
from clew_shared.record.spec import Spec

CHECKED = Spec(description="Do it", checks={"ok": "true"})
SHOWN = ev.StrategiesShown(epoch=1, ids=("tes-00001",))
BLOCKED = ev.Escalated(to="person", reason="failed twice")
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
    assert [(rest.tag, tuple(rest.shown)) for rest in found] == [(tag, ("tes-00001",))]


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
