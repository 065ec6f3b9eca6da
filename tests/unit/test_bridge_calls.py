"""Calls of clew's tools by a coding agent, with a played daemon."""

import asyncio

from clew_shared.record.model import Goal, Subtask, Task
from clew_shared.wire.hello import HelloAnswer, HelloState
from clew_worker.agent.client import AgentClient
from clew_worker.bridge.calls import ToolCalls

DONE = {"verdict": "allowed", "seq": 7, "outcome": {"result": "success", "output": "built"}}


class PlayedDaemon(AgentClient):
    """Answers by method, with a value, an error to raise or a function that waits."""

    def __init__(self, **answers):
        self.answers = {"act": DONE, **answers}
        self.asked = []
        self.notices = {}

    def on(self, method, callback):
        self.notices.setdefault(method, []).append(callback)

    def notify(self, method, **params):
        for callback in self.notices[method]:
            callback(params)

    async def greet(self, _name):
        subtask = Subtask(description="Write b.txt", status="in_progress")
        task = Task(description="Files", subtasks=[subtask, Subtask(description="Write c.txt")])
        goal = Goal(description="Files", tasks=[task])
        state = HelloState(goal=goal, replan_required=self.answers.get("replan"))
        return HelloAnswer(state=state)

    async def call(self, method, **params):
        self.asked.append((method, params))
        answer = self.answers.get(method, {})
        if isinstance(answer, Exception):
            raise answer
        return await answer() if callable(answer) else answer


def calls_of(daemon, patience_s=30.0):
    calls = ToolCalls(daemon, "cli/1", patience_s)
    return calls, calls


async def test_a_call_is_one_act_under_the_built_in_name():
    daemon = PlayedDaemon()
    calls, goal = calls_of(daemon)
    answer = await calls.call("clew_run", {"cmd": "make"})
    assert daemon.asked == [("act", {"tool": "run_cmd", "args": {"cmd": "make"}})]
    assert answer.text == "built"
    assert goal.effects == 1
    assert goal.take_records()[0]["tool"] == "run_cmd"


async def test_a_long_call_is_answered_meanwhile_and_stays_one_action():
    go = asyncio.Event()

    async def act():
        daemon.notify("allowed", seq=7)
        await go.wait()
        return DONE

    daemon = PlayedDaemon(act=act)
    calls, _ = calls_of(daemon, 0.01)
    assert (await calls.call("clew_run", {"cmd": "make"})).text.startswith("still running, #7.")
    assert (await calls.call("clew_wait", {"seq": 7})).text.startswith("still running, #7.")
    other = await calls.call("clew_read", {"path": "a"})
    assert other.refused
    assert "was not carried out" in other.text
    go.set()
    assert (await calls.call("clew_wait", {"seq": 7})).text == "built"
    assert len(daemon.asked) == 1


async def test_a_subtask_that_is_done_is_answered_with_the_next_one():
    daemon = PlayedDaemon(advance={"subtask": {"description": "Write b.txt"}, "task": None})
    calls, _ = calls_of(daemon)
    answer = await calls.call("clew_done", {"success": True, "summary": "wrote a"})
    assert [method for method, _ in daemon.asked] == ["complete_subtask", "advance"]
    assert answer.text == "Next subtask: Write b.txt"


async def test_the_last_subtask_is_answered_with_the_checks_that_fail():
    failing = {"name": "there", "cmd": "test -f b", "exit_code": 1, "output": ""}
    daemon = PlayedDaemon(finish={"accepted": False, "failing_checks": [failing]})
    calls, goal = calls_of(daemon)
    assert (
        "Check failed with exit code 1: test -f b"
        in (await calls.call("clew_done", {"success": True})).text
    )
    assert not goal.over.is_set()
    daemon.answers["finish"] = {"accepted": True}
    assert "completed" in (await calls.call("clew_done", {"success": "yes"})).text
    assert goal.over.is_set()
    assert (await calls.call("clew_run", {"cmd": "ls"})).refused


async def test_a_question_ends_the_work_until_it_is_answered():
    daemon = PlayedDaemon()
    calls, goal = calls_of(daemon)
    await calls.call("clew_ask", {"question": "Which colour?"})
    assert daemon.asked == [("ask", {"question": "Which colour?"})]
    assert goal.over.is_set()


async def test_a_replan_replaces_all_that_is_pending():
    daemon = PlayedDaemon(replan="task")
    calls, _ = calls_of(daemon)
    await calls.call("clew_plan", {"tasks": [{"description": "All", "subtasks": ["Another way"]}]})
    [(_, sent)] = [one for one in daemon.asked if one[0] == "plan"]
    assert sent["covers"] == [1]
