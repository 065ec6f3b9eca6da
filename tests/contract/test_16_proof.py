"""Section 16: done that cannot be faked. A small program with a test, what an agent does to them, and the label."""

import json
import subprocess

import pytest

CHECK = "sh run_tests.sh"
BASE = {"greet.sh": "echo hullo\n", "run_tests.sh": '[ "$(sh greet.sh)" = hello ] && echo ok\n'}
FIX = "echo 'echo hello' > greet.sh"
CHEAT = "echo true > run_tests.sh"
PUT_BACK = "printf '%s\\n' '[ \"$(sh greet.sh)\" = hello ] && echo ok' > run_tests.sh"
ENDS = """
answer = call('finish', success=True, summary='done')
proof = answer.get('proof') or {}
say({'accepted': answer['accepted'], 'keys': sorted(proof), 'label': proof.get('label'), 'files': proof.get('files'),
     'failing': answer.get('failing_checks')})
"""
ASKS = "if not answer['accepted']: call('ask', question='what now?')\n"


@pytest.fixture
def worked(clew, tmp_path):
    """A function that has an agent run commands in a workspace and finish; gives the goal and its answers."""

    def work(
        *acts, front="", config=None, base=BASE, check=CHECK, script="", count=1, own_tools=False
    ):
        folder = tmp_path / "project"
        folder.mkdir(exist_ok=True)
        for name, text in base.items():
            (folder / name).parent.mkdir(exist_ok=True, parents=True)
            (folder / name).write_text(text)
        lines = "".join(f"run({one!r})\n" for one in acts)
        clew.agent("worker", f"hello()\n{lines}{script or ENDS + ASKS}", own_tools=own_tools)
        clew.configure(config or {})
        goal = clew.start().submit(
            f"---\nagent: worker\nworkspace: {folder}\nchecks: {{it: {check!r}}}\n{front}---\n# Greet\n"
        )
        return goal, clew.said(goal, count=count) if count else []

    return work


def label(clew, goal):
    return clew.until(lambda: clew.goal(goal)["proof"], "a proof")["label"]


def ended(clew, goal):
    return clew.wait("goal.completed", goal=goal)


# -- what judges, and the view (1 to 3)


def test_1_a_test_that_was_weakened_judges_and_honest_work_beside_it_does_not(clew, worked):
    goal, (answer,) = worked(CHEAT)
    assert not answer["accepted"]
    assert answer["label"] == "changed_tests"
    assert answer["files"] == ["run_tests.sh"]
    assert label(clew, goal) == "changed_tests"


@pytest.mark.parametrize(
    ("acts", "expected"),
    [
        (["git config --global alias.verify '!true'"], "changed_tools"),
        (
            [
                "mkdir -p a/git",
                "git config -f a/git/config alias.verify '!true'",
                "ln -s $PWD/a ~/.config",
            ],
            "changed_tools",
        ),
        (["mkdir -p bin tests; echo 'print(1)' > tests/test_new.py", FIX], "proven"),
    ],
)
def test_1_config_in_home_judges_and_new_tests_are_welcome(clew, worked, acts, expected):
    check = "git verify" if expected == "changed_tools" else CHECK
    goal, _ = worked(*acts, check=check)
    assert label(clew, goal) == expected


def test_2_the_checks_run_once_before_the_first_action(clew, worked):
    goal, _ = worked(FIX)
    before = clew.wait("check.before", goal=goal)
    assert before["passed"] is False
    assert before["seq"] < clew.wait("action.allowed", goal=goal)["seq"]


@pytest.mark.parametrize("view", ["auto", "copy"])
def test_3_what_a_check_writes_in_the_view_is_thrown_away(clew, worked, tmp_path, view):
    place = f"{tmp_path}/project"
    check = f"echo x >> seen.log; sh {place}/run_tests.sh || env -C{place} sh run_tests.sh"
    cheat = 'echo "true # other" > run_tests.sh'
    _, (answer,) = worked(cheat, check=check, config={"proof.view": view})
    assert answer["label"] == "changed_tests"
    assert (tmp_path / "project/run_tests.sh").read_text() == "true # other\n"
    mounts = subprocess.run(["cat", "/proc/mounts"], capture_output=True, text=True, check=True)
    assert place not in mounts.stdout


