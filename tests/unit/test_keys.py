"""Where LLM keys come from, and what is kept out of the environment."""

import pytest

from clew_daemon.keys import KeyFileError, Keys, read_key, scrubbed
from clew_shared.settings import LlmAgent, RunbookAgent, Settings


def settings(agent):
    return Settings.model_validate({"agents": {"default": "one", "named": {"one": agent}}})


LLM = {"kind": "llm", "model": "m", "api_key_env": "MY_LLM"}


def test_a_key_is_taken_from_the_environment():
    agent = LlmAgent(model="m", api_key_env="MY_LLM")
    assert Keys({"MY_LLM": "k"}).of(agent) == "k"
    assert Keys({"MY_LLM": "k"}).fault(agent) == ""


def test_a_key_that_is_not_there_is_a_fault_that_names_it():
    agent = LlmAgent(model="m", api_key_env="MY_LLM")
    assert "MY_LLM" in Keys({}).fault(agent)


def test_an_agent_without_a_key_needs_none():
    for agent in (LlmAgent(model="m"), RunbookAgent(kind="runbook")):
        assert Keys({}).of(agent) is None
        assert Keys({}).fault(agent) == ""


def test_a_key_file_is_read_without_its_last_newline(tmp_path):
    path = tmp_path / "key"
    path.write_text("secret\n")
    path.chmod(0o600)
    assert read_key(path) == "secret"
    assert Keys({}).of(LlmAgent(model="m", api_key_file=str(path))) == "secret"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644])
def test_a_key_file_that_others_can_read_is_refused_with_what_mends_it(tmp_path, mode):
    path = tmp_path / "key"
    path.write_text("secret")
    path.chmod(mode)
    with pytest.raises(KeyFileError, match="chmod 600"):
        read_key(path)


def test_a_key_file_that_is_not_there_is_a_fault(tmp_path):
    agent = LlmAgent(model="m", api_key_file=str(tmp_path / "none"))
    assert "cannot be read" in Keys({}).fault(agent)


def test_what_looks_like_a_secret_leaves_the_environment_and_the_rest_stays():
    env = {"PATH": "/bin", "MY_LLM": "k", "GH_TOKEN": "t", "AWS_SECRET_ACCESS_KEY": "s",
           "DB_PASSWORD": "p", "SSH_AUTH_SOCK": "/run/x", "HOME": "/h"}  # fmt: skip
    assert set(scrubbed(env, settings(LLM))) == {"PATH", "SSH_AUTH_SOCK", "HOME"}


def test_all_keys_are_known_to_the_log():
    assert Keys({"MY_LLM": "k"}).secrets(settings(LLM)) == ["k"]
