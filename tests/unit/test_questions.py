"""What a person is asked: what was done, what came out, why it stopped, and what they can do."""

import re
from pathlib import Path

from clew_shared.core import questions

REPO = Path(__file__).resolve().parents[2]
MISSING = "Reading.\ncat: answer.txt: No such file or directory"


def test_a_question_says_what_was_tried_what_came_out_why_it_stopped_and_what_to_do(played):
    agent = played(["Find the answer"], ["Write it down"])
    while not agent.state.replan_required:
        agent.fail("cat answer.txt", MISSING)
    lines = questions.stuck(agent.state).text.splitlines()
    cannot = "cat: answer.txt: No such file or directory"
    assert lines == [
        'Working on: 1.1 "Find the answer"',
        f"Tried last: `cat answer.txt`, which failed: {cannot}",
        "Stopped: the agent asked for `cat answer.txt` again 3 times after clew had refused it",
        "You can:",
        '- say what to do differently: `clew feedback goal-1 "…"`',
        "- when you have fixed the cause, continue: `clew continue goal-1`",
        "- end the goal: `clew cancel goal-1`",
    ]


def test_every_question_to_a_person_is_made_from_the_one_template():
    """So each has a row in docs/messages.md (`test_docs`)."""
    makes = re.compile(r"\bQuestion\(|ev\.GoalBlocked\((?!\))|core\.block_goal\(")
    sources = [*REPO.glob("shared/**/*.py"), *REPO.glob("daemon/**/*.py")]
    found = {path.name for path in sources if makes.search(path.read_text())}
    assert found == {"questions.py", "tree.py", "epoch.py", "recovery.py"}
