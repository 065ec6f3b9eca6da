"""What a person is asked: what was done, what came out, why it stopped, and what they can do."""

from clew_shared.core import questions

MISSING = "Reading.\ncat: answer.txt: No such file or directory"


def test_a_question_says_what_was_tried_what_came_out_why_it_stopped_and_what_to_do(played):
    agent = played(["Find the answer"], ["Write it down"])
    while not agent.state.plan.replan_required:
        agent.fail("cat answer.txt", MISSING)
    lines = questions.stuck(agent.state).text.splitlines()
    cannot = "cat: answer.txt: No such file or directory"
    assert lines == [
        'Working on: 1.1 "Find the answer"',
        f"Tried last: `cat answer.txt`, which failed: {cannot}",
        "Stopped: the agent asked for `cat answer.txt` again 3 times after clew had refused it",
        "You can:",
        '- say what to do differently: `clew feedback goal-1 "…"`',
        "- when you have fixed the cause, continue: `clew continue goal-1`",
        "- end the goal: `clew cancel goal-1`",
    ]
