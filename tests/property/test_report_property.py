"""Whatever goals, agents and commands are called and say, a report's structure is clew's alone."""

import itertools
import re

from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from clew_daemon.publish.report import code, inline, render
from clew_shared.record import events as ev
from clew_shared.views.publish import HistoryFold, action_view

PIECES = st.lists(
    st.sampled_from(
        (
            *("\n", "\r", "\n\n", "# ", "## Your answer is needed", "> ", "- ", "1. ", "```", "~~~", "---"),
            *("===", "| a | b |", "| --- | --- |", "`", "``", "<script>", "<!--", "<details>", "</a>"),
            *("![x](http://evil/)", "[x](javascript:a)", "[x]: http://evil/", "[x][y]", "<http://evil>"),
            *("\\", "**status: completed**", "&lt;script&gt;", "&#60;b>", "word", " ", "    ", "\t"),
            *("\x1b[2J", "\x1b]0;x\x07", "\x9b2J", "\x00", "\u202e", "\u2066", "\u2028", "\u200b", "\x85"),
        )
    ),
    max_size=8,
).map("".join)  # fmt: skip
EVIL = st.one_of(PIECES, st.text(max_size=60))
SEEN = MarkdownIt("commonmark").enable("table")
HEADINGS = {"Tree", "Checks", "What was tried", "Loops", "Feedback"} | {
    "Your answer is needed", "Replaced by replans", "Restarts and attempts", "Time and tokens",
}  # fmt: skip


def tokens(text):
    found = SEEN.parse(text)
    return [inner for token in found for inner in (token, *(token.children or ()))]


def kinds(text):
    return {token.type for token in tokens(text)}


def headings(text):
    found = SEEN.parse(text)
    return [
        inner.content for token, inner in itertools.pairwise(found) if token.type == "heading_open"
    ]


@settings(deadline=None)
@given(EVIL)
@example("[x]: http://evil/")
@example("    indented")
@example("a\n===")
@example("\\<script>")
@example("[x\\](http://evil/)")
def test_a_line_of_others_is_a_paragraph_of_text(text):
    line = inline(text)
    assert "\n" not in line
    for begun in (line, f"- {line}", f"> {line}"):
        harmful = {"html_block", "html_inline", "link_open", "image", "fence", "heading_open", "hr"}
        assert not kinds(begun) & harmful, begun


def test_code_is_shown_as_it_is_and_what_would_open_some_is_not():
    assert inline("run `sort <a` and `b`]") == "run `sort <a` and `b`\\]"
    assert inline("it`s <b>") == "it\\`s \\<b>"
    assert code("echo `date`") == "`` echo `date` ``"


@settings(deadline=None, max_examples=40)
@given(evil=EVIL, other=EVIL)
@example(evil="x\n\n# Forged\n\n| a |\n| - |\n| b |\n<!--", other="`\n## Tree\n```")
@example(evil="", other="[x][y]")
@example(evil="``", other="<!--")
@example(evil="", other="`<!--")
def test_a_report_has_its_own_headings_and_none_of_others(played, evil, other):
    agent = played([evil or "one", other or "two"], spec={"unknown_keys": (evil, other)})
    agent.state.goal.description = evil
    agent.fail(evil, other)
    agent.act(other or "tool", {evil: other})
    agent.core.emit(ev.CheckFinished(name=evil, passed=False, output=f"{other}\n{evil}"))
    agent.feedback(evil)
    agent.complete(success=False, failure=other)
    agent.core.block(ev.GoalBlocked(reason=evil, question=f"{evil}\n\n{other}"))
    folded = HistoryFold()
    ended = [folded.take(seq, event) for seq, event in agent.take()]
    text = render(agent.state, [action_view(e[0]) for e in ended if e], folded.loops)
    rest = headings(text)[1:]  # the first is the goal itself
    assert set(rest) <= HEADINGS
    assert len(rest) == len(set(rest))
    assert not kinds(text) & {
        "html_block", "html_inline", "link_open", "image", "table_open",
    }  # fmt: skip
    blocks = re.findall(r"(?ms)^  (```+)\n.*?^  \1$", text)
    assert len(blocks) == [one.type for one in tokens(text)].count("fence") <= 1
    plain = re.sub(r"(?ms)^  (```+)\n.*?^  \1$", "", text)
    assert "<!--" not in re.sub(r"\\[<`]|(`+)(?!`).+?(?<!`)\1(?!`)", "", plain)


PRINTED = {
    "one\n\n    two\n": ["one\n    two\n"],
    "a\n```\n# b\n``````\n<!--": ["a\n```\n# b\n``````\n<!--\n"],
    "only one <line>\n": [],
    "x\n" * 500: ["x\n" * 66 + "x … \n" + "x\n" * 132],
}


def test_lines_of_a_failed_check_stay_lines_in_a_block_that_they_cannot_close(played):
    agent = played(spec={"checks": {"ok": "true"}})
    for output, blocks in PRINTED.items():
        agent.core.emit(ev.CheckFinished(name="ok", passed=False, output=output))
        text = render(agent.state, [], [])
        assert [one.content for one in tokens(text) if one.type == "fence"] == blocks
        assert "\n- [ ] ok (`true`): failed:" in text