# -- labels (4 to 10)

LABELS = {
    "proven": ([FIX], CHECK, BASE),
    "checked": (["echo hello >> note.txt"], CHECK, BASE | {"greet.sh": "echo hello\n"}),
    "own_tests": (["mkdir tests; echo exit 0 > tests/test_it.sh; echo 1 > it.py"], "sh tests/test_it.sh", {"a": "1"}),
    "left_running": (["(while [ -d . ]; do touch alive; sleep 0.05; done) > /dev/null 2>&1 &"],
                     "rm -f alive; sleep 0.4; test -e alive", {"a": "1"}),
    "failing_tests": (["echo \"echo '1 failed, 2 passed in 0.10s'\" > greet.sh"], "sh greet.sh",
                      BASE | {"greet.sh": "exit 1\n"}),
    "fewer_tests": (["echo \"echo '1 passed in 0.10s'\" > greet.sh"], "sh greet.sh",
                    BASE | {"greet.sh": "echo '1 failed, 2 passed in 0.10s'; exit 1\n"}),
    "watches_tests": (["echo 'if \"PYTEST_CURRENT_TEST\" in __import__(\"os\").environ: pass' > calc.py; touch ready"],
                      "test -e ready", BASE),
}  # fmt: skip


@pytest.mark.parametrize("expected", LABELS)
def test_4_from_what_was_seen_follows_one_label(clew, worked, expected):
    acts, check, base = LABELS[expected]
    goal, (answer,) = worked(*acts, check=check, base=base)
    assert label(clew, goal) == expected
    ends = expected in ("proven", "checked", "own_tests")
    assert answer["accepted"] is ends
    made = clew.wait("proof.made", goal=goal)
    assert made["label"] == expected
    if ends:
        assert made["seq"] < ended(clew, goal)["seq"]


def test_4_without_snapshots_from_the_start_the_label_is_unknown_and_the_goal_ends(clew, worked):
    goal, (answer,) = worked(FIX, config={"snapshots.enabled": False})
    assert answer["accepted"]
    assert clew.goal(goal)["proof"]["label"] == "unknown"
    assert "snapshots" in clew.goal(goal)["proof"]["why"]


def test_5_a_server_left_running_that_no_check_needs_ends_proven(clew, worked):
    goal, _ = worked("(sleep 60) > /dev/null 2>&1 &", FIX)
    assert label(clew, goal) == "proven"


def test_6_every_view_that_says_completed_says_the_label(clew, worked):
    goal, _ = worked(FIX)
    ended(clew, goal)
    assert clew.goal(goal)["verified"] is True
    clew.wait("worker.exited", goal=goal)
    assert "completed, proven" in clew.cli("status", goal)
    assert "completed, proven" in clew.cli("status", "--all")
    assert "completed, proven" in clew.report(goal)


def test_7_what_someone_else_changed_before_the_goal_counts_as_they_left_it(clew, worked):
    base = BASE | {"run_tests.sh": "sh greet.sh | grep -q hello\n"}
    goal, _ = worked(FIX, base=base)
    assert label(clew, goal) == "proven"


OTHER_TEST = '[ "$(sh greet.sh)" = "good day" ]\n'
WAITS = """
import pathlib, time
while not pathlib.Path('edited').exists(): time.sleep(0.05)
"""


def test_7_what_someone_else_changes_meanwhile_counts_as_they_left_it(clew, worked, tmp_path):
    script = WAITS + "run('echo \"echo good day\" > greet.sh')\n" + ENDS + ASKS
    goal, _ = worked("true", script=script, count=0)
    clew.wait("action.finished", goal=goal)
    (tmp_path / "project" / "run_tests.sh").write_text(OTHER_TEST)
    (tmp_path / "project" / "edited").touch()
    ended(clew, goal)
    assert label(clew, goal) == "proven"


