"""An endpoint that cannot be reached, or asks for a pause: the goal waits, is seen to wait, and goes on by itself."""

import datetime as dt
import socket

import pytest
from llm_server import ScriptedLlm, calls, fails

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


def thinker(clew, base_url, name="thinker"):
    table = {"kind": "llm", "base_url": base_url, "model": "m", "mode": "tools", "timeout_s": 20}
    clew.configure({f"agents.{name}.{key}": value for key, value in table.items()})
    return f"---\nagent: {name}\n---\n# Write hello\n"


def url_of(port):
    return f"http://127.0.0.1:{port}/v1"


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


def test_a_refused_connection_is_seen_as_waiting_all_the_time_and_as_no_restart(
    make_clew, closed_port
):
    clew = make_clew(SOON)
    text = thinker(clew, url_of(closed_port))
    goal = clew.start().submit(text)
    waiting(clew, goal)
    attempts = lambda: len(clew.seen("goal.waiting", goal=goal)) >= ATTEMPTS  # noqa: E731
    views = views_until(clew, goal, attempts)
    assert {view["status"] for view in views} == {"waiting"}
    assert {view["waiting"]["for"] for view in views} == {
        f"{url_of(closed_port)}: connection refused"
    }
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
        port = llm.port
    text = thinker(clew, url_of(port))
    goal = clew.start().submit(text)
    waiting(clew, goal)
    with ScriptedLlm(WRITE, FINISH, port=port):
        clew.wait("goal.completed", goal=goal)
    assert clew.lines(goal, "hello.txt") == ["hello"]
    assert clew.goal(goal)["waiting"] is None
    assert clew.goal(goal)["restarts"] == 0


def test_a_goal_still_waits_after_the_daemon_was_killed_and_since_the_same_moment(
    make_clew, closed_port
):
    clew = make_clew(SOON)
    text = thinker(clew, url_of(closed_port))
    goal = clew.start().submit(text)
    since = waiting(clew, goal)["waiting"]["since"]
    clew.wait("goal.waiting", goal=goal, count=3)
    clew.kill()
    before = clew.now()
    clew.start()
    told = lambda: clew.seen("goal.waiting", goal=goal, since=before)  # noqa: E731
    views = views_until(clew, goal, told)
    assert {(view["status"], view["waiting"]["since"]) for view in views} == {("waiting", since)}
    assert {view["restarts"] for view in views} == {0}


@pytest.mark.parametrize("status", [429, 503])
def test_a_server_that_names_a_time_is_waited_for_until_then(make_clew, status):
    clew = make_clew()
    with ScriptedLlm(fails(status, "busy", retry_after=600), WRITE, FINISH) as llm:
        text = thinker(clew, llm.base_url)
        goal = clew.start().submit(text)
        view = waiting(clew, goal)
        wait = view["waiting"]
        since, until = (dt.datetime.fromisoformat(wait[key]) for key in ("since", "until"))
        assert view["status"] == "waiting"
        assert llm.base_url in wait["for"]
        assert abs((until - since).total_seconds() - 600) < 1
        assert len(llm.requests) == 1
        clew.clew("resume", goal)
        clew.wait("goal.completed", goal=goal)
