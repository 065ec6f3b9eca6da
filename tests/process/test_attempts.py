"""A stuck agent starts over: each way in which an attempt ends, the ladder of the next ones, and the last one's end."""

import re
import subprocess

import pytest
from llm_server import Reply, ScriptedLlm, calls, writes
from tests.process.test_snapshots_taken import start_with_git
from tests.process.test_undo import kitchen, seen  # noqa: F401 - a fixture

WRONG = calls(("write_file", {"path": "answer.txt", "content": "wrong"}))
RIGHT = calls(("write_file", {"path": "answer.txt", "content": "right"}))
FINISH = calls(("finish", {"summary": "done"}))
GIVES_UP = calls(("complete_subtask", {"success": False, "failure": "I cannot do it"}))
LOOK = calls(("run_cmd", {"cmd": "cat answer.txt"}))
STUCK = {"insights": "nothing", "assessment": "stuck"}
HANGS = Reply(hang=True)
FAILS = calls(("run_cmd", {"cmd": "exit 3"}))

TURN_TOKENS = 110
"""What a scripted turn costs."""

_ENDED = re.compile(r"- Attempt (\d+): ")


class LlmOfAttempts(ScriptedLlm):
    """Plays a script for each attempt, which it tells by what the prompt says was tried; then it finishes."""

    def __init__(self, *scripts, then=FINISH, port=0):
        super().__init__(then=then, port=port)
        self.scripts = [list(script) for script in scripts]
        self.attempts = []

    def next_reply(self, body, headers):
        text = "\n".join(m["content"] or "" for m in body["messages"])
        attempt = 1 + max(map(int, _ENDED.findall(text)), default=0)
        self.attempts.append(attempt)
        self.script = self.scripts[attempt - 1] if attempt <= len(self.scripts) else []
        return super().next_reply(body, headers)

    def of(self, attempt):
        """The requests of an attempt."""
        return [r for r, n in zip(self.requests, self.attempts, strict=True) if n == attempt]


def goal_text(*front, agent="thinker", check="grep -q right answer.txt"):
    lines = [f"agent: {agent}", f"checks: {{right: {check!r}}}", *front]
    return "---\n" + "\n".join(lines) + "\n---\n# Write the answer\n"


def begun(clew, llm, *front, check="grep -q right answer.txt", **attempts):
    """Start a goal of the scripted model; its id."""
    clew.model(llm, "thinker")
    clew.configure({f"attempts.{key}": value for key, value in attempts.items()})
    clew.start()
    return clew.submit(goal_text(*front, check=check))


def reasons(clew, goal):
    """Why each attempt but the last one ended."""
    return [line["reason"] for line in clew.seen("attempt.started", goal=goal)]


WAYS = {
    "it said twice that it was done, but these checks fail: right": [WRONG, FINISH, FINISH],
    "it said twice that it was done": [WRONG, *[calls(("complete_subtask", {"summary": "x"}))] * 2],
    "I cannot do it": [WRONG, GIVES_UP],
    "it proposed refused actions again 3 times": [FAILS] * 6,
    "its 3 turns were used up": [WRONG, LOOK, LOOK],
    "it did not react to 2 warnings": [
        calls(("run_cmd", {"cmd": f"echo {n}", "reflect": STUCK})) for n in range(15)
    ],
}


@pytest.mark.parametrize(("reason", "script"), WAYS.items())
def test_whatever_ends_the_first_attempt_the_second_one_can_reach_the_goal(clew, reason, script):
    iterations = 3 if "turns" in reason else 15
    with LlmOfAttempts(script, [RIGHT, FINISH]) as llm:
        goal = begun(clew, llm, iterations=iterations)
        clew.wait("worker.exited", goal=goal, epoch=2)  # the last turn's cost comes after its end
    assert [line[: len(reason)] for line in reasons(clew, goal)] == [reason]
    told = [clew.goal(goal)[key] for key in ("restarts", "epoch", "tokens")]
    assert told == [0, 2, (len(llm.of(1)) + 2) * TURN_TOKENS]  # no question is asked in vain


