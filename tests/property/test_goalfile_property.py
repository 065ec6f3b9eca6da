import re

from hypothesis import example, given, settings
from hypothesis import strategies as st

from clew_daemon.inbox.goalfile.keys import GoalFile, GoalFileError
from clew_daemon.inbox.goalfile.parse import goal_id, parse

PIECES = st.sampled_from(
    (
        *("---", "...", "\n", "\r\n", "\r", " ", "    ", "\t", "# ", "## ", "### ", "## Done when"),
        *("- ", "* ", "1. ", "[ ] ", "[x] ", "> ", "```", "~~~", "sh", " file=", "../a", "`", "``"),
        *("a", "word.", "<!--", "checks: ", "budget: {tokens: ", "priority: ", "not_before: "),
        *("2026-12-01", "depends_on: ", "[", "]", "{", "}", ": ", "? ", "&a ", "*a", "!!int ", "|"),
        *("'", '"', "<<: ", "=", "0x_", "1:2", ".nan", "\x85", "\u2028", "\ufeff", "\0", "é"),
    )
)
MARKDOWN = st.lists(PIECES, max_size=60).map("".join)


def parsed_or_refused(raw):
    """Anything but a goal or GoalFileError fails the test by itself."""
    try:
        goal = parse(raw, "g.md", ["default"])
    except GoalFileError as error:
        goal, faults = None, error.faults
    if goal is None:
        assert all(fault.message for fault in faults)
        return
    assert goal.description
    assert all(task.subtasks for task in goal.tasks)
    assert all(subtask.description for task in goal.tasks for subtask in task.subtasks)
    assert all(goal.checks.values())


@settings(deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_are_a_goal_or_refused(raw):
    parsed_or_refused(raw)


@settings(deadline=None)
@given(MARKDOWN)
@example("---\n<<: {a: 1}\n---\nx")
@example("- \n\n# ")
def test_any_mixture_of_markdown_is_a_goal_or_refused(text):
    parsed_or_refused(text.encode())


BLANK = st.text(alphabet=" \t\n\ufeff\u200b\u00a0", max_size=8)
ABOVE = st.sampled_from(["", "# a comment\n", "<!-- note -->\n", "```markdown\n", "%YAML 1.2\n"])
FENCES = st.sampled_from(["---", "----", "--", "-----", "\u2014", "- - -", "--- # x", "+++", "==="])
CLEWS = st.sampled_from(
    ["workspace: /w", "checks: make", "priority: 2", "depends_on: [a]", "budget:\n  tokens: 5"]
)
OTHERS = st.lists(
    st.sampled_from(["title: x", "tags:\n- a", "  b: c", "# note", ""]), max_size=4
).map("\n".join)


@settings(deadline=None)
@given(BLANK, ABOVE, BLANK, FENCES, OTHERS, CLEWS, OTHERS, FENCES)
def test_a_key_of_clews_between_two_fences_is_read_or_refused(
    blank, above, indent, opening, before, key, after, closing
):
    text = f"{blank}{above}{indent}{opening}\n{before}\n{key}\n{after}\n{closing}\n# G\n"
    try:
        goal = parse(text.encode(), "g.md", ["default"])
    except GoalFileError:
        return
    name = key.split(":")[0]
    assert getattr(goal, name) != getattr(GoalFile(description=""), name)


WORDS = st.lists(st.sampled_from(["Fix", "the", "login:", "page", "`x`", "now."]), min_size=1).map(
    " ".join
)


@settings(deadline=None)
@given(st.lists(st.one_of(WORDS, st.sampled_from(["---", "***", "", "- a"])), max_size=20), WORDS)
def test_markdown_that_begins_with_prose_is_never_taken_for_front_matter(lines, first):
    parse("\n".join([first, *lines, "workspace: /x", "---"]).encode(), "g.md", ["default"])


@settings(deadline=None)
@given(st.text(), st.text("0123456789abcdef", min_size=4, max_size=4))
def test_a_goal_id_always_has_its_form(description, token):
    found = goal_id(description, token)
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*-[0-9a-f]{4}", found)
    assert len(found) <= 45
    assert found == goal_id(description, token)
