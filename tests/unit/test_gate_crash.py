"""The `crash` rule: what was in flight when the worker died."""

import pytest

BUILD = ("run_cmd", {"cmd": "make"})


def test_an_action_at_which_the_worker_died_twice_is_refused(agent):
    assert [agent.die(*BUILD) for _ in range(3)] == [True, True, False]
    assert agent.act(*BUILD).reason == "blocked_action"


def test_the_refusal_names_its_reason_and_the_deaths(agent):
    agent.die(*BUILD)
    agent.die(*BUILD)
    answer = agent.act(*BUILD)
    assert answer.reason == "crash"
    assert "died 2 times" in answer.message


def test_the_limit_can_be_set(played):
    agent = played(crash_limit=1)
    assert [agent.die(*BUILD) for _ in range(2)] == [True, False]


def test_a_stop_does_not_count(agent):
    for _ in range(5):
        assert agent.core.propose(*BUILD, 0.0).allowed
        agent.core.interrupt("stopped", 0.0, counts=False)


def test_only_what_was_in_flight_is_counted(agent):
    agent.fail("make")
    agent.die("run_cmd", {"cmd": "other"})
    agent.die("run_cmd", {"cmd": "other"})
    assert agent.fail("make").allowed


def test_a_wait_can_be_refused_for_it(agent):
    agent.die("wait", {"seconds": 1})
    agent.die("wait", {"seconds": 1})
    assert agent.act("wait", {"seconds": 1}).reason == "crash"


@pytest.mark.parametrize("restart", [False, True])
def test_the_block_holds_in_every_world(agent, restart):
    for _ in range(3):
        agent.die(*BUILD)
    agent.write("a", "another world")
    if restart:
        agent.restart()
    assert agent.act(*BUILD).reason == "blocked_action"


def test_the_block_outlives_a_persons_feedback(agent):
    for _ in range(3):
        agent.die(*BUILD)
    agent.feedback()
    assert not agent.act(*BUILD).allowed


def test_a_person_can_lift_it(agent):
    from clew_shared.record import events as ev

    for _ in range(3):
        agent.die(*BUILD)
    agent.core.emit(ev.Unblocked(signature='run_cmd::{"cmd":"make"}'))
    assert agent.act(*BUILD).allowed


def test_one_action_of_several_can_be_interrupted(agent):
    first = agent.core.propose("a", {}, 0.0).seq
    second = agent.core.propose("b", {}, 0.0).seq
    assert agent.core.interrupt("executor_died", 0.0, counts=True, only=first) == [first]
    assert list(agent.state.in_flight) == [second]
