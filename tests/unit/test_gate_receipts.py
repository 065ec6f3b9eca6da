"""Answers that differ by fresh ids alone, asking again in other forms, and checks that swing."""

import pytest

from clew_shared.record import events as ev
from clew_shared.record.evidence import Evidence
from clew_shared.record.fold import fold
from clew_shared.record.snapshot import dump


def sent(agent, n, **more):
    return agent.act("send", {"to": "team", **more}, output=f"sent as {n:x}a3b9c2d{n:x}")


def test_the_third_is_warned_of_and_the_sixth_refused(agent):
    answers = [sent(agent, n) for n in range(7)]
    assert [n for n, a in enumerate(answers, 1) if a.word] == [3]
    assert [n for n, a in enumerate(answers, 1) if not a.allowed] == [6, 7]
    assert (answers[5].reason, answers[6].reason) == ("repetition", "blocked_action")
    assert "fresh id" in answers[5].message


def test_an_id_that_is_used_starts_the_count_again(agent):
    for n in range(20):
        answer = sent(agent, n)
        assert answer.allowed
        assert answer.word == ""
        agent.act("show", {"message": f"{n:x}a3b9c2d{n:x}"}, output=f"text {n}")


def test_an_id_that_comes_again_is_not_fresh(agent):
    answers = []
    for n in range(8):
        answers.append(agent.act("list", {}, output="one open order: 3f2a91c47b"))
        agent.act("show", {"order": "3f2a91c47b", "n": n}, output=f"text {n}")
    assert not all(a.allowed for a in answers)


def test_an_id_that_is_used_lifts_the_block(agent):
    for n in range(6):
        sent(agent, n)
    assert not sent(agent, 9).allowed
    agent.act("show", {"message": "4a3b9c2d4"}, output="text")
    assert sent(agent, 10).allowed


def test_a_change_of_the_workspace_starts_the_count_again(agent):
    for n in range(20):
        agent.write("a.py", str(n))
        assert sent(agent, n).word == ""


def test_asking_after_a_wait_is_no_repetition(agent):
    for n in range(20):
        assert sent(agent, n).word == ""
        agent.act("wait", {"seconds": 5})


def test_what_is_still_going_on_may_be_asked_for_twice_as_often(agent):
    answers = [agent.act("get", {}, output=f"building ({n:x}f3a91c{n:x})") for n in range(12)]
    assert [n for n, a in enumerate(answers, 1) if a.verdict.intervention] == [6]
    assert [n for n, a in enumerate(answers, 1) if not a.allowed] == [12]


def test_a_restart_changes_no_count(agent):
    for n in range(5):
        assert sent(agent, n).allowed
        agent.restart()
    assert not sent(agent, 5).allowed


def test_an_agent_that_reports_what_it_did_is_judged_the_same(agent):
    answers = [
        agent.record("send", {"to": "x"}, output=f"sent as {n}f3a9c27b{n}") for n in range(6)
    ]
    assert [a.allowed for a in answers] == [True] * 5 + [False]


def test_a_person_that_lifts_the_block_lets_it_begin_again(agent):
    for n in range(6):
        sent(agent, n)
    (signature,) = agent.state.scope.blocks
    agent.core.emit(ev.Unblocked(signature=signature))
    assert [sent(agent, n).allowed for n in range(10, 15)] == [True] * 5


def test_old_events_without_evidence_are_judged_as_before(agent):
    for n in range(5):
        sent(agent, n)
    old = [
        (seq, e.model_copy(update={"evidence": Evidence()}) if e.kind == "action_finished" else e)
        for seq, e in agent.take()
    ]
    agent.core.state = fold(old)
    assert agent.state.scope.receipts == {}
    assert sent(agent, 20).allowed


def test_the_state_with_evidence_is_the_fold_of_the_record(agent):
    for n in range(4):
        sent(agent, n)
        agent.act("search", {"q": f"{n} rye bread"}, output="a\nb\nc")
        agent.write("a.py", str(n))
        agent.fail("pytest", f"{3 + n % 2} failed")
    assert dump(fold(agent.take())) == dump(agent.state)


# -- asking again ----------------------------------------------------------------------------------


TEXT = "\n".join(f"line {n} of the file" for n in range(30))


def test_larger_limits_without_anything_new_are_warned_of_at_the_third(agent):
    words = [
        agent.act("read_file", {"path": "a", "max_lines": n}, output=TEXT).word
        for n in (50, 100, 200)
    ]
    assert words == ["", "", "repetition"]


def test_a_warning_that_is_ignored_is_a_failure_in_the_end(agent):
    for n in range(12):
        args = {"path": "a", "max_lines": 50 * 2**n}
        assert agent.act("read_file", args, output=TEXT).allowed
    assert agent.state.subtask.attempts == 1


@pytest.mark.parametrize("between", ["edit", "wait"])
def test_a_change_or_a_wait_makes_the_question_worth_asking_again(agent, between):
    for n in range(8):
        args = {"path": "a", "max_lines": 50 * 2**n}
        assert agent.act("read_file", args, output=TEXT).word != "repetition"
        agent.write("b", str(n)) if between == "edit" else agent.act("wait", {"seconds": 5})


def test_a_tool_with_a_limit_of_its_own_is_warned_of_by_it(played):
    agent = played(tools={"ask": {"repeat_limit": 5}})
    orders = ("a b c", "a c b", "b a c", "b c a", "c a b")
    words = [agent.act("ask", {"q": q}, output="nothing").word for q in orders]
    assert words == ["", "", "", "", "repetition"]


# -- checks that swing -----------------------------------------------------------------------------


def after_edit(agent, failed, n):
    agent.write("a.py", f"idea {n}")
    return agent.fail("pytest", f"{failed} failed").word


def test_the_second_round_of_two_readings_is_warned_of(agent):
    assert [after_edit(agent, f, n) for n, f in enumerate((3, 5, 3, 5))] == [
        "",
        "",
        "",
        "no_progress",
    ]


def test_a_new_best_starts_the_count_again(agent):
    assert {after_edit(agent, f, n) for n, f in enumerate((9, 11, 8, 10, 7, 9, 6, 8, 5))} == {""}


def test_a_check_that_is_run_again_without_an_edit_is_no_reading(agent):
    for failed in (3, 5, 3, 5, 3, 5):
        assert agent.fail("pytest", f"{failed} failed").word == ""


def test_a_success_ends_the_series(agent):
    for n in range(12):
        assert after_edit(agent, 3 + n % 2, n) == ""
        agent.write("a.py", f"cure {n}")
        agent.run("pytest", output=f"{n} passed")


def test_the_warning_shows_the_readings(agent):
    for n, failed in enumerate((3, 5, 3, 5)):
        after_edit(agent, failed, n)
    (message,) = [e.message for _, e in agent.take() if e.kind == "intervened"]
    assert "3, 5, 3, 5" in message
