"""Loops that cost something become lessons: what they say, when they count, and whom they are credited by."""

from itertools import combinations

import pytest

from clew_daemon.learning import deltas
from clew_daemon.learning.deltas import Draft
from clew_daemon.learning.loops import (
    ADVICE,
    LoopPattern,
    action_pattern,
    is_shown,
    loop_lessons,
    loop_tag,
)
from clew_daemon.learning.review import ReviewFold
from clew_shared.playbook.bullet import Bullet
from clew_shared.playbook.curator import conflicts, same
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
ESCALATED = ev.Escalated(to="task", reason="blocked actions were proposed 3 times")


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


def test_a_goal_without_refusals_and_warnings_has_no_pattern():
    budget = refused("pytest").model_copy(update={"reason": "budget", "makes_block": ""})
    assert folded(allowed("pytest"), finished(1), budget, END).patterns == ()


def test_a_poll_teaches_nothing():
    word = warned("repetition", ev.POLL)
    assert folded(allowed("curl http://ci"), finished(1), word, END).patterns == ()


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


def test_only_the_loops_that_cost_most_become_lessons():
    patterns = [LoopPattern("repetition", f"tool_{n}", refused=n) for n in range(30)]
    lessons = loop_lessons(patterns)
    assert len(lessons) == 10
    assert "tool_29" in lessons[0].content


def test_no_two_lessons_are_taken_for_the_same_or_for_opposites():
    whats = ("run_cmd pytest", "run_cmd git commit", "run_cmd git push", "read_file a.py")
    texts = sorted({LoopPattern(kind, what).advice for kind in ADVICE for what in whats})
    assert [pair for pair in combinations(texts, 2) if same(*pair)] == []
    assert conflicts(texts) == []


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


def test_a_lesson_is_shown_once_three_goals_have_had_the_loop():
    draft, shown = Draft.of(LearnedPlaybook()), []
    for goal in ("g", "g", "h", "i"):
        learned(draft, refused("pytest -q a"), goal=goal)
        shown.append(is_shown(draft.playbook.bullets()[0]))
    assert shown == [False, False, False, True]


def test_what_a_killed_worker_had_begun_teaches_nothing():
    assert loop_lessons([LoopPattern("crash", "run_cmd pytest", refused=2)]) == []


def test_other_strategies_are_credited_by_the_outcome_and_shown_at_once():
    bullet = Bullet("loo-00001", "loops", "Break out of loops by reading the error")
    assert is_shown(bullet)
    assert loop_tag(bullet, folded(SHOWN, END), verified=True) is None
