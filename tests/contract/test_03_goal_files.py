"""Section 3: goal files, the inbox, and what a person is told of a goal."""

import os

STEP = "# Do it\n## Part\n- [ ] step\n  ```sh\n  {}\n  ```\n"
IDLE = "hello()\nnotice('stop')\n"


def done_step(clew, front="", command="true"):
    goal = clew.submit((f"---\n{front}\n---\n" if front else "") + STEP.format(command))
    clew.until(lambda: clew.goal(goal)["status"] in {"completed", "failed", "blocked"})
    return goal


def test_headings_are_tasks_items_subtasks_and_fenced_blocks_actions(clew):
    goal = clew.start().completed(
        "# Make a package\n## Files\n- [ ] one\n  ```text file=a/b.txt\n  hello\n  ```\n"
        "- [x] done before\n## Look\n- [ ] two\n  ```sh\n  cat a/b.txt\n  ```\n"
    )
    tasks = clew.state(goal)["goal"]["tasks"]
    assert [[s["description"] for s in t["subtasks"]] for t in tasks] == [
        ["one", "done before"],
        ["two"],
    ]
    actions = [(a["name"], a["output"].strip()) for a in clew.history(goal)]
    assert actions[0][0] == "write_file"
    assert actions[1] == ("run_cmd", "hello")


def test_done_when_holds_checks(clew):
    goal = clew.start().completed(STEP.format("touch made") + "## Done when\n- `test -f made`\n")
    assert clew.goal(goal)["verified"] is True


def test_checks_decide_whether_a_goal_is_completed(clew):
    clew.start()
    assert clew.goal(done_step(clew, "checks: {made: test -f made}", "touch made"))["verified"]
    failing = done_step(clew, "checks: {made: test -f made}", "touch other")
    assert clew.goal(failing)["status"] == "failed"


def test_a_goal_without_checks_is_unverified_and_the_report_says_so(clew):
    clew.start()
    goal = done_step(clew)
    assert clew.goal(goal)["verified"] is False
    assert "unverified" in clew.report(goal)
    assert "unverified" in clew.cli("status", goal)


def test_a_file_leaves_the_inbox_when_it_is_accepted_and_its_id_is_readable(clew):
    goal = clew.start().submit("# Create the mathx package\n- [ ] it\n  ```sh\n  true\n  ```\n")
    assert goal.startswith("create-")
    assert not (clew.home / "inbox" / "goal.md").exists()


def test_files_that_are_being_written_or_hidden_are_not_taken(clew):
    names = {".goal.md", "goal.md.tmp", "goal.part", "goal.md~"}
    clew.start()
    for name in names:
        clew.drop("# Not this\n", name)
    clew.submit("# Idle\n- [ ] it\n  ```sh\n  true\n  ```\n")
    assert names <= {path.name for path in (clew.home / "inbox").iterdir()}
    assert len(clew.goals()) == 1


def test_files_that_lie_in_the_inbox_at_the_start_are_taken(clew):
    clew.drop(STEP.format("true"))
    clew.start()
    clew.wait("goal.completed")


def test_a_file_open_for_writing_waits(clew):
    clew.start()
    with (clew.home / "inbox" / "late.md").open("w") as file:
        file.write("# Half")
        file.flush()
        clew.submit(STEP.format("true"), "other.md")
        assert len(clew.goals()) == 1
        file.write(" and whole\n- [ ] it\n  ```sh\n  true\n  ```\n")
    assert clew.wait("goal.accepted", file="late.md")["goal"].startswith("half-")


BAD = {
    "not UTF-8": b"# \xff\xfe\n",
    "empty": b"",
    "over 1 MiB": b"# Big\n" + b"x" * (1 << 20),
    "broken front matter": b"---\nname: [\n---\n# X\n",
    "front matter that is not closed": b"---\nname: x\n# X\n",
    "a wrong type": b"---\npriority: high\n---\n# X\n",
    "an unknown agent": b"---\nagent: nobody\n---\n# X\n",
    "done when without a check": b"# X\n- [ ] it\n## Done when\n- it feels right\n",
    "a bad duration": b"---\ntimeout: soon\n---\n# X\n",
}


def test_a_file_that_cannot_be_used_is_rejected_with_the_reason_beside_it(clew):
    clew.start()
    rejected = clew.home / "inbox" / "rejected"
    for what, content in BAD.items():
        clew.drop(content, f"{what}.md")
        clew.wait("goal.rejected", name=f"{what}.md")
        assert (rejected / f"{what}.md").read_bytes() == content
        assert (rejected / f"{what}.md.error.txt").read_text().strip(), what
    named = {entry["name"] for entry in clew.ask("status")["inbox"] if entry["rejected"]}
    assert named == {f"{what}.md" for what in BAD}
    said = clew.cli("status")
    assert [what for what in BAD if f"{what}.md" not in said] == []


def test_all_faults_of_a_file_are_said_at_once_with_their_lines(clew):
    clew.start()
    clew.drop("---\npriority: high\nmax_iterations: 0\n---\n# X\n", "wrong.md")
    clew.wait("goal.rejected", name="wrong.md")
    error = (clew.home / "inbox" / "rejected" / "wrong.md.error.txt").read_text()
    assert "line 2" in error
    assert "line 3" in error


def test_a_workspace_inside_of_clews_own_folders_is_rejected(clew):
    clew.start()
    clew.drop(f"---\nworkspace: {clew.home}/state/x\n---\n# X\n", "inside.md")
    clew.wait("goal.rejected", name="inside.md")