def test_a_new_attempt_has_an_empty_conversation_and_says_what_was_tried(clew):
    with LlmOfAttempts([WRONG, FINISH, FINISH], [RIGHT, FINISH]) as llm:
        goal = begun(clew, llm)
        clew.wait("goal.completed", goal=goal)
    assert "ttempt" not in llm.prompt(0)
    first = llm.of(2)[0]["messages"]
    assert {m["role"] for m in first} == {"system", "user"}
    text = llm.prompt(llm.attempts.index(2))
    assert "Earlier attempts at this goal have failed" in text
    assert 'Attempt 1: check right failed: "right" was not found in answer.txt' in text
    assert "write_file" not in text.partition("What was tried")[2]
    assert "PROGRESS" not in text
    clew.until(lambda: [line["attempt"] for line in clew.history(goal)] == [1, 2], "its history")
    assert "attempt 1 at 1.1 ended: " in clew.cli("history", goal)


def test_the_ladder_sets_temperature_and_mode_of_each_attempt_and_its_last_rung_repeats(clew):
    gives_up = writes("complete_subtask", success=False, failure="no")
    scripts = [GIVES_UP], [gives_up], [GIVES_UP], [RIGHT, FINISH]
    with LlmOfAttempts(*scripts) as llm:
        clew.model(llm, "thinker", temperature=0.1)
        ladder = [{}, {"temperature": 0.7, "mode": "json"}, {"temperature": 0.9}]
        clew.configure({"attempts.limit": 4, "attempts.ladder": ladder})
        clew.start().completed(goal_text())
    shown = {
        n: (r["temperature"], "tools" in r) for n, r in zip(llm.attempts, llm.requests, strict=True)
    }
    assert shown == {1: (0.1, True), 2: (0.7, False), 3: (0.9, True), 4: (0.9, True)}


def test_a_bigger_model_with_a_key_of_its_own_is_asked_only_when_the_small_one_is_stuck(clew):
    key = clew.folder / "bigger.key"
    key.touch(0o600)
    key.write_text("sk-bigger-0123456789")
    with LlmOfAttempts([GIVES_UP]) as small, LlmOfAttempts([], [RIGHT, FINISH]) as bigger:
        clew.model(small, "thinker")
        clew.model(bigger, "bigger", api_key_file=str(key))
        clew.configure({"attempts.ladder": [{}, {"agent": "bigger"}]})
        clew.start().completed(goal_text())
    assert set(small.attempts) == {1}
    assert {r["model"] for r in bigger.requests} == {"bigger"}
    assert {h["authorization"] for h in bigger.headers} == {"Bearer sk-bigger-0123456789"}
    assert all("bigger" not in h.get("authorization", "") for h in small.headers)
    assert "sk-bigger" not in clew.log.read_text()


def test_the_small_model_is_asked_again_at_the_next_subtask(clew):
    done = calls(("complete_subtask", {"success": True, "summary": "ok"}))
    two = calls(("plan", {"tasks": [{"description": "t", "subtasks": ["first", "second"]}]}))
    with ScriptedLlm(two, GIVES_UP, RIGHT, done) as small, ScriptedLlm(RIGHT, done) as bigger:
        clew.model(small, "thinker")
        clew.model(bigger, "bigger")
        clew.configure({"attempts.ladder": [{}, {"agent": "bigger"}]})
        goal = clew.start().completed(goal_text())
        assert len(bigger.requests) == 2
    started = [e["agent"] for e in clew.seen("worker.started", goal=goal)]
    assert [a == "bigger" for a in started] == [False, True, False]
    assert clew.goal(goal)["restarts"] == 0


def test_a_daemon_killed_in_the_second_attempt_and_a_pause_go_on_in_it(clew):
    with LlmOfAttempts([GIVES_UP], [WRONG, HANGS, HANGS, RIGHT, FINISH]) as llm:
        goal = begun(clew, llm)
        clew.until(lambda: llm.attempts.count(2) == 2, "the question that hangs")
        clew.kill()
        clew.start()
        clew.until(lambda: llm.attempts.count(2) == 3, "the question of the next daemon")
        clew.cli("pause", goal)
        clew.wait("worker.exited", goal=goal, epoch=3)
        clew.cli("feedback", goal, "It is spelled: right")
        clew.cli("resume", goal)
        clew.wait("goal.completed", goal=goal)
    assert len(reasons(clew, goal)) == 1
    assert set(llm.attempts[1:]) == {2}
    assert "A person says: It is spelled: right" in llm.prompt()


def test_a_retried_goal_begins_at_the_first_attempt_again(clew):
    gives_up_all = calls(("finish", {"success": False, "summary": "no way"}))
    with LlmOfAttempts([GIVES_UP, RIGHT, FINISH], [gives_up_all]) as llm:
        goal = begun(clew, llm)
        clew.wait("goal.failed", goal=goal)
        clew.cli("retry", goal)
        clew.wait("goal.completed", goal=goal)
    assert llm.attempts[2:] == [1, 1]


