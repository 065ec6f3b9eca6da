"""Where keys and logins come from, which files are refused, and what is kept out of the environment."""

import json

import pytest

from clew_daemon.host.keys import (
    KEY_BYTES_MAX,
    KeyFileError,
    Keys,
    login_copies,
    only_tokens_differ,
    read_key,
    scrubbed,
    write_back,
)
from clew_shared.config.agent_tables import CliAgentSettings, LlmAgentSettings
from clew_shared.config.tables import Settings
from clew_shared.text.redact import redact


def settings(agent):
    return Settings.model_validate({"agents": {"default": "one", "named": {"one": agent}}})


def file_with(path, text="secret\n", mode=0o600):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    path.chmod(mode)
    return path


LLM = {"kind": "llm", "model": "m", "api_key_env": "MY_LLM"}


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o610])
def test_a_key_file_that_others_can_read_or_write_is_refused_with_what_mends_it(tmp_path, mode):
    with pytest.raises(KeyFileError, match=f"chmod 600 {tmp_path}/key"):
        read_key(file_with(tmp_path / "key", mode=mode))


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "is empty"),
        ("  \n", "is empty"),
        ("sk-one\nsk-two\n", "one line"),
        ("sk one", "one line"),
        ("sk-\x1b[2J", "one line"),
        (b"sk-\xff\xfe", "one line"),
        ("k" * (KEY_BYTES_MAX + 1), "over"),
    ],
)
def test_what_is_no_key_is_refused_and_never_quoted(tmp_path, text, word):
    with pytest.raises(KeyFileError, match=word) as told:
        read_key(file_with(tmp_path / "key", text))
    assert "sk-" not in str(told.value)


def test_a_key_that_was_changed_is_taken_anew_and_hidden_at_once(tmp_path):
    path = file_with(tmp_path / "key", "First-key-of-two")
    keys, agent = Keys({}), LlmAgentSettings(model="m", api_key_file=str(path))
    assert keys.of(agent) == "First-key-of-two"
    path.write_text("Second-key-of-2\n")
    assert keys.of(agent) == "Second-key-of-2"
    assert redact("First-key-of-two Second-key-of-2") == "[redacted] [redacted]"


def test_what_looks_like_a_secret_leaves_the_environment_and_the_rest_stays():
    env = {"PATH": "/bin", "MY_LLM": "k", "GH_TOKEN": "t", "AWS_SECRET_ACCESS_KEY": "s",
           "DB_PASSWORD": "p", "SSH_AUTH_SOCK": "/run/x", "HOME": "/h",
           "DATABASE_URL": "postgres://me:s3cret@host/db", "PLAIN_URL": "http://host/"}  # fmt: skip
    left = {"PATH", "SSH_AUTH_SOCK", "HOME", "PLAIN_URL"}
    assert set(scrubbed(env, settings(LLM))) == left


def test_the_login_files_of_a_coding_agent_are_hidden_from_workers(tmp_path):
    (tmp_path / ".codex").mkdir()
    path = file_with(tmp_path / ".codex" / "auth.json")
    keys = Keys({"HOME": str(tmp_path)})
    agent = {"kind": "cli", "cli": "codex", "credentials": ["~/.codex/auth.json"]}
    assert keys.paths(settings(agent)) == [path]
    assert keys.fault(CliAgentSettings(**agent)) == ""


OLD = {"auth_mode": "chatgpt", "tokens": {"access_token": "a1", "account_id": "me"}, "expires": 1}
OLD_TEXT = json.dumps(OLD)


def refreshed(**changes):
    return json.dumps({**OLD, **changes})


NEW_TEXT = refreshed(tokens={"access_token": "a2", "account_id": "me"}, expires=2)


@pytest.fixture
def login(tmp_path):
    path = tmp_path / "auth.json"
    path.write_text(OLD_TEXT)
    path.chmod(0o600)
    return path


def test_a_copy_has_the_place_that_the_file_has_in_the_users_home_and_is_no_one_elses(login):
    assert login_copies([login], {"HOME": str(login.parent)}) == {"auth.json": OLD_TEXT}
    login.chmod(0o644)
    with pytest.raises(KeyFileError, match="chmod 600"):
        login_copies([login], {})


@pytest.mark.parametrize(
    "text",
    [
        OLD_TEXT,
        refreshed(auth_mode="other"),
        refreshed(more=1),
        refreshed(tokens={"access_token": "a2", "account_id": "you"}),
        refreshed(tokens={"access_token": ["a2"], "account_id": "me"}),
        refreshed(
            tokens={"access_token": "", "account_id": "me"}
        ),  # as Claude Code leaves it after a fault
        refreshed(tokens={"access_token": "a" * 20_000, "account_id": "me"}),
        "[]",
        "no JSON",
        "[" * 100_000,
    ],
)
def test_anything_else_is_not(login, text):
    assert not only_tokens_differ(OLD_TEXT, text)
    assert write_back(login, OLD_TEXT, text) != ""
    assert login.read_text() == OLD_TEXT


def test_a_link_is_not_followed(login, tmp_path):
    link = tmp_path / "link.json"
    link.symlink_to(login)
    assert write_back(link, OLD_TEXT, NEW_TEXT) != ""
    assert login.read_text() == OLD_TEXT
    assert link.is_symlink()
