"""Reading who commits: from git's own config, in git's order of precedence, and never more than that."""

import os
import shutil

import pytest

from clew_daemon.host import git

pytestmark = pytest.mark.skipif(not shutil.which("git"), reason="git is not installed")


@pytest.fixture
def env(tmp_path):
    return {"HOME": str(tmp_path), "GIT_CONFIG_NOSYSTEM": "1", "PATH": "/usr/bin:/bin"}


def configured(tmp_path, text):
    (tmp_path / ".gitconfig").write_text(text)


def test_an_include_and_the_authors_own_name_count(env, tmp_path):
    configured(tmp_path, "[include]\npath = more\n[author]\nname = Pen Name\n")
    (tmp_path / "more").write_text("[user]\nname = Ada\nemail = ada@example.com\n")
    assert git.read_identity(env) == {
        "GIT_AUTHOR_NAME": "Pen Name",
        "GIT_AUTHOR_EMAIL": "ada@example.com",
        "GIT_COMMITTER_NAME": "Ada",
        "GIT_COMMITTER_EMAIL": "ada@example.com",
    }


def test_a_broken_config_and_a_git_that_hangs_give_nothing(env, tmp_path, monkeypatch):
    configured(tmp_path, "[user\n")
    assert git.read_identity(env) == {}
    slow = tmp_path / "git"
    slow.write_text("#!/bin/sh\nexec sleep 600\n")
    slow.chmod(0o755)
    monkeypatch.setattr(git, "SYSTEM_GIT", (str(slow),))
    monkeypatch.setattr(git, "DEADLINE_S", 0.2)
    assert git.read_identity(env) == {}


def test_the_top_of_a_linked_working_tree_is_found_and_nothing_else_counts(tmp_path):
    (tmp_path / ".git").write_text("gitdir: /elsewhere\n")
    (tmp_path / "fifo").mkdir()
    os.mkfifo(tmp_path / "fifo/.git")
    assert git.top_folder(tmp_path / "fifo") == tmp_path
