"""A goal's whole life with the real daemon, also with bad input and agents of other makers."""

import json
import os
import shutil
import sqlite3

import pytest
import yaml
from bad_disk import fill, small
from harness import runbook
from llm_server import ScriptedLlm, calls


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
    first = clew.start().submit(runbook("true", checks="{n: 'false'}"), "a.md")
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
    clew.completed(runbook("echo hello > hello.txt"))


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


def test_a_step_that_names_what_the_sandbox_hides_is_told_apart_from_any_other_failure(clew):
    hidden = clew.start().folder / "log.jsonl"  # the daemon's own
    for command, is_told in ((f"cat {hidden}", True), ("cat $PWD/none /etc/none", False)):
        goal = clew.submit(runbook(command), f"{is_told}.md")
        asked = clew.wait("goal.blocked", goal=goal)["question"]
        assert (f"It cannot use {hidden}: " in asked) == is_told
        [ran] = json.loads(clew.cli("history", goal, "--json"))["actions"]
        shown = clew.cli("show", goal, str(ran["seq"]))
        assert ("perhaps: It cannot use " in shown) == is_told


FINE = runbook("echo x >> trace")


def test_a_workspace_that_cannot_be_made_asks_a_person_and_goes_on_when_it_can(clew):
    blocker = clew.folder / "file"
    blocker.write_text("in the way")
    goal = clew.start().submit(runbook("echo x >> trace", workspace=blocker / "ws"))
    assert "workspace" in clew.wait("goal.blocked", goal=goal)["reason"]
    assert str(blocker) in clew.report(goal)
    blocker.unlink()
    clew.ask("resume", goal=goal)
    clew.wait("goal.completed", goal=goal)
    assert (blocker / "ws" / "trace").read_text() == "x\n"


def test_a_ledger_of_a_newer_version_is_refused_and_left_alone(clew):
    clew.start().completed(FINE)
    assert clew.stop() == 0
    with sqlite3.connect(clew.ledger) as db:
        (version,) = db.execute("PRAGMA user_version").fetchone()
        db.execute(f"PRAGMA user_version = {version + 1}")
    db.close()
    before = clew.ledger.read_bytes()
    said = clew.clew("run", code=78)
    assert "newer" in said
    assert "Traceback" not in said
    assert clew.ledger.read_bytes() == before


def test_a_full_disk_stops_judging_until_there_is_room_and_nothing_unrecorded_is_done(clew):
    clew.configure({"log.file": str(clew.folder / "clew.log"), "heartbeat.timeout_s": 60.0})
    clew.agent(
        "busy",
        """
        hello()
        for i in range(100_000):
            run(f"echo {i} >> trace")
            if Path("enough").exists():
                break
        done(); call("advance"); done()
        """,
    )
    with small(clew.home / "state", "6m") as disk:
        goal = clew.start().submit(by("busy"))
        clew.wait("action.finished", goal=goal, count=3)
        ballast = fill(disk)
        clew.wait("ledger.full")
        clew.until(lambda: "full" in clew.ask("ping")["status"])
        clew.drop(FINE, "late.md")
        since = clew.now()
        assert len(clew.lines(goal, "trace")) <= len(clew.seen("action.allowed", goal=goal))
        assert (clew.home / "inbox" / "late.md").exists()
        ballast.unlink()
        late = clew.wait("goal.accepted", file="late.md", since=since)["goal"]
        clew.wait("goal.completed", goal=late)
        clew.wait("action.finished", goal=goal, since=since)
        (clew.workspace(goal) / "enough").touch()
        clew.wait("goal.completed", goal=goal)
        assert clew.stop() == 0
        assert clew.verified()
    lines = clew.lines(goal, "trace")
    assert lines == sorted(set(lines), key=int)
    recorded = {action["args"].get("cmd") for action in clew.history(goal)}
    assert {f"echo {line} >> trace" for line in lines} <= recorded


GOAL = "# Do it\n\n## A task\n- [ ] First\n- [ ] Second\n"


def by(agent, text=GOAL, front=""):
    return f"---\nagent: {agent}\n{front}---\n{text}"


