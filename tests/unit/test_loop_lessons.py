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


def finished(of, *, changed=False, result="failure"):
    return ev.ActionFinished(of=of, result=result, outcome=result, changed=changed)


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


def test_a_refused_repetition_is_a_pattern_with_its_cost():
    (one,) = folded(
        *[allowed("pytest -q a"), finished(1), allowed("pytest -q a"), finished(3)],
        *[refused("pytest -q a"), refused("pytest -q a", "blocked_action")],
        *[allowed("sed -i s/1/2/ a.py"), finished(7, changed=True, result="success"), END],
    ).patterns
    assert (one.kind, one.what, one.refused, one.warned) == (
        *("repetition", "run_cmd pytest -q a"),
        *(2, 0),
    )
    (lesson,) = loop_lessons([one])
    assert lesson.section == "loops"
    assert lesson.content == LESSON
    assert lesson.evidence == "repetition: 2 refused, 0 warned"


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([warned("theme")], ("theme", "")),
        ([allowed("cat x"), warned("repetition")], ("repetition", "run_cmd cat x")),
        ([allowed("cat x"), warned("nothing_new")], ("nothing_new", "")),
    ],
)
def test_a_warning_is_a_pattern_and_a_nudge_names_what_was_called(events, expected):
    (one,) = folded(*events, END).patterns
    assert (one.kind, one.what) == expected
    assert (one.refused, one.warned) == (0, 1)
    assert bool(loop_lessons([one])) == (one.kind != "nothing_new")


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


@pytest.mark.parametrize("before", [0, 150, 170, 190])
def test_a_key_in_the_arguments_does_not_get_into_the_lesson(before):
    key = "sk-" + "a1b2c3d4" * 6
    draft = Draft.of(LearnedPlaybook())
    learned(draft, refused(f"curl {'x' * before} {key}"), refused(f"{key} --x"))
    assert all("a1b2" not in event.model_dump_json() for event in draft.events)


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
