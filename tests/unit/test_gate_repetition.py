"""The `repetition` rule: the same action, in the same world, with the same outcome."""

import pytest


def verdicts(answers):
    return [(a.allowed, a.reason or a.word) for a in answers]


def test_reading_passes_twice_then_with_a_word_then_not(agent):
    answers = [agent.read("a.txt") for _ in range(4)]
    assert verdicts(answers) == [
        (True, ""),
        (True, ""),
        (True, "repetition"),
        (False, "repetition"),
    ]


def test_a_failing_command_is_refused_at_its_third_attempt(agent):
    assert verdicts(agent.fail("make") for _ in range(3))[1:] == [(True, ""), (False, "repetition")]


def test_the_identical_write_is_refused_at_its_third_attempt(agent):
    assert [agent.write("a.txt", "x").allowed for _ in range(3)] == [True, True, False]


def test_writing_what_is_there_already_is_reading(agent):
    agent.files["a.txt"] = "x"
    agent.look()
    assert [agent.write("a.txt", "x").allowed for _ in range(4)] == [True, True, True, False]


def test_attempts_are_counted_across_other_actions(agent):
    agent.fail("make")
    agent.read("a.txt", "one")
    agent.fail("make")
    agent.read("b.txt", "two")
    agent.read("c.txt", "three")
    assert not agent.fail("make").allowed


def test_a_test_run_between_different_edits_is_never_refused(agent):
    for n in range(12):
        assert agent.write("a.py", f"version {n}").allowed
        assert agent.fail("pytest", "FAILED test_a").allowed


def test_a_poll_whose_output_moves_is_never_refused(agent):
    assert all(agent.run("job status 7", output=f"{n}% done").allowed for n in range(40))


def test_only_the_volatile_parts_of_an_output_moving_is_standing_still(agent):
    answers = [agent.fail("pytest", f"1 failed in 0.{n}s") for n in range(3)]
    assert not answers[-1].allowed


def test_a_rate_limit_passes_five_times_and_not_six(agent):
    answers = [agent.fail("curl api", "HTTP 429 Too Many Requests") for _ in range(6)]
    assert [a.allowed for a in answers] == [True] * 5 + [False]
    assert answers[-1].reason == "repetition"


def test_the_empty_answer_of_a_poll_passes_six_times_the_last_with_a_word(agent):
    answers = [agent.act("job_status", {"id": 7}, output="pending") for _ in range(7)]
    assert [a.allowed for a in answers] == [True] * 7
    assert answers[5].verdict.intervention.kind == "repetition"


def test_waits_are_never_refused(agent):
    assert all(agent.act("wait", {"seconds": 5}).allowed for _ in range(20))
    assert all(agent.run("sleep 5").allowed for _ in range(20))


def test_interrupted_is_no_outcome(agent):
    for _ in range(6):
        verdict = agent.core.propose("run_cmd", {"cmd": "make"}, 0.0)
        assert verdict.allowed
        agent.core.interrupt("stopped", 0.0, counts=False)


def test_a_flaky_command_may_be_run_a_few_times_more(agent):
    for text in ["red", "blue", "red", "blue", "red"]:
        assert agent.fail("flip", text).allowed
    assert not agent.fail("flip", "red").allowed


def test_the_third_of_an_outcome_is_refused_though_others_came_between(agent):
    said = [
        agent.record("flip", {}, "failure", text).allowed for text in ("red", "blue", "red", "red")
    ]
    assert said == [True, True, True, False]


def test_the_limit_can_be_set(played):
    agent = played(repeat_limit=5)
    assert [agent.fail("make").allowed for _ in range(5)] == [True] * 4 + [False]


def test_the_limit_can_be_set_for_a_tool(played):
    agent = played(tools={"run_cmd": {"repeat_limit": 2}})
    assert [agent.fail("make").allowed for _ in range(2)] == [True, False]
    assert [agent.act("other", {}, "error", "x y").allowed for _ in range(3)] == [True, True, False]