def test_7_what_the_agent_changes_of_it_afterwards_is_taken_away(clew, worked, tmp_path):
    script = "call('ask', question='which greeting?')\n" + ENDS + ASKS
    goal, _ = worked("true", script=script, count=0)
    clew.wait("goal.blocked", goal=goal)
    (tmp_path / "project" / "run_tests.sh").write_text(OTHER_TEST)
    clew.agent("worker", f"hello()\nrun({CHEAT!r})\n" + ENDS + ASKS)
    clew.cli("feedback", goal, "good day")
    assert clew.said(goal)[-1]["label"] == "changed_tests"
    proof = json.loads(clew.clew("proof", goal, "--json", code=1))
    assert "good day" not in proof["checks"][0]["view"]


def test_7_what_it_has_left_running_is_no_one_else(clew, worked):
    left = "(while [ ! -e go ]; do sleep 0.05; done; echo true > run_tests.sh; touch gone) > /dev/null 2>&1 &"
    script = WAITS.replace("edited", "gone") + ENDS + ASKS
    _goal, (answer,) = worked(left, "touch go", script=script)
    assert answer["label"] == "changed_tests"


@pytest.mark.parametrize("tests", ["may change", "[run_*.sh]"])
def test_8_a_goal_says_which_tests_may_change(clew, worked, tests):
    goal, (answer,) = worked(CHEAT, front=f"tests: {tests}\n")
    assert answer["accepted"]
    ended(clew, goal)
    proof = clew.goal(goal)["proof"]
    assert (proof["label"], proof["accepted"]) == ("changed_tests", "goal")


def test_8_words_on_tests_do_not_cover_what_an_output_says(clew, worked):
    cheat = "echo 'echo === 1 failed, 3 passed in 0.10s ===' > run_tests.sh"
    _goal, (answer,) = worked(cheat, front="tests: may change\n")
    assert (answer["accepted"], answer["label"]) == (False, "failing_tests")


def test_8_tests_that_a_person_lets_change_later_are_accepted(clew, asked, monkeypatch):
    monkeypatch.setenv("VISUAL", "sed -i '2i tests: may change'")
    clew.cli("edit", asked)
    clew.cli("continue", asked)
    assert ended(clew, asked)["proof"] == "changed_tests"
    assert clew.goal(asked)["proof"]["accepted"] == "goal"


def test_8_the_steps_of_a_runbook_end_it_whatever_can_be_proved(clew):
    front = "checks: {it: test -e it}\nsetup: 'false'\n"
    goal = clew.start().submit(
        f"---\n{front}---\n# Do\n\n## One\n\n- [ ] it\n  ```sh\n  touch it\n  ```\n"
    )
    assert ended(clew, goal)["proof"] == "unknown"


def test_9_an_agent_with_its_own_tools_cannot_swap_tests_while_the_checks_run(clew, worked):
    script = """
import pathlib, threading, time
seq = call('propose', tool='edit', args={})['seq']
test = pathlib.Path('run_tests.sh')
old = test.read_text()
test.write_text('touch began; sleep 1\\n')
def swap_back():
    while not pathlib.Path('began').exists(): time.sleep(0.01)
    test.write_text(old)
call('outcome', seq=seq, result='success')
threading.Thread(target=swap_back).start()
"""
    _goal, (answer,) = worked(script=script + ENDS + ASKS, own_tools=True)
    assert answer["label"] == "changed_tests"


def test_9_what_an_agent_with_its_own_tools_has_left_running_is_noticed(clew, worked, tmp_path):
    base = {"run_tests.sh": "[ -e answer ] && rm answer && sleep 0.3 && [ -e answer ]\n"}
    script = """
import subprocess, time
subprocess.run("setsid sh -c 'while true; do touch answer; sleep 0.02; done' > /dev/null 2>&1 &", shell=True)
time.sleep(0.3)
"""
    _goal, (answer,) = worked(base=base, script=script + ENDS + ASKS, own_tools=True)
    assert answer["label"] == "left_running"


def test_9_it_is_the_workspace_that_is_compared_whoever_changed_it(clew, worked):
    script = "import pathlib\npathlib.Path('run_tests.sh').write_text('true\\n')\n" + ENDS + ASKS
    goal, (answer,) = worked(script=script, own_tools=True)
    assert answer["label"] == "changed_tests"
    assert label(clew, goal) == "changed_tests"


