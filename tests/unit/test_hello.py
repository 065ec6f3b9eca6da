"""The answers that hold a state are as before there were models: no key more or less, and no null moved.

After a change that is meant (a tool, a threshold), `python tests/unit/test_hello.py` records them again; read the diff.
"""

import hashlib
import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from clew_daemon.record.hello import hello_answer
from clew_daemon.record.shrink import fitted_state, published_state
from clew_shared.config.agent_tables import LlmAgentSettings, RunbookAgentSettings
from clew_shared.config.tables import Settings
from clew_shared.prompt.layout import lay_out
from clew_shared.prompt.view import PromptView
from clew_shared.record import events as ev
from clew_shared.record.codec import encode
from clew_shared.record.fold import apply
from clew_shared.record.spec import PlannedStep, PlannedSubtask, PlannedTask, Prompt, Spec
from clew_shared.record.state import State
from clew_shared.views.publish import state_view
from clew_shared.wire.hello import HelloAnswer
from clew_shared.wire.protocol import LINE_BYTES_MAX

FILE = Path(__file__).parent / "recorded" / "hello.json"
RECORDED = json.loads(FILE.read_text())
LARGE_CHARS = 40_000
BULLET = {"id": "tes-00002", "section": "Testing", "content": "Run one test", "helpful": 2}


class Record:
    """Events with numbers and outputs, and the state that they make."""

    def __init__(self, **spec):
        self.rows, self.outputs, self.state = [], {}, State()
        spec = Spec(**{"description": "Make hello.txt", "workspace": "/home/me/hello", **spec})
        self.add(ev.GoalAccepted(goal_id="hello-1", spec=spec))
        self.add(ev.GoalStarted())

    def add(self, event, output=""):
        seq = len(self.rows) + 1
        event = event.model_copy(update={"at": 1_700_000_000.0 + seq})
        self.rows.append(SimpleNamespace(seq=seq, kind=event.kind, body=encode(event)))
        self.outputs[seq] = output.encode()
        apply(self.state, event, seq)
        return seq

    def read(self, _goal, after=0, limit=None):
        rows = [row for row in self.rows if row.seq > after]
        return iter(rows[:limit] if limit else rows)

    def output(self, seq):
        return self.outputs[seq]

    def plan(self, *tasks, **fields):
        planned = tuple(
            PlannedTask(
                description=name, subtasks=tuple(PlannedSubtask(description=s) for s in subtasks)
            )
            for name, *subtasks in tasks
        )
        self.add(ev.Planned(tasks=planned, **fields))

    def act(self, tool, result="success", output="out", **args):
        seq = self.add(
            ev.ActionAllowed(epoch=1, tool=tool, args=args, signature=f"{tool}::{args}"[:80])
        )
        done = ev.ActionFinished(
            of=seq, result=result, outcome=f"{result}:", head=output[:400], duration_s=0.25,
            changed=tool == "write_file", exit_code=1 if result == "failure" else None, world="w",
        )  # fmt: skip
        self.add(done, output)
        return seq


def fresh():
    return Record(notes="be kind", checks={"there": "test -f hello.txt"}, max_iterations=12)


def at_work():
    """Return a goal amid its plan, with one of everything that an agent is shown."""
    record = Record(done_when="it says hello", budget_tokens=9000, on_interrupt="ask")
    record.add(ev.WorkerStarted(epoch=1, agent="llm"))
    record.plan(["Write", "Make the file", "Fill it"], ["Check", "Read it"])
    record.add(ev.SubtaskStarted(task_idx=0, subtask_idx=0))
    record.act("write_file", path="hello.txt", content="hel")
    record.add(ev.SubtaskEnded(status="completed", summary="the file is there"))
    record.add(ev.SubtaskStarted(task_idx=0, subtask_idx=1))
    record.add(ev.Thought(text="I must fill it", theme="general", has_tool_calls=True))
    failed = record.act("run_cmd", "failure", "no such file\n" * 9, cmd="cat helo.txt")
    record.add(ev.Intervened(intervention="same_error", message="look at the name"))
    hindsight = ({"insights": "a typo", "relevance": "high", "next": "read hello.txt"},)
    turn = (
        {"seq": failed},
        {"seq": -1, "name": "plan", "args": {}, "result": "error", "output": "no"},
    )
    record.add(
        ev.Reflected(iteration=1, turn=turn, prompt=Prompt(sha="ab", mode="json", tightness=1))
    )
    record.act("read_file", output="hel", path="hello.txt")
    record.add(
        ev.ActionBlocked(
            epoch=1, tool="run_cmd", args={"cmd": "cat helo.txt"}, signature="run_cmd::cat",
            reason="repetition", message="You did that already.", makes_block="run_cmd::cat",
            everywhere=True, counts=True,
        )
    )  # fmt: skip
    record.add(ev.Reflected(iteration=2, hindsight=hindsight, prompt=Prompt(folded=1)))
    record.add(ev.ProbesSeen(probes={"tests_pass": False, "exists": True}))
    record.add(ev.FeedbackGiven(text="use tabs"))
    record.add(ev.SubtaskFailed(failure="the name was wrong"))
    cut = record.add(
        ev.ActionAllowed(epoch=1, tool="run_cmd", args={"cmd": "make"}, signature="run_cmd::make")
    )
    record.add(ev.ActionInterrupted(of=cut, reason="the agent died", counts=True))
    record.add(ev.WorkerStarted(epoch=2, agent="llm"))
    return record


