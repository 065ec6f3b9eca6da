"""Loops that cost something become lessons: what they say, when they count, and whom they are credited by."""

import pytest

from clew_daemon.learning import deltas
from clew_daemon.learning.deltas import Draft
from clew_daemon.learning.loops import (
    action_pattern,
    loop_lessons,
    loop_tag,
)
from clew_daemon.learning.review import ReviewFold
from clew_shared.playbook.bullet import Bullet
from clew_shared.playbook.playbook import LearnedPlaybook
from clew_shared.record import events as ev
from clew_shared.record.spec import Spec

AT = 1_790_000_000.0
LESSON = (
    "Do not call `run_cmd pytest -q a` again while nothing has changed: it ends as it did before"
)


@pytest.mark.parametrize(
    ("tool", "args", "expected"),
    [
        ("run_cmd", {"cmd": "pytest -q tests/test_a.py"}, "run_cmd pytest -q tests/test_a.py"),
        ("read_file", {"path": "src/a/b.py", "limit": 5}, "read_file src/a/b.py 5"),
        ("run_cmd", {"cmd": "cat `x`\nls"}, "run_cmd cat 'x' ls"),
        ("run_cmd", {"cmd": ["ls", "-l"]}, ""),
        ("write_file", {"path": "x.md", "content": "long " * 100}, ""),
        ("run_cmd", {}, "run_cmd"),
    ],
)
def test_what_was_repeated_is_named_whole_or_not_at_all(tool, args, expected):
    assert action_pattern(tool, args) == expected


def folded(*events):
    """Return the loops at the last rest of these events, which get the numbers 1, 2, 3, …"""
    fold, found = ReviewFold("g", Spec(description="x"), lambda _seq: ""), None
    for seq, event in enumerate(events, start=1):
        found = fold.take(seq, event) or found
    return found.loops


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


def warned(kind, key=""):
    return ev.Intervened(intervention=kind, message="stop", key=key)


END = ev.GoalEnded(status="completed")


def learned(draft, *events, goal="g"):
    deltas.add_lessons(draft, loop_lessons(folded(*events, END).patterns), goal, AT)


def test_the_same_loop_in_other_words_is_counted_and_not_added_twice():
    draft = Draft.of(LearnedPlaybook())
    learned(draft, refused("pytest -q a"))
    learned(draft, refused("pytest -q a"), ev.FeedbackGiven(text="x"), goal="h")
    learned(draft, refused("pytest -q a", "cycle"))
    assert [(b.id, b.neutral) for b in draft.playbook.bullets()] == [
        ("loo-00001", 1),
        ("loo-00002", 0),
    ]
    assert draft.events[1].reason == "learned again: repetition: 1 refused, 0 warned"


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
    assert loop_tag(bullet, folded(*events, END), verified=verified) == tag
