"""Loops that cost something become lessons: what they say, when they count, and whom they are credited by."""

import pytest

from clew_daemon.learning.review import ReviewFold, tag_for
from clew_shared.playbook.bullet import Bullet
from clew_shared.record import events as ev
from clew_shared.record.spec import Spec

LESSON = (
    "Do not call `run_cmd pytest -q a` again while nothing has changed: it ends as it did before"
)


def folded(*events, checks=()):
    """Return the outcome at the last rest of these events, which get the numbers 1, 2, 3, …"""
    spec = Spec(description="x", checks=dict(checks))
    fold, found = ReviewFold("g", spec, lambda _seq: ""), None
    for seq, event in enumerate(events, start=1):
        found = fold.take(seq, event) or found
    return found


def allowed(cmd, tool="run_cmd"):
    args = {"cmd": cmd}
    return ev.ActionAllowed(epoch=1, tool=tool, args=args, signature=f"{tool}::{cmd}")


def refused(cmd, reason="repetition", tool="run_cmd"):
    return ev.ActionBlocked(
        epoch=1,
        tool=tool,
        args={"cmd": cmd},
        signature=f"{tool}::{cmd}",
        reason=reason,
        message="no",
        makes_block=reason if reason != "blocked_action" else "",
        counts=reason == "blocked_action",
    )


END = ev.GoalEnded(status="completed")


SHOWN = ev.StrategiesShown(epoch=1, ids=("loo-00001",))


@pytest.mark.parametrize(
    ("events", "verified", "tag"),
    [
        ([SHOWN, allowed("ls")], True, "helpful"),
        ([SHOWN, allowed("ls")], False, "neutral"),
        ([SHOWN], True, "neutral"),
        ([SHOWN, allowed("x", tool="search")], True, "neutral"),
        ([SHOWN, refused("pytest -q a")], True, "harmful"),
        ([SHOWN, refused("pytest -q a")], False, "neutral"),
        ([refused("pytest -q a"), SHOWN], True, "helpful"),
        ([SHOWN, refused("pytest -q b")], True, "helpful"),
    ],
)
def test_only_a_goal_whose_checks_passed_speaks_for_or_against_a_lesson(events, verified, tag):
    content = f"{LESSON} (seen: ended by `run_cmd sed`)"
    bullet = Bullet("loo-00001", "loops", content, seen_in=("g",))
    outcome = folded(*events, END, checks={"ok": "true"} if verified else {})
    assert tag_for(outcome, bullet)[0] == tag
