"""The settle rule, over any look."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from clew_daemon.inbox.files import EMPTY_SETTLE_S, Found, Look, is_goal_name

looks = st.builds(
    Look,
    dev=st.just(1),
    ino=st.integers(1, 2),
    ctime_ns=st.integers(0, 2),
    mtime_ns=st.integers(0, 2),
    size=st.integers(0, 2),
)
times_s = st.floats(0, 3)
settles_s = st.floats(0, 2)


@given(looks, times_s, times_s, settles_s)
def test_a_file_is_taken_once_it_looked_the_same_for_the_whole_settle_time(
    look, since, not_before, settle_s
):
    found = Found(Path("g.md"), "g.md", look, since=since, not_before=not_before)
    at = found.due_at(settle_s)
    assert at >= since + settle_s
    assert at >= not_before
    assert look.size or at >= since + EMPTY_SETTLE_S


@given(st.text(max_size=20))
def test_a_hidden_name_is_never_a_goal(name):
    assert not is_goal_name(f".{name}.md")
    assert not is_goal_name(f"{name}.md~")
    assert not is_goal_name(f"{name}.txt.part")
