"""A turn of the llm agent that is cut short by `stop`: what it has cost is reported, and only once."""

import asyncio

import pytest
from goal_daemon import GoalDaemon
from llm_server import ScriptedLlm, calls

from clew_worker.agent import llm as agent_llm

WRITE = calls(("write_file", {"path": "hello.txt", "content": "hello"}))


@pytest.fixture
def daemon(tmp_path):
    return GoalDaemon(tmp_path)


async def stopped_at(daemon, method, run_llm, llm):
    """Tell the agent to stop once it waits for the answer to a method; its exit code."""
    daemon.hold[method] = asyncio.Event()
    running = asyncio.create_task(run_llm(daemon, llm))
    await daemon.until(lambda: daemon.count(method))
    daemon.notify("stop", reason="attempt", grace_s=5)
    return await running


@pytest.mark.parametrize("method", ["act", "reflect"])
async def test_the_turn_is_reported_once_wherever_the_agent_is_stopped(daemon, run_llm, method):
    with ScriptedLlm(WRITE, then=WRITE) as llm:
        assert await stopped_at(daemon, method, run_llm, llm) == 0
    assert [p["usage"]["input"] for p in daemon.params("reflect")] == [100]


async def test_a_daemon_that_does_not_answer_delays_the_end_only_for_a_moment(
    daemon, run_llm, monkeypatch
):
    monkeypatch.setattr(agent_llm, "LAST_REPORT_S", 0.3)
    daemon.silent_from["reflect"] = 1
    with ScriptedLlm(WRITE, then=WRITE) as llm:
        assert await stopped_at(daemon, "act", run_llm, llm) == 0
    assert daemon.count("reflect") == 1
