"""The settle rule, over any history of looks."""

from hypothesis import given
from hypothesis import strategies as st

from clew_daemon.inbox.settle import (
    EMPTY_SETTLE_S,
    Ignore,
    Look,
    SeenFile,
    Stamp,
    Take,
    Wait,
    decide,
    is_goal_name,
    settle_time_s,
)

stamps = st.builds(
    Stamp,
    dev=st.just(1),
    ino=st.integers(1, 2),
    ctime_ns=st.integers(0, 2),
    mtime_ns=st.integers(0, 2),
    size=st.integers(0, 2),
)
looks = st.builds(Look, stamps, stamps)
gaps_s = st.floats(0, 3)
settles_s = st.floats(0, 2)


def follow(history: list[tuple[float, Look]], settle_s: float):
    """Play a history of (gap in s, look) through the rule as the inbox does."""
    now, seen = 0.0, None
    for gap_s, look in history:
        now += gap_s
        decision = decide(now, seen, look, settle_s=settle_s)
        if seen is None or seen.look != look:
            seen = SeenFile(look, now)
        yield now, seen, decision


@given(st.lists(st.tuples(gaps_s, looks)), settles_s)
def test_a_file_is_taken_only_after_it_looked_the_same_for_the_whole_settle_time(history, settle_s):
    for now, seen, decision in follow(history, settle_s):
        if isinstance(decision, Take):
            assert now >= seen.since + settle_time_s(seen.look, settle_s)


@given(st.lists(st.tuples(gaps_s, looks), min_size=1), settles_s)
def test_a_file_that_no_longer_changes_is_taken_when_the_wait_is_over(history, settle_s):
    *_, (now, seen, decision) = follow(history, settle_s)
    if isinstance(decision, Wait):
        assert isinstance(decide(decision.until, seen, seen.look, settle_s=settle_s), Take)
    assert isinstance(decide(now + 1000, seen, seen.look, settle_s=settle_s), Take)


@given(looks, looks, gaps_s, settles_s)
def test_a_first_or_a_changed_look_always_waits(before, look, now, settle_s):
    assert isinstance(decide(now, None, look, settle_s=settle_s), Wait)
    if before != look:
        assert isinstance(decide(now, SeenFile(before, 0), look, settle_s=settle_s), Wait)


@given(looks, gaps_s, gaps_s, settles_s)
def test_nothing_is_taken_before_its_retry_is_due(look, now, not_before, settle_s):
    decision = decide(now, SeenFile(look, 0, not_before=not_before), look, settle_s=settle_s)
    assert isinstance(decision, Wait) or now >= not_before


@given(stamps, stamps, settles_s)
def test_what_is_no_regular_file_is_ignored_whatever_was_seen(entry, content, settle_s):
    look = Look(entry, content, regular=False)
    assert decide(9.0, SeenFile(look, 0), look, settle_s=settle_s) == Ignore()


@given(looks, settles_s)
def test_an_empty_file_never_waits_less_than_a_full_one(look, settle_s):
    wait_s = settle_time_s(look, settle_s)
    assert wait_s >= settle_s
    assert look.content.size or wait_s >= EMPTY_SETTLE_S


@given(st.text(max_size=20))
def test_a_hidden_name_is_never_a_goal(name):
    assert not is_goal_name(f".{name}.md")
    assert not is_goal_name(f"{name}.md~")
    assert not is_goal_name(f"{name}.txt.part")
