"""The options of `submit` in a goal file's front matter."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew_daemon.cli.commands.submit.front_options import SubmitOptions, merge
from clew_daemon.inbox.goalfile.front import split
from clew_daemon.inbox.goalfile.front_yaml import GoalFileError, composed
from clew_daemon.inbox.goalfile.parse import parse

AGENTS = ["default", "runbook", "mine"]
ALL = SubmitOptions("tea", "mine", "/work here/x", ("make test", 'it\'s: "done" # & {[\\'))

FRONTS = {
    "none": "",
    "empty": "---\n---\n",
    "a comment": "---\n# nothing yet\n---\n",
    "other keys": "---\ntags: [a]  # mine\npriority: 2\n---\n",
    "all of them": "---\nname: coffee\nagent: default  # the usual\nworkspace: /a\n---\n",
    "quoted": '---\n"name": \'coffee\'\nagent: "default"\nworkspace:\n  /a/b\n---\n',
    "without values": "---\nname:\nagent: ~\nworkspace:\nchecks:\n---\n",
    "block text": "---\nname: |\n  coffee\nworkspace: >-\n  /a\npriority: 2\n---\n",
    "in braces": "---\n{name: coffee, priority: 2}\n---\n",
    "empty braces": "---\n{}\n---\n",
    "indented": "---\n  priority: 2\n  agent: default\n---\n",
    "checks by name": "---\nchecks:\n  check_1: ls\n  b: pwd\npriority: 2\n---\n",
    "checks in braces": "---\nchecks: {check_2: ls, b: pwd}\n---\n",
    "checks as a list": "---\nchecks:\n- ls\n- pwd\n---\n",
    "checks in brackets": "---\nchecks: [ls, pwd]\n---\n",
    "one check": "---\nchecks: ls\n---\n",
}


@pytest.mark.parametrize("front", FRONTS.values(), ids=FRONTS)
def test_options_go_before_the_front_matter_whatever_its_form_and_checks_are_added(front):
    text = f"{front}# Make tea\n## Done when\n- `test -e tea`\n"
    merged = merge(text, ALL)
    goal = parse(merged.text.encode(), "g.md", AGENTS)
    assert (goal.name, goal.agent, goal.workspace) == ("tea", "mine", "/work here/x")
    commands = list(goal.checks.values())
    assert set(ALL.checks) | {"test -e tea"} <= set(commands)
    assert ("ls" in commands) == ("ls" in front)
    assert ("pwd" in commands) == ("pwd" in front)
    assert goal.priority == (2 if "priority: 2" in front else 0)
    assert merged.text.endswith("# Make tea\n## Done when\n- `test -e tea`\n")


@pytest.mark.parametrize("front", FRONTS.values(), ids=FRONTS)
def test_each_line_of_the_result_is_known_by_its_line_in_the_file(front):
    text = f"{front}# Make tea\nText\n"
    merged = merge(text, ALL)
    at = merged.text.split("\n").index("# Make tea") + 1
    assert merged.line(at) == text.split("\n").index("# Make tea") + 1
    assert merged.line(at + 1) == text.split("\n").index("# Make tea") + 2
    assert merged.line(None) is None


def test_a_single_option_leaves_everything_else_as_it_was():
    text = "---\nagent: default  # the usual\n\nbudget: {tokens: 5}\n---\nMake tea\n"
    assert merge(text, SubmitOptions(agent="mine")).text == text.replace("default", '"mine"')


@pytest.mark.parametrize(
    "text", ["---\nname: [\n---\nx\n", "---\nname: a\n", " ---\nname: a\n---\nx\n", "---\n- a\n---\nx\n"]
)  # fmt: skip
def test_front_matter_that_cannot_be_read_is_left_alone_and_told_with_its_own_lines(text):
    merged = merge(text, ALL)
    assert merged.text == text
    with pytest.raises(GoalFileError):
        parse(merged.text.encode(), "g.md", AGENTS)


@pytest.mark.parametrize("checks", ["checks: &c\n  a: ls", "checks: &c\n- ls"])
def test_front_matter_that_options_would_make_invalid_is_left_alone(checks):
    text = f"---\n{checks}\n---\nMake tea\n"
    merged = merge(text, SubmitOptions(checks=("make test",)))
    front, _, _ = split(merged.text)
    assert composed(front) is not None


@given(st.text(max_size=80), st.text(max_size=80))
def test_any_text_of_an_option_is_read_back_as_it_was_or_refused_by_its_option(check, agent):
    options = SubmitOptions(agent=agent, checks=(check,))
    if options.faults({agent: None, agent.strip(): None}):
        return
    goal = parse(merge("Make tea\n", options).text.encode(), "g.md", [agent.strip()])
    assert (goal.agent, goal.checks) == (agent.strip(), {"check_1": check.strip()})


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (SubmitOptions(name="Tea Time"), "--name: must be lower-case"),
        (SubmitOptions(agent="nobody"), "--agent: unknown agent `nobody`"),
        (SubmitOptions(agent=""), "--agent: is empty"),
        (SubmitOptions(workspace=""), "--workspace: is empty"),
        (SubmitOptions(workspace="here"), "--workspace: must be an absolute path"),
        (SubmitOptions(checks=("ls", " ")), "--check: is empty"),
        (SubmitOptions(checks=("echo \udcff",)), "--check: "),
    ],
)
def test_what_is_wrong_with_an_option_is_told_by_its_option(options, told):
    assert any(fault.startswith(told) for fault in options.faults(AGENTS))
