"""A model that makes the same mistake in every goal, unless its prompt warns it of that: what the lessons save.

`python -m pytest -s -n0 tests/process/test_loop_lessons_shown.py` prints the refusals of each goal.
"""

import json
import re
from collections import Counter

from llm_server import ScriptedLlm, calls

from clew_shared.ledger.reader import Reader

GOALS, TAUGHT_BY = 4, 3
WARNING = "Do not call `run_cmd test -f part.txt` again while nothing has changed"
GOAL = "---\nchecks: {{made: test -f part.txt}}\n---\n# Make part {0}\n"


class Careless(ScriptedLlm):
    """Looks for the file of its goal until it is refused twice; if it is warned, it makes the file after one look."""

    def __init__(self):
        super().__init__()
        self.turns = Counter()
        self.warned = []

    def next_reply(self, body, headers):
        self.then = self.answer("\n".join(m["content"] or "" for m in body["messages"]))
        return super().next_reply(body, headers)

    def answer(self, prompt):
        part = re.search(r"Make part (\d+)", prompt)[1]
        turn = self.turns[part] = self.turns[part] + 1
        if turn == 1:
            self.warned.append(WARNING in prompt)
        looks = 1 if WARNING in prompt else 4
        if turn <= looks:
            return calls(("run_cmd", {"cmd": "test -f part.txt"}))
        if turn == looks + 1:
            return calls(("write_file", {"path": "part.txt", "content": "made\n"}))
        return calls(("finish", {"summary": "made"}))


def rests_reviewed(clew, goal):
    """Return whether the ledger has a review of the goal."""
    with Reader.open(clew.home / "state" / "ledger.db") as reader:
        return any(row.kind == "reviewed" for row in reader.read(goal))


def refusals(clew, llm):
    """Let goals make the mistake, one after the other; return how often each was refused."""
    clew.model(llm, "careless")
    clew.start()
    counts = []
    for number in range(GOALS):
        goal = clew.completed(GOAL.format(number), f"part_{number}.md")
        clew.until(lambda goal=goal: rests_reviewed(clew, goal), "the review")
        counts.append(len(clew.seen("action.blocked", goal=goal)))
    return counts


def test_a_mistake_that_was_refused_in_three_goals_is_not_made_in_the_next(clew):
    with Careless() as llm:
        counts = refusals(clew, llm)
        print(f"refused, with the playbook: {counts}")  # noqa: T201
        assert llm.warned == [False] * TAUGHT_BY + [True] * (GOALS - TAUGHT_BY)
    assert counts == [2] * TAUGHT_BY + [0] * (GOALS - TAUGHT_BY)
    [lesson] = [
        one
        for one in json.loads(clew.clew("playbook", "list", "--json"))["bullets"]
        if one["section"] == "loops"
    ]
    assert lesson["content"].startswith(WARNING)
    assert (lesson["helpful"], lesson["harmful"]) == (GOALS - TAUGHT_BY, 0)
    assert clew.verified()