def test_10_a_label_on_record_is_not_made_twice_for_the_same_world(clew, worked):
    goal, answers = worked(CHEAT, script=ENDS + ENDS + ASKS, count=2)
    assert [one["label"] for one in answers] == ["changed_tests"] * 2
    clew.wait("goal.blocked", goal=goal)
    assert len(clew.seen("proof.made", goal=goal)) == 1
    assert len(clew.seen("proof.refused", goal=goal)) == 2


def test_10_another_daemon_answers_with_the_label_and_the_diff_on_record(clew, worked):
    script = ENDS.replace("sorted(proof)", "proof.get('diff')")
    script = "import time\n" + script + "if not answer['accepted']: time.sleep(600)\n"
    goal, (first,) = worked(CHEAT, script=script)
    clew.kill()
    clew.start()
    again = clew.said(goal, count=2)[-1]
    assert again == first
    assert "run_tests.sh" in again["keys"]
    assert len(clew.seen("proof.made", goal=goal)) == 1


# -- what the agent hears (11 to 13)


def test_11_a_refused_agent_hears_what_fails_and_can_put_it_back(clew, worked):
    script = ENDS + f"run({PUT_BACK!r})\nrun({FIX!r})\n" + ENDS
    goal, (refused, accepted) = worked(CHEAT, script=script, count=2)
    assert refused["failing"] == []
    assert set(refused["keys"]) >= {"label", "files", "why", "diff"}
    assert accepted["accepted"]
    ended(clew, goal)
    assert clew.goal(goal)["proof"]["label"] == "proven"


def test_12_with_a_reason_a_person_is_asked(clew, worked):
    script = "call('finish', success=True, summary='x', tests_changed='the greeting has changed')\n"
    goal, _ = worked(CHEAT, script=script, count=0)
    blocked = clew.wait("goal.blocked", goal=goal)
    assert "the greeting has changed" in blocked["question"]


def test_13_the_same_label_twice_in_the_same_world_asks_after_the_last_attempt(clew, worked):
    done = "call('complete_subtask', success=True)\n"
    goal, _ = worked(CHEAT, script=2 * (done + ENDS), count=4, front="attempts: 2\n")
    clew.wait("goal.blocked", goal=goal)
    assert clew.goal(goal)["status"] == "blocked"


# -- what a person sees (14 to 17)


@pytest.fixture
def asked(clew, worked):
    """A goal whose proof a person is asked about."""
    script = "call('finish', success=True, summary='x')\n"
    script += "call('finish', success=True, summary='x', tests_changed='it must')\n"
    goal, _ = worked(CHEAT, script=script, count=0)
    clew.wait("goal.blocked", goal=goal)
    clew.wait("worker.exited", goal=goal)
    return goal


def test_14_the_question_names_two_answers_and_accepting_ends_the_goal(clew, asked):
    question = clew.goal(asked)["question"]
    assert f"clew proof {asked} --accept" in question
    assert f"clew feedback {asked}" in question
    assert "it must" in question
    assert "`changed_tests`" in question
    assert "Without the rest of its work the checks pass, too" in question
    assert "completed, only with its own changes" in clew.cli("proof", asked, "--accept", "fine")
    assert ended(clew, asked)["proof"] == "changed_tests"
    assert clew.goal(asked)["proof"]["accepted"] == "person"
    assert clew.wait("proof.accepted", goal=asked)["by"] == "person"


def test_14_an_acceptance_holds_for_the_workspace_as_it_was_shown(clew, asked, tmp_path):
    (tmp_path / "project" / "later").write_text("x")
    said = clew.clew("proof", asked, "--accept", code=1)
    assert "changed since" in said


def test_14_what_cannot_be_proved_can_be_accepted(clew, worked):
    script = "call('finish', success=True, summary='x', tests_changed='it must')\n"
    goal, _ = worked(CHEAT, script=script, count=0, front="setup: 'false'\n")
    clew.wait("worker.exited", goal=goal)
    clew.cli("proof", goal, "--accept")
    assert ended(clew, goal)["proof"] == "unknown"


