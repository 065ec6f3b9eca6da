"""A model under the daemon: endpoints that are away, limits that hold, and what helps small models."""

import datetime as dt
import json
import socket
from types import SimpleNamespace

import pytest
from llm_server import ScriptedLlm, calls, fails, says
from test_attempts import TURN_TOKENS, goal_text

FINISH = calls(("finish", {"summary": "done"}))
WRITE = calls(("write_file", {"path": "hello.txt", "content": "hello"}))
SOON = {"restart.backoff_max_s": 0.3}
ATTEMPTS = 6


@pytest.fixture
def closed_port():
    """Give a port of this machine that refuses connections, and that nobody else takes."""
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        yield reserved.getsockname()[1]


GOAL = "---\nagent: thinker\n---\n# Write hello\n"


@pytest.fixture
def away(make_clew, closed_port):
    """A daemon with a goal whose endpoint refuses connections, and which waits for it."""
    clew = make_clew(SOON)
    url = f"http://127.0.0.1:{closed_port}/v1"
    clew.model(SimpleNamespace(base_url=url), "thinker")
    goal = clew.start().submit(GOAL)
    waiting(clew, goal)
    return clew, goal, url


def waiting(clew, goal):
    clew.wait("goal.waiting", goal=goal)
    return clew.goal(goal)


def views_until(clew, goal, condition):
    """Look at a goal again and again until something holds; every view of it."""
    views = []

    def look():
        views.append(clew.goal(goal))
        return condition()

    clew.until(look)
    return views


def test_a_refused_connection_is_seen_as_waiting_all_the_time_and_as_no_restart(away):
    clew, goal, url = away
    attempts = lambda: len(clew.seen("goal.waiting", goal=goal)) >= ATTEMPTS  # noqa: E731
    views = views_until(clew, goal, attempts)
    assert {view["status"] for view in views} == {"waiting"}
    assert {view["waiting"]["for"] for view in views} == {f"{url}: connection refused"}
    assert len({view["waiting"]["since"] for view in views}) == 1
    untils = [view["waiting"]["until"] for view in views]
    assert untils == sorted(untils)
    assert len(set(untils)) > 1
    assert {view["restarts"] for view in views} == {0}
    assert views[-1]["epoch"] > views[0]["epoch"]
    clew.clew("cancel", goal)


def test_a_goal_goes_on_by_itself_when_its_endpoint_is_back(make_clew):
    clew = make_clew(SOON)
    with ScriptedLlm() as llm:
        clew.model(llm, "thinker")
    goal = clew.start().submit(GOAL)
    waiting(clew, goal)
    with ScriptedLlm(WRITE, FINISH, port=llm.port):
        clew.wait("goal.completed", goal=goal)
    assert clew.lines(goal, "hello.txt") == ["hello"]
    assert clew.goal(goal)["waiting"] is None
    assert clew.goal(goal)["restarts"] == 0


def test_a_goal_still_waits_after_the_daemon_was_killed_and_since_the_same_moment(away):
    clew, goal, _ = away
    since = clew.goal(goal)["waiting"]["since"]
    clew.wait("goal.waiting", goal=goal, count=3)
    clew.kill()
    before = clew.now()
    clew.start()
    told = lambda: clew.seen("goal.waiting", goal=goal, since=before)  # noqa: E731
    views = views_until(clew, goal, told)
    assert {(view["status"], view["waiting"]["since"]) for view in views} == {("waiting", since)}
    assert {view["restarts"] for view in views} == {0}


@pytest.mark.parametrize("status", [429, 503])
def test_a_server_that_names_a_time_is_waited_for_until_then(clew, status):
    with ScriptedLlm(fails(status, "busy", retry_after=600), WRITE, FINISH) as llm:
        clew.model(llm, "thinker")
        goal = clew.start().submit(GOAL)
        view = waiting(clew, goal)
        wait = view["waiting"]
        since, until = (dt.datetime.fromisoformat(wait[key]) for key in ("since", "until"))
        assert view["status"] == "waiting"
        assert llm.base_url in wait["for"]
        assert abs((until - since).total_seconds() - 600) < 1
        assert len(llm.requests) == 1
        clew.clew("resume", goal)
        clew.wait("goal.completed", goal=goal)


PLAN = {"tasks": [{"description": "All", "subtasks": ["First", "Then"]}]}
ANSWERS = {
    "plans": calls(("plan", PLAN)),
    "completes": calls(("complete_subtask", {"success": True, "summary": "done"})),
    "finishes": calls(("finish", {"summary": "done"})),
    "runs": calls(("run_cmd", {"cmd": "date +%N"})),
    "thinks": says("Let me think about it."),
}


@pytest.mark.parametrize("answer", ANSWERS)
def test_a_model_that_gives_one_answer_for_ever_is_asked_no_more_often_than_its_limit(clew, answer):
    with ScriptedLlm(then=ANSWERS[answer]) as llm:
        clew.model(llm, "thinker")
        goal = clew.start().submit(goal_text("max_iterations: 3"))
        assert "3 iterations" in clew.wait("goal.blocked", goal=goal)["reason"]
        clew.until(lambda: clew.goal(goal)["pid"] is None, "the end of the worker")
        assert len(llm.requests) == 3
    assert clew.goal(goal)["iteration"] == 3
    assert clew.goal(goal)["restarts"] == 0


