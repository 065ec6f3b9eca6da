"""A model that makes the same mistake in every goal, unless its prompt warns it: what the lessons save (by -s)."""

import json
import re
from collections import Counter

from llm_server import ScriptedLlm, calls

GOALS, TAUGHT_BY = 4, 3
WARNING = "Do not call `run_cmd test -f part.txt` again while nothing has changed"
GOAL = "---\nchecks: {{made: test -f part.txt}}\n---\n# Make part {0}\n"
LOOK = calls(("run_cmd", {"cmd": "test -f part.txt"}))
MAKE = calls(("write_file", {"path": "part.txt", "content": "made\n"}))
FINISH = calls(("finish", {"summary": "made"}))


class Careless(ScriptedLlm):
    """Looks for the file of its goal until it is refused twice; if it is warned, it makes the file after one look."""

    turns, warned = Counter(), ()

    def next_reply(self, body, headers):
        prompt = "\n".join(m["content"] or "" for m in body["messages"])
        part = re.search(r"Make part (\d+)", prompt)[1]
        if not self.turns[part]:
            self.warned = (*self.warned, WARNING in prompt)
        looks = 1 if WARNING in prompt else 4
        self.then = [*[LOOK] * looks, MAKE, FINISH][min(self.turns[part], looks + 1)]
        self.turns[part] += 1
        return super().next_reply(body, headers)


def test_a_mistake_that_was_refused_in_three_goals_is_not_made_in_the_next(clew):
    refusals = []
    with Careless() as llm:
        clew.model(llm, "careless")
        clew.start()
        for number in range(GOALS):
            goal = clew.completed(GOAL.format(number), f"part_{number}.md")
            clew.until(lambda goal=goal: "reviewed" in {row.kind for row in clew.rows(goal)})
            refusals.append(len(clew.seen("action.blocked", goal=goal)))
    print(f"refused, with the playbook: {refusals}")  # noqa: T201
    assert llm.warned == (False,) * TAUGHT_BY + (True,) * (GOALS - TAUGHT_BY)
    assert refusals == [2] * TAUGHT_BY + [0] * (GOALS - TAUGHT_BY)
    strategies = json.loads(clew.clew("playbook", "list", "--json"))["bullets"]
    [lesson] = [one for one in strategies if one["section"] == "loops"]
    assert lesson["content"].startswith(WARNING)
    assert (lesson["helpful"], lesson["harmful"]) == (GOALS - TAUGHT_BY, 0)
    assert clew.verified()
