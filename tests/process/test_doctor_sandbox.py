"""What the doctor tries in the real sandbox: the tools of a workspace, and agents that are commands."""

import json
import os
import shutil
import stat
import subprocess
import sys

import pytest
from harness import PLAYER

from clew_worker.sandbox import landlock

pytestmark = pytest.mark.skipif(not landlock.abi(), reason="nothing is hidden without Landlock")

HELLO = "hello()\ncall('finish', success=False, summary='x')\n"


@pytest.fixture
def home(tmp_path):
    folder = tmp_path / "user"
    folder.mkdir()
    return folder


@pytest.fixture
def workspace(tmp_path):
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def clew(make_clew, home):
    clew = make_clew()
    clew.env = {"HOME": str(home), "XDG_CONFIG_HOME": None, "GIT_CONFIG_NOSYSTEM": "1"}
    return clew


def program(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def on_path(clew, *folders):
    clew.env["PATH"] = ":".join([*map(str, folders), "/usr/bin", "/bin"])


def checks(clew, *args, code=0):
    said = clew.clew("doctor", "--json", *map(str, args), code=code)
    return {check["name"]: check for check in json.loads(said)["checks"]}


def listing(folder):
    """Every entry with what would tell that it was written."""
    found = {}
    for at, folders, files in os.walk(folder):
        for name in (*folders, *files):
            info = os.lstat(os.path.join(at, name))  # noqa: PTH118 - text
            found[at, name] = (info.st_size, info.st_mtime_ns, stat.S_IFMT(info.st_mode))
    return found


# ---- workspaces


def test_a_tool_of_the_home_is_reported_with_the_line_that_allows_it(clew, home, workspace):
    poetry = program(home / ".tools" / "versions" / "v9" / "bin" / "poetry", "echo v9.9.9")
    on_path(clew, poetry.parent)
    (workspace / "poetry.lock").write_text("")
    found = checks(clew, "--workspace", workspace, code=1)["poetry"]
    assert found["level"] == "fail"
    assert '[sandbox] read = ["~/.tools"]' in found["mend"]
    clew.configure({"sandbox.read": ["~/.tools"]})
    assert checks(clew, "--workspace", workspace)["poetry"]["found"] == "v9.9.9"


def test_a_tool_that_another_one_takes_the_place_of_is_reported(clew, home, workspace):
    make = program(home / ".tools" / "bin" / "make", "echo mine")
    other = program(workspace.parent / "shared" / "bin" / "make", "echo other")
    clew.configure({"sandbox.read": [str(other.parent)]})
    on_path(clew, make.parent, other.parent)
    found = checks(clew, "--workspace", workspace)["make"]
    assert found["level"] == "warn"
    assert found["found"] == f"other ({other}), and not {make} as in this shell"
    assert f'read = ["{other.parent}", "~/.tools"]' in found["mend"]


def test_a_tool_that_needs_a_variable_is_reported_with_both_lines(clew, home, workspace):
    cargo = program(home / ".cargo" / "bin" / "cargo", 'exec "${RUSTUP_HOME:-$HOME/.rustup}/cargo"')
    program(home / ".rustup" / "cargo", "echo cargo 1.99")
    on_path(clew, cargo.parent)
    (workspace / "Cargo.toml").write_text("")
    found = checks(clew, "--workspace", workspace, code=1)["cargo"]
    assert '[sandbox] read = ["~/.cargo", "~/.rustup"]' in found["mend"]
    assert '[sandbox] env = ["RUSTUP_HOME"]' in found["mend"]
    clew.configure({"sandbox.read": ["~/.cargo", "~/.rustup"], "sandbox.env": ["RUSTUP_HOME"]})
    clew.env["RUSTUP_HOME"] = str(home / ".rustup")
    assert checks(clew, "--workspace", workspace)["cargo"]["found"] == "cargo 1.99"


def test_the_pytest_of_a_virtual_environment_that_leads_elsewhere_is_tried(clew, home, workspace):
    python = program(home / ".pyenv" / "versions" / "3" / "bin" / "python", "echo pytest 9.9: $*")
    venv = workspace / ".venv"
    (venv / "bin").mkdir(parents=True)
    (venv / "bin" / "python").symlink_to(python)
    (venv / "lib" / "python3.11" / "site-packages" / "pytest").mkdir(parents=True)
    found = checks(clew, "--workspace", workspace, code=1)[".venv/bin/python -m pytest"]
    assert found["level"] == "fail"
    assert '[sandbox] read = ["~/.pyenv"]' in found["mend"]


def test_what_no_line_helps_against_is_said_so(clew, home, workspace):
    poetry = program(home / ".tools" / "bin" / "poetry", "echo broken >&2; exit 3")
    on_path(clew, poetry.parent)
    (workspace / "poetry.lock").write_text("")
    found = checks(clew, "--workspace", workspace, code=1)["poetry"]
    assert "no line of [sandbox]" in found["mend"]


@pytest.mark.skipif(not shutil.which("git"), reason="git is not installed")
def test_nothing_is_left_in_the_workspace_nor_in_the_home_of_clew(clew, workspace):
    subprocess.run(["git", "init", "-q"], cwd=workspace, check=True, timeout=60)
    (workspace / "untracked").touch()
    on_path(clew)
    before, own = listing(workspace), listing(clew.home)
    found = checks(clew, "--workspace", workspace)
    assert found["git repository"]["level"] == "ok"
    assert found["git identity"]["level"] == "warn"
    assert listing(workspace) == before
    assert listing(clew.home) == own


def test_the_path_of_the_running_daemon_counts_and_not_that_of_the_shell(clew, home, workspace):
    poetry = program(home / ".tools" / "bin" / "poetry", "echo v9.9.9")
    clew.configure({"sandbox.read": ["~/.tools"]})
    (workspace / "poetry.lock").write_text("")
    clew.env["PATH"] = "/usr/bin:/bin"
    clew.start()
    on_path(clew, poetry.parent)
    found = checks(clew, "--workspace", workspace, code=1)["poetry"]
    assert f"{poetry.parent} on the PATH of the daemon" in found["mend"]


def test_a_workspace_that_no_goal_may_have_is_refused(clew, tmp_path):
    assert "not a directory" in clew.clew("doctor", "--workspace", str(tmp_path / "no"), code=1)
    (clew.home / "state").mkdir(exist_ok=True)
    state = str(clew.home / "state")
    assert "clew's own" in clew.clew("doctor", "--workspace", state, code=1)


# ---- agents


def test_a_command_that_says_hello_is_fine(clew):
    clew.agent("mine", HELLO)
    found = checks(clew)["agent mine"]
    assert (found["level"], "says hello" in found["found"]) == ("ok", True)


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (["no-such-program"], "not found on the PATH"),
        (["/nowhere/agent"], "does not exist"),
        (["/etc"], "is a directory"),
        ([str(PLAYER)], "is not executable"),
        (["/bin/true"], "does not say hello"),
    ],
)
def test_a_command_that_cannot_work_fails_with_the_reason(clew, command, told):
    clew.configure({"agents.mine.kind": "command", "agents.mine.command": command})
    assert told in checks(clew, code=1)["agent mine"]["found"]


def test_a_command_whose_modules_are_hidden_is_reported_with_the_line_that_shows_them(clew, home):
    modules = home / ".agents"
    modules.mkdir()
    (modules / "helper.py").write_text("answer = 42\n")
    clew.agent(
        "mine",
        f"import sys\nsys.path.insert(0, {str(modules)!r})\nopen({str(modules / 'helper.py')!r})\n{HELLO}",
    )
    found = checks(clew, code=1)["agent mine"]
    assert '[sandbox] read = ["~/.agents"]' in found["mend"]
    clew.configure({"sandbox.read": ["~/.agents"]})
    assert checks(clew)["agent mine"]["level"] == "ok"
    assert str(PLAYER) in clew.config["agents.mine"]["command"]
    assert sys.executable in clew.config["agents.mine"]["command"]
