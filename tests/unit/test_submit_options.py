"""The options of `submit` go before the front matter, whatever its form, and checks are added to its own."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew_daemon.inbox.goalfile.keys import GoalFileError
from clew_daemon.inbox.goalfile.parse import parse
from clew_daemon.reading.submission import GoalSource, SubmitOptions, merged

ALL = SubmitOptions("tea", "mine", "/work here/x", ("make test", 'it\'s: "done" # & {[\\'))
FRONTS = (
    "",
    "---\n# nothing yet\n---\n",
    "---\nname: coffee\nagent: default  # the usual\nworkspace: /a\npriority: 2\n---\n",
    "---\nname:\nagent: ~\nworkspace:\nchecks:\n---\n",
    "---\nname: |\n  coffee\nworkspace: >-\n  /a\npriority: 2\n---\n",
    "---\n{name: coffee, priority: 2}\n---\n",
    "---\n  priority: 2\n  agent: default\n---\n",
    "---\nchecks:\n  check_1: ls\n  b: pwd\npriority: 2\n---\n",
    "---\nchecks: [ls, pwd]\n---\n",
    "---\nchecks: ls\n---\n",
)


def with_options(front, options):
    source = GoalSource(
        "g.md", "g.md", f"{front}# Make tea\n## Done when\n- `test -e tea`\n".encode()
    )
    return parse(merged(source, options), "g.md", ["default", "mine"])


@pytest.mark.parametrize("front", FRONTS)
def test_options_win_and_everything_else_stays(front):
    goal = with_options(front, ALL)
    assert (goal.name, goal.agent, goal.workspace) == ("tea", "mine", "/work here/x")
    commands = set(goal.checks.values())
    assert {*ALL.checks, "test -e tea"} <= commands
    assert ("ls" in commands, "pwd" in commands) == ("ls" in front, "pwd" in front)
    assert goal.priority == (2 if "priority: 2" in front else 0)


@given(st.text(max_size=80), st.sampled_from(FRONTS))
def test_any_text_of_an_option_is_read_back_as_it_was_or_refused(check, front):
    try:
        goal = with_options(front, SubmitOptions("a", "mine", "/x", (check,)))
    except GoalFileError:
        assert not check.strip() or not check.isprintable()
    else:
        assert check.strip() in goal.checks.values()