def test_what_will_not_be_taken_is_named_by_status_and_doctor(clew):
    clew.start()
    (clew.home / "inbox" / "notes.docx").write_text("x")
    (clew.home / "inbox" / "folder").mkdir()
    os.mkfifo(clew.home / "inbox" / "pipe.md")
    names = clew.until(
        lambda: len(found := {e["name"] for e in clew.ask("status")["inbox"]}) >= 3 and found
    )
    assert {name.rstrip("/") for name in names} == {"notes.docx", "folder", "pipe.md"}
    assert "notes.docx" in clew.clew("doctor", code=None)


def test_unknown_keys_are_ignored_and_named_with_the_one_that_was_meant(clew):
    goal = clew.start().completed("---\npriorty: 3\nassignee: me\n---\n" + STEP.format("true"))
    report = clew.report(goal)
    assert "priorty" in report
    assert "priority" in report.replace("priorty", "")
    assert "assignee" in report


def test_a_check_that_passes_before_the_work_is_named(clew):
    clew.start()
    goal = done_step(clew, "checks: {quick: 'true'}")
    assert "quick" in clew.report(goal).split("Checks")[1]
    assert "proves nothing" in clew.report(goal) or "already" in clew.report(goal)


def test_a_check_that_can_never_run_blocks_the_goal_before_it_starts(clew):
    clew.start()
    goal = done_step(clew, "checks: {no: no-such-program --all}")
    assert clew.goal(goal)["status"] == "blocked"
    assert "no-such-program" in clew.goal(goal)["reason"]
    assert clew.history(goal) == []


def test_a_check_that_the_goal_itself_is_to_make_is_only_noted(clew):
    clew.start()
    made = "printf '#!/bin/sh\\n' > greet; chmod +x greet"
    assert clew.goal(done_step(clew, "checks: {own: ./greet}", made))["status"] == "completed"


def test_two_goals_never_work_in_a_nested_workspace_at_once(clew):
    clew.agent("idle", IDLE)
    clew.start()
    outer, inner = clew.folder / "ws", clew.folder / "ws" / "inner"
    first = clew.submit(f"---\nagent: idle\nworkspace: {outer}\n---\n# One\n", "1.md")
    clew.wait("worker.ready", goal=first)
    second = clew.submit(f"---\nagent: idle\nworkspace: {inner}\n---\n# Two\n", "2.md")
    clew.until(lambda: clew.goal(second)["waiting"])
    assert clew.goal(second)["status"] == "queued"
    clew.ask("cancel", goal=first)
    clew.wait("worker.ready", goal=second)


def test_another_folder_in_place_of_the_workspace_blocks_the_goal(clew):
    clew.agent("idle", IDLE)
    clew.start()
    place = clew.folder / "ws"
    goal = clew.submit(f"---\nagent: idle\nworkspace: {place}\n---\n# One\n")
    clew.wait("worker.ready", goal=goal)
    clew.stop()
    place.rename(clew.folder / "moved")
    place.mkdir()
    clew.start()
    clew.until(lambda: clew.goal(goal)["status"] == "blocked")
    assert list(place.iterdir()) == []


def test_a_goal_waits_for_those_it_depends_on(clew):
    late = clew.start().submit("---\ndepends_on: [base]\n---\n" + STEP.format("true"), "late.md")
    assert clew.until(lambda: clew.goal(late)["waiting"])["for"]
    clew.submit("---\nname: base\n---\n" + STEP.format("true"), "base.md")
    clew.wait("goal.completed", goal=late)


def test_not_before_is_waited_for(clew):
    goal = clew.start().submit("---\nnot_before: 2999-01-01T00:00:00Z\n---\n" + STEP.format("true"))
    waiting = clew.until(lambda: clew.goal(goal)["waiting"])
    assert waiting["until"].startswith("2999-01-01")


def test_a_failing_step_asks_a_person_and_the_report_has_the_question(clew):
    clew.start()
    goal = done_step(clew, command="echo this-went-wrong; false")
    assert clew.goal(goal)["status"] == "blocked"
    report = clew.report(goal)
    assert "this-went-wrong" in report
    assert f"clew continue {goal}" in report


def test_retries_run_a_failed_step_again(clew):
    clew.start()
    once = "test -e second || { touch second; exit 1; }"
    goal = done_step(clew, "retries: 1", once)
    assert clew.goal(goal)["status"] == "completed"
    assert [a["result"] for a in clew.history(goal)] == ["failure", "success"]


def test_a_block_may_have_its_own_timeout(clew):
    goal = clew.start().submit("# X\n- [ ] it\n  ```sh timeout=1s\n  sleep 60\n  ```\n")
    clew.wait("goal.blocked", goal=goal)
    assert clew.until(lambda: clew.history(goal))[0]["result"] == "timeout"


def test_the_report_has_all_that_the_contract_names(clew):
    clew.start()
    goal = done_step(clew, "checks: {made: test -f made}", "touch made")
    report = clew.report(goal)
    for part in ("status: **completed, proven**", "## Tree", "[x] step", "## Checks", "[x] made", "## Files changed",
                 "## What was tried", "## Time and tokens"):  # fmt: skip
        assert part in report


def test_priority_decides_which_goal_starts_first(clew):
    clew.configure({"daemon.max_workers": 1})
    clew.start()
    first = clew.submit(STEP.format("until [ -e free ]; do sleep 0.05; done"), "first.md")
    goals = [clew.submit(f"---\npriority: {n}\n---\n" + STEP.format("true")) for n in (1, 9)]
    (clew.workspace(first) / "free").touch()
    clew.wait("goal.completed", count=3)
    assert [e["goal"] for e in clew.seen("goal.started")] == [first, *reversed(goals)]


def test_submit_prints_the_workspace_and_whether_it_is_new(clew):
    clew.start()
    workspace = clew.folder / "fresh"
    said = clew.cli("submit", "--workspace", str(workspace), "--check", "true", STEP.format("true"))
    assert str(workspace) in said
    assert "new" in said
