"""Work that brings something new at each step is never refused, whatever it looks like, and seldom spoken of."""

from hypothesis import given
from hypothesis import strategies as st
from tests.conftest import PlayedAgent

WORDS = st.text("abcdefghijklmnopqrstuvwxyz", min_size=3, max_size=8)
HEX = st.text("0123456789abcdef", min_size=8, max_size=40)


def heard(answers):
    return [a.reason or a.word for a in answers if not a.allowed or a.word]


def refused(answers):
    """Return the loops that were refused; that words were ignored for long enough is no refusal."""
    return [a.reason for a in answers if not a.allowed and a.reason != "replan_required"]


@given(st.lists(st.integers(1, 40), min_size=1, max_size=15), st.booleans())
def test_reads_that_each_show_another_line_are_never_refused(sizes, grow):
    agent, shown, answers = PlayedAgent(), 0, []
    for size in sizes:
        first = 0 if grow else shown
        shown += size
        text = "\n".join(f"entry {n * n} of {n}" for n in range(first, shown))
        answers.append(agent.act("read", {"path": "a", "limit": shown}, output=text))
    assert refused(answers) == []


PAGES = ["oak", "elm", "ash", "yew", "fir", "fig", "bay", "box", "may", "nut", "sea", "sky", "sun"]


@given(st.lists(st.lists(WORDS, min_size=2, max_size=4, unique=True), min_size=1, max_size=12))
def test_searches_that_each_find_another_page_are_never_warned_of(queries):
    agent = PlayedAgent()
    answers = [
        agent.act("search", {"query": " ".join(query)}, output=f"on {PAGES[n]}\non {PAGES[n + 1]}")
        for n, query in enumerate(queries)
    ]
    assert heard(answers) == []


@given(st.lists(HEX, min_size=1, max_size=12, unique=True))
def test_one_call_whose_ids_are_used_is_never_refused(ids):
    agent, answers = PlayedAgent(), []
    for n, one in enumerate(ids):
        answers.append(agent.act("open", {}, output=f"opened {one} for you"))
        answers.append(agent.act("ask", {"of": one, "n": n}, output=f"answer {n}"))
    assert refused(answers) == []


@given(st.lists(st.integers(0, 60), min_size=1, max_size=20, unique=True))
def test_a_check_with_a_trend_is_never_warned_of(counts):
    agent, answers = PlayedAgent(), []
    for n, failed in enumerate(sorted(counts, reverse=True)):
        agent.write("a.py", f"idea {n}")
        answers.append(agent.fail("pytest", f"{failed} failed"))
    assert heard(answers) == []
