"""The work of a long run: three kinds of goals whose agents go on after any death, and what they must leave.

A recorder tells by `record` of steps with outputs of a few hundred characters; an actor writes a line of its
own with each action; a runbook writes its lines without an agent of ours. Each is bound to end.
"""

import json

SUBTASKS = 4
KINDS = ("recorder",) * 12 + ("actor",) * 5 + ("runbook",) * 3
SHARE = {"recorder": 1.2, "actor": 1.0, "runbook": 0.2}  # 12 * 1.2 + 5 * 1 + 3 * 0.2 = 20

# `took` is the time of the step before: in the record it stands beside the step's number
AGENT = """
import time
state = hello()["state"]
made, took = 0, None
for _ in range({subtasks}):
    task = state["goal"]["tasks"][0]
    at = state["current_subtask_idx"]
    if task["subtasks"][at]["status"] not in ("pending", "in_progress"):
        break
    done = task["subtasks"][at]["actions_total"]
    while done < {each}:
        made, done = made + 1, done + 1
        name = f"{{at}}.{{epoch}}.{{made}}"
        began = time.monotonic()
        {step}
        took = round((time.monotonic() - began) * 1e6)
    state = call("complete_subtask", success=True)["state"]
call("finish", success=True, summary="done")
"""
RECORD = """call("record", tool="look", args={"name": name, "took_us": took}, result="success",
             output=(name + " ") * 40, changed=True)"""
ACT = """act("run_cmd", cmd=f"echo {name} >> trace")"""


def agents(clew, actions_each):
    """Make the agents of the home; `actions_each` is the mean number of actions of a goal."""
    for kind, step in (("recorder", RECORD), ("actor", ACT)):
        each = max(1, round(actions_each * SHARE[kind] / SUBTASKS))
        clew.agent(kind, AGENT.format(subtasks=SUBTASKS, each=each, step=step))


def goal_file(number, actions_each):
    """Give the name and the text of the goal of that number."""
    kind = KINDS[number % len(KINDS)]
    if kind == "runbook":
        each = max(1, round(actions_each * SHARE[kind] / SUBTASKS))
        items = "".join(
            f"- [ ] Part {part}\n"
            + "".join(f"  ```sh\n  echo {part}.{n} >> trace\n  ```\n" for n in range(each))
            for part in range(SUBTASKS)
        )
        return (
            f"{kind}-{number}.md",
            f"---\non_interrupt: retry\n---\n# Goal {number} of a {kind}\n\n## Do\n{items}",
        )
    items = "".join(f"- [ ] Part {part}\n" for part in range(SUBTASKS))
    return f"{kind}-{number}.md", f"---\nagent: {kind}\n---\n# Goal {number}\n\n## Do\n{items}"


def steps_us(actions: list[dict]) -> list[tuple[int, int]]:
    """Give (seq, microseconds) of the steps that a recorder has told of."""
    told = ((a["seq"], a["args"].get("took_us")) for a in actions)
    return [(seq, took) for seq, took in told if took]


def history(clew, goal: str) -> list[dict]:
    """Read a goal's actions from its published file."""
    path = clew.workspace(goal) / ".agent_context" / "history.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()]