def test_14_an_acceptance_is_for_the_question_that_is_open(clew, asked):
    clew.agent("worker", "hello()\ncall('ask', question='which colour?')\n")
    clew.cli("feedback", asked, "go on")
    clew.until(lambda: "colour" in (clew.goal(asked)["question"] or ""), "the other question")
    assert "no proof of it is asked about" in clew.clew("proof", asked, "--accept", code=1)


def test_15_clew_proof_shows_each_check_three_times_and_its_exit_code(clew, asked):
    said = clew.clew("proof", asked, code=1)
    for part in ("changes to what tests it", "run_tests.sh", "exit code 1 in", "it must", "+true"):
        assert part in said
    clew.cli("proof", asked, "--accept")
    clew.cli("proof", asked)


def test_15_there_is_no_proof_of_a_goal_without_checks(clew):
    goal = clew.start().submit("# Do\n\n## One\n\n- [ ] step\n  ```sh\n  true\n  ```\n")
    ended(clew, goal)
    assert "no checks" in clew.clew("proof", goal, code=1)
    assert clew.goal(goal)["proof"] is None


def test_16_status_proof_and_history_have_the_shapes_of_the_contract(clew, asked, tmp_path):
    proof = clew.goal(asked)["proof"]
    assert set(proof) == {"label", "files", "why", "accepted", "seconds"}
    shown = json.loads(clew.clew("proof", asked, "--json", code=1))
    assert shown["taken_away"] == [{"path": "run_tests.sh", "kind": "file"}]
    (check,) = shown["checks"]
    assert set(check) == {"name", "before", "finish", "view"}
    assert set(check["view"]) == {"exit_code", "passed", "failed", "skipped", "seconds"}
    assert [check[when]["exit_code"] for when in ("before", "finish", "view")] == [1, 0, 1]
    assert shown["reason"] == "it must"
    assert shown["without_work"] in (None, "pass", "fail")
    line = json.loads(clew.cli("history", asked, "--json"))["actions"][0]
    assert line["judges"] == ["run_tests.sh"]


def test_17_the_log_has_proof_made_and_refused(clew, asked):
    made = clew.wait("proof.made", goal=asked)
    assert {"label", "files", "why", "seconds"} <= set(made)
    assert clew.wait("proof.refused", goal=asked)["label"] == "changed_tests"


# -- what cannot be used (18, 19)


def test_16_what_a_goal_file_names_judges_in_its_history_too(clew, worked):
    act, config = "echo true | tee tool.sh other.sh", {"proof.judges": ["other.sh"]}
    goal, _ = worked(act, front="judges: [tool.sh]\n", config=config)
    clew.wait("action.finished", goal=goal)
    line = json.loads(clew.cli("history", goal, "--json"))["actions"][0]
    assert line["judges"] == ["other.sh", "tool.sh"]


def test_18_a_pattern_that_is_none_rejects_the_goal_file_with_its_line(clew):
    clew.start()
    for number, line in enumerate(("tests: 5", "tests: [/etc/**]", "judges: [../x]")):
        clew.drop(f"---\n{line}\nchecks: {{it: test -e x}}\n---\n# Do\n", f"{number}.md")
        rejected = clew.wait("goal.rejected", name=f"{number}.md")
        assert "line 2" in rejected["error"]
        assert line.partition(":")[0] in rejected["error"]


def test_18_accepting_where_nothing_is_asked_says_in_which_state_the_goal_is(clew, worked):
    goal, _ = worked(FIX)
    ended(clew, goal)
    assert "completed, proven" in clew.clew("proof", goal, "--accept", code=1)


def test_18_an_unknown_mode_is_refused_by_the_config(clew):
    clew.configure({"proof.mode": "perhaps"})
    assert "proof.mode" in clew.clew("run", code=78)


def test_19_a_result_for_just_the_tested_values_is_proven(clew, worked):
    goal, _ = worked("echo 'echo hello # only this' > greet.sh")
    assert label(clew, goal) == "proven"
