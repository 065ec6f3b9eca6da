"""Git in a goal's workspace: the user's name and email are there, and clew's own files are not untracked ones."""

import shutil
import subprocess

import pytest
from harness import runbook

pytestmark = pytest.mark.skipif(not shutil.which("git"), reason="git is not installed")

COMMIT = ("echo new > new.txt", 'git add new.txt && git commit -q -m "by clew"')


@pytest.fixture
def home(tmp_path):
    folder = tmp_path / "user"
    folder.mkdir()
    return folder


@pytest.fixture
def clew(make_clew, home):
    clew = make_clew()
    unset = ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL")
    clew.env = {
        "HOME": str(home),
        "XDG_CONFIG_HOME": None,
        "GIT_CONFIG_NOSYSTEM": "1",
    } | dict.fromkeys(unset)
    return clew


@pytest.fixture
def repository(tmp_path):
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "-q")
    return folder


def git(folder, *args):
    return subprocess.run(
        ["git", *args], cwd=folder, check=True, capture_output=True, text=True, timeout=60
    ).stdout


def identified(home, name="Ada Example", more=""):
    text = f"[user]\nname = {name}\nemail = ada@example.com\n{more}"
    (home / ".gitconfig").write_text(text)


def test_a_commit_bears_the_users_name_and_the_repository_stays_clean(clew, home, repository):
    """Variables of the daemon go before the config, and no others of git are passed on."""
    identified(home, more="[credential]\nhelper = !touch /nowhere/helped\n")
    clew.start(GIT_AUTHOR_NAME="Someone Else", GIT_SSH_COMMAND="false")
    clew.completed(runbook("env > seen", *COMMIT, workspace=repository))
    said = git(repository, "log", "-1", "--format=%an <%ae> %cn <%ce>")
    assert said == "Someone Else <ada@example.com> Ada Example <ada@example.com>\n"
    assert git(repository, "status", "--porcelain") == "?? seen\n"
    assert "GIT_SSH_COMMAND" not in (repository / "seen").read_text()
    assert (repository / ".agent_context" / ".gitignore").read_text() == "*\n"