def test_a_refusal_says_what_happened_and_what_else_to_do(agent):
    for _ in range(3):
        answer = agent.fail("make", "No rule to make target `all`")
    assert "No rule to make target" in answer.message
    for word in ("different action", "complete_subtask", "finish", "replan"):
        assert word in answer.message


def test_a_refused_success_is_called_done(agent):
    for _ in range(3):
        answer = agent.write("a.txt", "x")
    assert "already succeeded" in answer.message


def test_a_loop_is_put_on_record_with_its_evidence(agent):
    for _ in range(3):
        agent.fail("make")
    loops = [e for _, e in agent.take() if e.kind == "loop_detected"]
    assert [(e.loop, e.attempt_count) for e in loops] == [("repetition", 3)]
    assert loops[0].signature == 'run_cmd::{"cmd":"make"}'


def test_where_nothing_is_reported_plain_counts_decide(agent):
    assert [agent.record("go", {"n": 1}).allowed for _ in range(3)] == [True, True, False]


def test_different_actions_without_reports_are_no_loop(agent):
    answers = [agent.record("go", {"n": n}) for n in range(20)]
    assert all(a.allowed and not a.word for a in answers)


def test_a_claimed_change_leads_to_a_world_already_seen(agent):
    answers = [agent.record("sync", {"to": "x"}, output="ok", changed=True) for _ in range(3)]
    assert [a.allowed for a in answers] == [True, True, False]


def test_a_claimed_change_after_a_new_one_leads_on(agent):
    for n in range(10):
        assert agent.record("sync", {"to": "x"}, output="ok", changed=True).allowed
        assert agent.record("edit", {"n": n}, output="ok", changed=True).allowed


def test_an_agent_with_its_own_tools_is_judged_by_its_claims_even_though_the_disk_is_looked_at(
    agent,
):
    allowed = []
    for _ in range(3):
        answer = agent.claim("sync", {"to": "x"}, output="ok", changed=True)
        agent.files["x"] = "done"
        allowed.append(answer.allowed)
    assert allowed == [True, True, False]


def test_a_disk_that_moves_behind_claims_lifts_their_world(agent):
    for _ in range(3):
        answer = agent.claim("sync", {"to": "x"}, output="ok", changed=True)
    assert not answer.allowed
    agent.files["other"] = "by a person"
    assert agent.claim("sync", {"to": "x"}, output="ok", changed=True).allowed


def test_the_first_measure_after_a_claim_is_no_change_of_who_was_measured(agent):
    agent.record("sync", {}, output="ok", changed=True)
    agent.files["x"] = "what sync did"
    agent.record("look", {}, output="fine", world=agent.world)
    assert [a.changed for a in agent.state.subtask.actions] == [True, False]


def test_a_record_that_brings_something_new_is_no_loop(agent):
    for n in range(10):
        assert agent.record("test", {}, "failure", f"{20 - n} failed").allowed


def test_a_refused_record_is_stored_with_its_true_result(agent):
    for _ in range(3):
        answer = agent.record("test", {}, "failure", "1 failed")
    assert (answer.allowed, answer.reason) == (False, "repetition")
    assert [a.result for a in agent.state.subtask.actions] == ["failure"] * 3


@pytest.mark.parametrize("outcomes", [("ok", "ok"), ("no", "no")])
def test_plain_mode_counts_whatever_comes_of_it(played, outcomes):
    agent = played(progress_aware=False)
    for n, text in enumerate(outcomes):
        assert agent.run("make", output=f"{text} {n}", files={"f": str(n)}).allowed
    assert agent.run("make").reason == "repetition"


def test_plain_mode_counts_over_the_whole_goal(played):
    agent = played(["one", "two"], ["three"], progress_aware=False)
    for _ in range(2):
        assert agent.run("make").allowed
        agent.complete()
        agent.advance()
    assert not agent.run("make").allowed