def test_a_model_that_only_plans_is_stopped_by_tokens_or_turns_and_its_loop_is_shown(clew):
    with ScriptedLlm(then=ANSWERS["plans"]) as llm:
        clew.model(llm, "thinker")
        goal = clew.start().submit(goal_text(f"budget: {{tokens: {5 * TURN_TOKENS}}}"), "tokens.md")
        reason = clew.wait("goal.blocked", goal=goal)["reason"]
        assert reason == f"budget: the budget of {5 * TURN_TOKENS} tokens is used up"
        assert len(llm.requests) == 5
        goal = clew.submit(goal_text(), "default.md")
        clew.wait("goal.blocked", goal=goal)
        assert len(llm.requests) <= 5 + 30
    assert "no_progress" in clew.cli("loops", goal, "--json")


# -- many goals at once: each exactly once, four workers side by side, LLM calls by turns


def test_a_killed_agent_gives_its_llm_slot_back(clew):
    clew.agent(
        "holder",
        """
        hello()
        call("llm_slot", open=True, base_url="http://localhost:9/v1")
        say(epoch)
        if epoch == 1:
            notice("never")
        done()
        """,
    )
    goal = clew.start().submit("---\nagent: holder\n---\nHold\n")
    clew.said(goal)
    clew.kill_agent(goal)
    clew.wait("goal.completed", goal=goal)


ANSWER = {"path": "answer.txt", "content": "right\n"}
RIGHT = calls(("write_file", ANSWER))


def reached(clew, llm, check="grep -q right answer.txt", about="Do it", workspace=None):
    """Start a goal with this check and the model of this server, and wait until it is completed."""
    clew.model(llm, "small", model="small-1b")
    clew.start()
    where = f"workspace: {workspace}\n" if workspace else ""
    return clew.completed(
        f"---\nagent: small\n{where}checks: {{right: {json.dumps(check)}}}\n---\n# {about}\n"
    )


def test_to_finish_twice_with_nothing_done_ends_the_attempt(clew):
    with ScriptedLlm(FINISH, FINISH, RIGHT, then=FINISH) as llm:
        goal = reached(clew, llm)
    assert clew.goal(goal)["attempt"] == 2


def test_a_change_is_checked_at_once_and_what_still_fails_is_shown(clew):
    """Without a word of the model on whether it is done."""
    first = calls(("write_file", {"path": "one.txt", "content": "1"}))
    look = calls(("run_cmd", {"cmd": "ls"}))
    second = calls(("write_file", {"path": "two.txt", "content": "2"}))
    check = "test -f one.txt && test -f two.txt"
    with ScriptedLlm(look, first, second, then=FINISH) as llm:
        goal = reached(clew, llm, check=check)
    assert "not reached yet" not in llm.prompt(1)  # a look changes nothing
    assert "The goal is not reached yet." in llm.prompt(2)
    assert "there is no file two.txt" in llm.prompt(2)
    assert llm.prompt(2).endswith("Now change what is wrong: there is no file two.txt")
    assert "The checks pass now." in llm.prompt(3)
    assert len(clew.seen("check.failed", goal=goal)) == 1
    assert len(clew.seen("check.passed", goal=goal)) == 2


def test_of_an_answer_that_was_cut_off_the_next_prompt_has_the_beginning_alone(clew):
    long = says("I think. " * 400, "length")
    with ScriptedLlm(long, RIGHT, then=FINISH) as llm:
        reached(clew, llm)
    assert llm.prompt(1).count("I think.") < 50
    assert "Your answer was cut off" in llm.prompt(1)


@pytest.mark.parametrize("guidance", [True, False])
def test_what_is_there_is_shown_at_the_start(clew, tmp_path, guidance):
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "answer.txt").write_text("left\n")
    clew.configure({"context.guidance": guidance})
    with ScriptedLlm(RIGHT, then=FINISH) as llm:
        reached(clew, llm, about="Setz answer.txt auf right", workspace=folder)
    prompt = llm.prompt(0)
    assert ("These are there: answer.txt" in prompt) is guidance
    assert ("First look: call read_file on answer.txt" in prompt) is guidance


def test_checks_that_take_too_long_run_at_the_end_only(clew):
    clew.configure({"context.check_within_s": 0.2})
    slow = calls(("write_file", {"path": "slow", "content": ""}))
    remove = calls(("run_cmd", {"cmd": "rm slow"}))
    check = "test ! -e slow || exec sleep 600; grep -q right answer.txt"
    with ScriptedLlm(slow, remove, RIGHT, then=FINISH) as llm:
        goal = reached(clew, llm, check=check)
    assert [len(clew.seen(f"check.{end}", goal=goal)) for end in ("passed", "failed")] == [1, 0]


def test_checks_run_at_the_end_only_where_the_config_says_so(clew):
    clew.configure({"context.check_within_s": 0})
    with ScriptedLlm(RIGHT, then=FINISH) as llm:
        goal = reached(clew, llm, about="Fix the answer")
    assert len(clew.seen("check.passed", goal=goal)) == 1
