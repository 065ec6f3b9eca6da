"""A goal's whole life with the real daemon: from the file in the inbox to the report in the outbox."""

import json
import os
import shutil

import pytest
from harness import runbook

HELLO = """\
# Say hello

## Do
- [ ] Write it
  ```text file=hello.txt
  hello
  ```
- [ ] Look at it
  ```sh
  cat hello.txt
  ```
"""


def test_max_iterations_hands_the_goal_to_a_person_and_resume_grants_as_much_again(clew):
    goal = clew.start().submit(
        runbook("echo a > a", "echo b > b", "echo c > c", "echo d > d", max_iterations=2)
    )
    assert "2 iterations" in clew.wait("goal.blocked", goal=goal)["reason"]
    assert (clew.lines(goal, "b"), clew.lines(goal, "c")) == (["b"], [])
    clew.ask("resume", goal=goal)
    clew.wait("goal.completed", goal=goal)
    assert clew.lines(goal, "d") == ["d"]


def test_a_goal_whose_dependency_failed_asks_a_person(clew):
    first = clew.start().submit(f"---\nchecks: {{n: 'false'}}\n---\n{HELLO}", "a.md")
    second = clew.submit(runbook("true", depends_on=f"[{first}]"), "b.md")
    assert first in clew.wait("goal.blocked", goal=second)["reason"]


IN_A_CONTAINER = (
    "-all,+chown,+dac_override,+fsetid,+fowner,+mknod,+net_raw,+setgid,+setuid,+setfcap,+setpcap,"
    "+net_bind_service,+sys_chroot,+kill,+audit_write"
)


@pytest.mark.parametrize("rights", ["-all", IN_A_CONTAINER], ids=["none", "container"])
def test_root_without_all_of_its_rights_can_run_goals(clew, rights):
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("needs root, and setpriv to take rights away")
    clew.start(under=("setpriv", f"--bounding-set={rights}", "--inh-caps=-all"))
    clew.completed(HELLO)


# -- .agent_context


def test_state_json_is_whole_at_every_look_and_true_in_the_end(clew):
    goal = clew.start().submit(runbook(*(f"echo {i} > f{i}" for i in range(8))))
    path = clew.workspace(goal) / ".agent_context" / "state.json"
    looks = 0
    while not clew.seen("goal.completed", goal=goal):
        if path.exists():
            assert json.loads(path.read_text())["goal_id"] == goal
            looks += 1
    clew.stop()
    assert looks
    state = clew.state(goal)
    assert state["version"] == 1
    assert state["goal"]["status"] == "completed"
    assert [s["status"] for s in state["goal"]["tasks"][0]["subtasks"]] == ["completed"] * 8
    assert state["goal"]["tasks"][0]["subtasks"][3]["actions"][0]["name"] == "run_cmd"
    assert (state["blocked_actions"], state["epoch"], state["restarts"]) == ([], 1, 0)


def test_links_and_garbage_in_the_way_of_the_published_files_change_nothing(clew):
    outside = clew.folder / "outside"
    outside.mkdir()
    precious = outside / "state.json"
    precious.write_text("precious")
    there = "mkdir -p .agent_context; cd .agent_context"
    mischief = (
        f"rm -rf .agent_context; ln -s {outside} .agent_context",
        f"rm -rf .agent_context; {there}; ln -s {precious} state.json; ln -s {precious} history.jsonl",
        "rm -rf .agent_context; echo file > .agent_context",
        f"rm -rf .agent_context; {there}; mkdir -p state.json/deep; echo '{{}}' > history.jsonl",
    )
    goal = clew.start().submit(runbook(*mischief, "echo '[1]' > .agent_context/state.json; true"))
    clew.wait("goal.completed", goal=goal)
    assert clew.stop() == 0
    assert precious.read_text() == "precious"
    assert sorted(p.name for p in outside.iterdir()) == ["state.json"]
    assert clew.state(goal)["goal"]["status"] == "completed"
    assert [line["result"] for line in clew.history(goal)] == ["success"] * 5


def test_a_goal_file_with_nearly_a_mebibyte_of_blocks_is_carried_out_across_a_crash(clew):
    items = "".join(
        f"- [ ] Write f{n}\n  ```text file=f{n}.txt\n" + ("  " + "y" * 70 + "\n") * 640 + "  ```\n"
        for n in range(20)
    )
    last = "- [ ] Twice\n" + "".join(
        f"  ```text file={name}.txt\n" + ("  " + name * 70 + "\n") * 200 + "  ```\n"
        for name in "ab"
    )
    wait = "  ```sh\n  until test -e go; do sleep 0.02; done\n  ```\n"
    goal = clew.start().submit(f"---\non_interrupt: retry\n---\n# Big\n## All\n{items}{last}{wait}")
    clew.wait("action.allowed", goal=goal, tool="run_cmd")
    clew.kill_agent(goal)
    clew.wait("worker.ready", goal=goal, epoch=2)
    (clew.workspace(goal) / "go").touch()
    clew.wait("goal.completed", goal=goal)
    written = [a["args"]["path"] for a in clew.history(goal) if a["name"] == "write_file"]
    assert written == [*(f"f{n}.txt" for n in range(20)), "a.txt", "b.txt"]


def test_a_block_too_large_for_a_line_of_the_protocol_is_rejected_with_its_line(clew):
    block = "  ```text file=big.txt\n" + ("  " + "z" * 70 + "\n") * 12_500 + "  ```\n"
    clew.start().drop(f"# One\n## All\n- [ ] Write it\n{block}", "one.md")
    clew.wait("goal.rejected")
    error = (clew.home / "inbox/rejected/one.md.error.txt").read_text()
    assert "line 3" in error
    assert "split it into several items" in error
