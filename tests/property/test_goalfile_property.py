import re

from hypothesis import example, given, settings
from hypothesis import strategies as st

from clew_shared.goalfile import GoalFileError, goal_id, parse

PIECES = st.sampled_from(
    [
        "---",
        "...",
        "\n",
        "\r\n",
        "\r",
        " ",
        "    ",
        "\t",
        "# ",
        "## ",
        "### ",
        "## Done when",
        "- ",
        "* ",
        "1. ",
        "[ ] ",
        "[x] ",
        "> ",
        "```",
        "~~~",
        "sh",
        " file=",
        "../a",
        "`",
        "``",
        "a",
        "word.",
        "<!--",
        "checks: ",
        "budget: {tokens: ",
        "priority: ",
        "not_before: ",
        "2026-12-01",
        "depends_on: ",
        "[",
        "]",
        "{",
        "}",
        ": ",
        "? ",
        "&a ",
        "*a",
        "!!int ",
        "|",
        "'",
        '"',
        "<<: ",
        "=",
        "0x_",
        "1:2",
        ".nan",
        "\x85",
        "\u2028",
        "\ufeff",
        "\0",
        "é",
    ]
)
MARKDOWN = st.lists(PIECES, max_size=60).map("".join)


def parsed_or_refused(raw):
    """Anything but a goal or GoalFileError fails the test by itself."""
    try:
        goal = parse(raw, "g.md", ["default"])
    except GoalFileError as error:
        refusal = error
    else:
        refusal = None
    if refusal is not None:
        assert refusal.faults
        assert all(fault.message for fault in refusal.faults)
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
@given(st.text(max_size=300))
def test_any_text_is_a_goal_or_refused(text):
    parsed_or_refused(text.encode("utf-8", "surrogatepass"))


@settings(deadline=None)
@given(MARKDOWN)
@example("---\n<<: {a: 1}\n---\nx")
@example("- \n\n# ")
def test_any_mixture_of_markdown_is_a_goal_or_refused(text):
    parsed_or_refused(text.encode())


@settings(deadline=None)
@given(MARKDOWN)
def test_any_front_matter_is_a_goal_or_refused(front):
    parsed_or_refused(f"---\n{front}\n---\n# Goal\n".encode())


@settings(deadline=None)
@given(st.text(), st.text())
def test_a_goal_id_always_has_its_form(description, token):
    found = goal_id(description, token)
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*-[0-9a-f]{4}", found)
    assert len(found) <= 45
    assert found == goal_id(description, token)
