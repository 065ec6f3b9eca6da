"""Traps that a worker leaves in its workspace for who comes after: clew's commands, its tools, its publisher."""

import contextlib
import subprocess
import sys

import pytest

PLANTED = (
    "clew_worker", "clew_daemon", "clew_shared", "pydantic", "json", "psutil", "sitecustomize",
    "usercustomize",
)  # fmt: skip
TRAP = "import pathlib\npathlib.Path({marker!r}).touch()\n"
START = "import os, sys; os.execv(sys.argv[1], [sys.argv[1], '-P', *sys.argv[2:]])"
RACE = """
    hello()
    run("(while :; do ln -sfn {outside} d; rm -f d; mkdir d; rm -rf d; done) >/dev/null 2>&1 &")
    results = [act("write_file", path="d/victim", content=f"attacked {{n}}") for n in range({tries})]
    say(sorted({{one["outcome"]["result"] for one in results if one["verdict"] == "allowed"}}))
    call("finish", success=False, summary="done")
"""
TRIES = 60


@pytest.mark.parametrize("command", [("doctor",), ("status",), ("config",), ("logs",)])
def test_clews_commands_take_no_module_from_the_folder_that_they_are_called_in(tmp_path, command):
    folder = tmp_path / "workspace"
    folder.mkdir()
    for name in PLANTED:
        (folder / f"{name}.py").write_text(TRAP.format(marker=str(tmp_path / f"ran-{name}")))
    program = [
        sys.executable,
        "-P",
        "-m",
        "clew_daemon",
        "--home",
        str(tmp_path / "home"),
        *command,
    ]
    subprocess.run(program, cwd=folder, capture_output=True, timeout=60, check=False)
    assert [path.name for path in tmp_path.glob("ran-*")] == []


@pytest.mark.cold
def test_a_daemon_started_in_a_workspace_takes_no_module_from_it(clew, tmp_path):
    folder = tmp_path / "workspace"
    folder.mkdir()
    for name in PLANTED:
        (folder / f"{name}.py").write_text(TRAP.format(marker=str(tmp_path / f"ran-{name}")))
    with contextlib.chdir(folder):
        clew.start(under=(sys.executable, "-P", "-c", START))
    goal = clew.submit(f"---\nworkspace: {folder}\n---\n# act\n- [ ] act\n  ```sh\n  true\n  ```\n")
    clew.wait("goal.completed", goal=goal)
    assert [path.name for path in tmp_path.glob("ran-*")] == []


@pytest.mark.parametrize("mode", ["best_effort", "off"])
def test_a_folder_that_becomes_a_link_while_a_tool_writes_leads_nowhere(make_clew, tmp_path, mode):
    clew = make_clew({"sandbox.mode": mode})
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "victim").write_text("as it was")
    clew.agent("racing", RACE.format(outside=outside, tries=TRIES))
    goal = clew.start().submit("---\nagent: racing\n---\n# race\n")
    assert {"success", "error"} >= set(clew.said(goal)[0]) != set()
    clew.wait("goal.failed", goal=goal)
    assert (outside / "victim").read_text() == "as it was"
    assert [path.name for path in outside.iterdir()] == ["victim"]
