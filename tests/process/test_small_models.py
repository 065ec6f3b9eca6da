"""What helps small models, under a real daemon: checks at once, and what they say, shown."""

import json

import pytest
from llm_server import ScriptedLlm, calls, says

FINISH = calls(("finish", {"summary": "done"}))
WRITE = {"path": "answer.txt", "content": "right\n"}
RIGHT = calls(("write_file", WRITE))


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