def test_an_agent_that_changes_files_by_itself_and_says_nothing_may_finish_again_and_again(clew):
    """It was told that nothing had changed between its refused finishes, and its subtask failed."""
    clew.agent(
        "own",
        """
        hello()
        for text in "1234567":
            Path("a.txt").write_text(text)
            answer = call("finish", success=True)
            say([answer["accepted"], answer.get("escalated_to")])
        """,
        own_tools=True,
    )
    goal = clew.start().completed(by("own", front="checks:\n  seven: grep -q 7 a.txt\n"))
    assert clew.said(goal, count=7) == [[False, None]] * 6 + [[True, None]]


# -- a goal that ends without a check says so; its agent may suggest checks, and is asked about


WRITE = calls(("write_file", {"path": "hello.txt", "content": "hello"}))
DONE = calls(("complete_subtask", {"success": True, "summary": "done"}))
LONG = "# Say hello\n" + "Take care of every one of the following.\n" * 10


def goal_file(text="# Say hello\n", **front):
    return f"---\n{yaml.safe_dump({'agent': 'thinker', **front})}---\n{text}"


def plan(*checks, subtasks=("Write it",)):
    named = [{"name": name, "cmd": cmd} for name, cmd in checks]
    return calls(
        ("plan", {"tasks": [{"description": "Files", "subtasks": list(subtasks)}], "checks": named})
    )


def detail(clew, goal):
    return json.loads(clew.clew("status", goal, "--json"))["goal"]


def test_suggested_checks_are_shown_and_decide_nothing(clew):
    script = plan(("there", "test -f hello.txt"), ("fails", "echo no bye; exit 3"))
    with ScriptedLlm(script, WRITE, DONE) as llm:
        clew.model(llm, "thinker")
        goal = clew.start().submit(goal_file(LONG))
        line = clew.wait("goal.completed", goal=goal)
        offered = next(t for t in llm.requests[0]["tools"] if t["function"]["name"] == "plan")
    assert "checks" in offered["function"]["parameters"]["properties"]
    assert line["verified"] is False
    assert [(e["name"], e["cmd"]) for e in clew.seen("check.proposed", goal=goal)] == [
        ("there", "test -f hello.txt"),
        ("fails", "echo no bye; exit 3"),
    ]
    assert [one["name"] for one in detail(clew, goal)["suggested_checks"]] == ["there", "fails"]
    report = clew.report(goal)
    assert "- suggested: `test -f hello.txt`\n- suggested: `echo no bye; exit 3`" in report
    assert clew.verified()


def test_suggested_checks_with_keys_are_left_out_and_never_recorded(clew):
    key = "sk-abcdefghijklmnop1234567890"
    with ScriptedLlm(plan(("k", f"test {key} = x"), ("fine", "true")), WRITE, DONE) as llm:
        clew.model(llm, "thinker")
        goal = clew.start().completed(goal_file(LONG))
    assert [one["name"] for one in clew.seen("check.proposed", goal=goal)] == ["fine"]
    assert key not in clew.log.read_text()
    assert key not in clew.report(goal)


def test_restarts_count_deaths_of_the_worker_and_nothing_else(clew):
    clew.agent("waiting", 'hello()\nsay("here")\nnotice("stop") if epoch < 5 else done()')
    goal = clew.start().submit("---\nagent: waiting\n---\n# Wait\n")

    def begun(count):
        clew.said(goal, count=count)
        return clew.goal(goal)["restarts"]

    assert begun(1) == 0
    clew.clew("pause", goal)
    clew.clew("resume", goal)
    assert begun(2) == 0
    clew.kill_agent(goal)
    assert begun(3) == 1
    clew.kill()
    clew.start()
    assert begun(4) == 1
    clew.clew("cancel", goal)
    clew.clew("retry", goal)
    clew.wait("goal.completed", goal=goal)
    assert (clew.goal(goal)["epoch"], clew.state(goal)["restarts"]) == (5, 1)
    assert "- restarts: 1\n" in clew.report(goal)