# -- before the next attempt begins, the workspace is put back to where its subtask began; what


GOAL = """\
---
name: tea
workspace: {workspace}
agent: {agent}
attempts: 3
---
# Make tea
- [ ] Boil
- [ ] Steep
"""

MESSY = """
attempt = hello()["attempt"]
say({"attempt": {key: attempt[key] for key in ("n", "reason", "restored", "kept", "left")}})
if attempt["n"] > 1:
    say("started over")
    notice("feedback")
    done()
else:
    run("echo hot > water && rm cup && mkdir -p deep/er && mv spoon deep/er/spoon && chmod 600 recipe")
    say("messy")
    notice("feedback")
    run("echo cold >> water; echo junk > junk")
    call("complete_subtask", success=False, failure="the water is cold")
    notice("stop")
"""


def begin(clew, folder, body=MESSY, git="", **keys):
    """Start a daemon, by default with the system's git, and a goal in a folder."""
    agent = clew.agent("messy", body, **keys)
    start_with_git(clew, git) if git else clew.start()
    return clew.submit(GOAL.format(workspace=folder, agent=agent), "tea.md")


def hears(clew, goal, word):
    clew.until(lambda: word in clew.said(goal), word)


def go_on(clew, goal):
    clew.cli("feedback", goal, "go on")


def second(clew, goal):
    """Return the second attempt as its agent was shown it."""
    hears(clew, goal, "started over")
    shown = [one["attempt"] for one in clew.said(goal) if isinstance(one, dict)]
    assert [one["n"] for one in shown] == [1, 2]
    return shown[1]


def test_what_someone_else_changed_between_two_actions_survives(clew, kitchen):  # noqa: F811
    before = seen(kitchen)
    goal = begin(clew, kitchen)
    hears(clew, goal, "messy")
    (kitchen / "notes").write_text("mine\n")
    (kitchen / "water").write_text("cold, and mine\n")
    mine = seen(kitchen)
    go_on(clew, goal)
    attempt = second(clew, goal)
    after = seen(kitchen)
    assert (attempt["kept"], attempt["left"]) == ("", ["water"])
    assert after.pop(b"water") != before.pop(b"water")
    assert (kitchen / "water").read_text() == "cold, and mine\ncold\n"
    assert after == before | {b"notes": mine[b"notes"]}


def test_the_config_can_have_the_workspace_kept(clew, kitchen):  # noqa: F811
    clew.configure({"attempts.restore": "keep"})
    goal = begin(clew, kitchen)
    hears(clew, goal, "messy")
    go_on(clew, goal)
    attempt = second(clew, goal)
    assert (attempt["restored"], attempt["kept"]) == (0, "the config says so")
    assert (kitchen / "junk").exists()


@pytest.mark.parametrize(
    ("cmd", "why"),
    [
        ("git commit -qam more --allow-empty", "there are new commits"),
        ("git add notes", "other changes are staged in git"),
        ("git checkout -qb another", "another git branch is checked out"),
    ],
)
def test_where_the_repository_has_moved_the_workspace_is_kept(clew, kitchen, cmd, why):  # noqa: F811
    def git(line):
        subprocess.run(["sh", "-c", line], cwd=kitchen, check=True)

    who = "git -c user.name=a -c user.email=a@b.example"
    git(f"git init -q && git add -A && {who} commit -qm first && echo more > notes")
    goal = begin(clew, kitchen)
    hears(clew, goal, "messy")
    git(cmd.replace("git commit", f"{who} commit"))
    go_on(clew, goal)
    assert second(clew, goal)["kept"] == why
    assert (kitchen / "junk").exists()


def test_what_an_agent_changed_by_tools_of_its_own_is_put_back(clew, kitchen):  # noqa: F811
    own = """
    attempt = hello()["attempt"]
    say({"attempt": {key: attempt[key] for key in ("n", "reason", "restored", "kept", "left")}})
    if attempt["n"] == 1:
        seq = call("propose", tool="edit", args={"path": "water"})["seq"]
        Path("water").write_text("hot")
        Path("junk").write_text("junk")
        call("outcome", seq=seq, result="success", output="written")
        call("complete_subtask", success=False, failure="the water is cold")
        notice("stop")
    else:
        say("started over")
        notice("feedback")
    """
    before = seen(kitchen)
    goal = begin(clew, kitchen, own, own_tools=True)
    assert second(clew, goal)["restored"] == 2
    assert seen(kitchen) == before