def blocked():
    """Return a goal that must be planned again."""
    record = at_work()
    record.add(ev.Escalated(to="task", reason="three attempts failed"))
    return record


def runbook():
    """Return a goal whose subtasks bear steps."""
    step = PlannedStep(tool="run_cmd", args={"cmd": "touch a"})
    subtasks = tuple(PlannedSubtask(description=n, steps=(step, step)) for n in "ab")
    record = Record(notes="x")
    record.add(ev.Planned(tasks=(PlannedTask(description="all", subtasks=subtasks),)))
    record.add(ev.WorkerStarted(epoch=1, agent="runbook"))
    record.add(ev.SubtaskStarted(task_idx=0, subtask_idx=0))
    record.act("run_cmd", cmd="touch a")
    return record


def large():
    """Return a goal of which no line of the protocol holds all."""
    record = Record(notes="n" * 900_000, done_when="w" * 30_000)
    record.add(ev.FeedbackGiven(text="f" * 5_000))
    record.plan(
        *([f"task {t}", *(f"step {t}.{s} " + "d" * 900 for s in range(30))] for t in range(30))
    )
    for s in range(3):
        record.add(ev.SubtaskStarted(task_idx=0, subtask_idx=s))
        for n in range(8):
            record.act("write_file", path=f"f{n}", content="x" * 60_000, output="o" * 9_000)
        record.add(ev.SubtaskFailed(failure="l" * 1_500))
        if s < 2:
            record.add(ev.SubtaskEnded(status="completed", summary="s" * 1_900))
    return record


GOALS = {"fresh": fresh, "at_work": at_work, "blocked": blocked, "runbook": runbook, "large": large}


def recorded(value):
    """Return an answer as it is on record: a large one by its size and its hash."""
    text = json.dumps(value, ensure_ascii=False, sort_keys=True)
    if len(text) < LARGE_CHARS:
        return json.loads(text)
    return {"chars": len(text), "sha256": hashlib.sha256(text.encode()).hexdigest()}


def answers(record):
    """Return all answers about a goal that hold its state, and the prompt of the first."""
    prompt, agent = record.state.guidance.prompt, LlmAgentSettings(model="m")
    llm = hello_answer(record.state, Settings(), agent, record, [BULLET], prompt=prompt)
    received = HelloAnswer.model_validate_json(json.dumps(llm.as_json()))
    prompts = [lay_out(PromptView.on_record(hello)).messages for hello in (llm, received)]
    assert prompts[0] == prompts[1]
    view = state_view(record.state)
    assert len(json.dumps(llm.as_json(), ensure_ascii=False).encode()) < LINE_BYTES_MAX
    found = {
        "llm": llm.as_json(),
        "runbook": hello_answer(
            record.state, Settings(), RunbookAgentSettings(), record, [], prompt=prompt
        ).as_json(),
        "prompt": prompts[0],
        "planned": fitted_state({"state": view, "escalated_to": None}),
        "published": published_state(view),
    }
    return {name: recorded(value) for name, value in found.items()}


@pytest.mark.parametrize("goal", GOALS)
def test_every_answer_that_holds_a_state_is_as_on_record(goal):
    found = answers(GOALS[goal]())
    assert found.keys() == RECORDED[goal].keys()
    for name, value in found.items():
        assert value == RECORDED[goal][name], name


CALL = {"seq": 1, "name": "run_cmd", "args": {"cmd": "x" * 60}, "result": "success"}
FINISHED = {"description": "d" * 100, "summary": "s" * 100, "insights": ["i" * 100] * 3}


@pytest.mark.parametrize(
    ("actions", "finished", "transcript"),
    [
        ([CALL | {"args": {"x": [1] * 60_000}}] * 20, [], []),  # as any program may propose them
        ([], [FINISHED] * 4_000, []),
        ([], [], [CALL] * 12_000),
        ([], [], [CALL | {"signature": "run_cmd::" + "y" * 30_000, "output": "o" * 2_000_000}]),
    ],
)
def test_an_answer_fits_a_line_and_what_is_compared_stays_whole(actions, finished, transcript):
    place = f"/home/{'w' * 300}"
    subtasks = [{"description": "s", "actions": actions}]
    state = {"current_task_idx": 0, "current_subtask_idx": 0, "transcript": transcript}
    state |= {"goal": {"tasks": [{"subtasks": subtasks}]}, "finished": finished}
    answer = {"state": state, "spec": {"workspace": place}, "notes": "n" * 999_000, "playbook": []}
    found = fitted_state(answer)
    assert len(json.dumps(found).encode()) < LINE_BYTES_MAX - 40_000
    assert found["spec"]["workspace"] == place
    last = (found["state"]["transcript"] or [{}])[-1]
    assert last.get("signature") == (transcript or [{}])[-1].get("signature")


def test_an_answer_of_another_version_is_read_without_what_is_unknown():
    answer = RECORDED["at_work"]["llm"]
    newer = answer | {"new": 1, "state": answer["state"] | {"new": {"x": 1}}}
    assert HelloAnswer.model_validate(newer) == HelloAnswer.model_validate(answer)
    assert HelloAnswer.model_validate({"state": {"goal": {"description": "x"}}}).heartbeat_s == 1.0


if __name__ == "__main__":
    found = {name: answers(make()) for name, make in GOALS.items()}
    FILE.write_text(json.dumps(found, ensure_ascii=False, indent=1, sort_keys=True) + "\n")
