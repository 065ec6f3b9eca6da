"""The config: defaults, faults with their lines, and files that cannot be read."""

import os
from itertools import pairwise
from pathlib import Path

import pytest
from pydantic import BaseModel

from clew_daemon.config.configfile import BYTES_MAX, ConfigFileError, read
from clew_shared.config.agent_tables import (
    CliAgentSettings,
    CommandAgentSettings,
    LlmAgentSettings,
    RunbookAgentSettings,
)
from clew_shared.config.settings import SettingsError, changes, dotted, flatten, key_lines, load
from clew_shared.config.tables import ContextSettings, ModelProfile, Settings

EXAMPLE = Path(__file__).parents[2] / "config.example.toml"


def settings_of(text, **env):
    return load(text, env, "c.toml").settings


def faults_of(text, **env):
    with pytest.raises(SettingsError) as caught:
        load(text, env, "c.toml")
    return [": ".join(fault) for fault in caught.value.faults]


def uncommented(text):
    lines = text.split("\n")
    return "\n".join(
        line[1:] if line.startswith("#") and not line.startswith("# ") else line for line in lines
    )


def model_keys(model, at=""):
    for name, field in model.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel) and at + name != "agents":
            yield from model_keys(kind, f"{at}{name}.")
        elif at + name not in {"agents", "loops.tools", "context.models"}:
            yield at + name


def test_the_defaults_are_those_of_the_contract():
    flat = flatten(Settings())
    expected = {
        "daemon.max_workers": 4, "daemon.settle_s": 0.5, "daemon.sweep_s": 30, "heartbeat.timeout_s": 10,
        "heartbeat.stall_timeout_s": 600, "restart.backoff_initial_s": 0.1, "restart.max_restarts": 5,
        "limits.memory_mb": 2048, "limits.output_bytes": 65536, "limits.llm_calls": None,
        "sandbox.mode": "enforce", "loops.repeat_limit": 3, "loops.transient_limit": 6, "loops.max_period": 4,
        "context.max_chars": 2000, "context.aggressive_until": 20, "playbook.prune_below": -0.3,
        "ledger.url": "sqlite:///<state>/ledger.db", "ledger.keep_days": 90,
    }  # fmt: skip
    assert {key: flat[key] for key in expected} == expected


def test_the_example_loads_as_the_defaults():
    assert settings_of(EXAMPLE.read_text()) == Settings()


def test_the_example_has_every_key_of_the_model():
    shown = {dotted(location) for location in key_lines(uncommented(EXAMPLE.read_text()))}
    assert set(model_keys(Settings)) <= shown
    shown_of_agents = {key.rsplit(".", 1)[-1] for key in shown if key.startswith("agents.")}
    for kind in (LlmAgentSettings, RunbookAgentSettings, CommandAgentSettings, CliAgentSettings):
        assert set(kind.model_fields) <= shown_of_agents
    assert "agents.default" in shown
    assert "loops.tools.read_file.repeat_limit" in shown
    profile = {f'context.models."qwen2.5-coder*".{key}' for key in ModelProfile.model_fields}
    of_context = {f'context.models."qwen2.5-coder*".{key}' for key in ContextSettings.model_fields}
    assert profile - of_context <= shown


def test_every_key_of_the_example_has_a_line_of_comment():
    lines = EXAMPLE.read_text().split("\n")
    described = ("model =", "base_url =", "mode =", "kind =")
    for before, line in pairwise(lines):
        key = line.lstrip("#")
        if " = " in key and not line.startswith(("# ", " ")) and not key.startswith(described):
            assert before.startswith("# "), line


def test_ten_mistakes_are_all_named_at_once_with_their_lines():
    faults = faults_of(
        "[loops]\n"
        "repeat_limt = 4\n"
        "max_period = 99\n"
        'scope = "x"\n'
        "[lops]\n"
        "[limits]\n"
        "memory_mb = true\n"
        'open_files = "many"\n'
        "[daemon]\n"
        "sweep_s = nan\n"
        "[agents.y]\n"
        'kind = "lm"\n'
        "[agents.z]\n"
        'base_ulr = "x"\n'
        "[context]\n"
        "full_until = 20\n"
        "[log]\n"
        'level = "loud"\n'
    )
    assert [fault.split(": ")[0] for fault in faults] == [
        f"c.toml:{line}" for line in (2, 3, 4, 5, 7, 8, 10, 12, 14, 15, 18)
    ]
    assert "did you mean `repeat_limit`?" in faults[0]
    assert "must be at most 16, not 99" in faults[1]
    assert "did you mean `loops`?" in faults[3]
    assert "must be a whole number, not true" in faults[4]
    assert "one of llm, runbook, command" in faults[7]
    assert "did you mean `base_url`?" in faults[8]
    assert "must be larger than `full_until` (20), not 15" in faults[9]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a = ", "c.toml:1"),
        ("[x]\nq = 1\nq = 2\n", "c.toml:3"),
        ("[x\n", "c.toml:1"),
        ("a = " + "[" * 5000, "c.toml"),
    ],
)
def test_broken_toml_is_one_fault_with_its_line(text, place):
    (fault,) = faults_of(text)
    assert fault.startswith(f"{place}: is not valid TOML")


@pytest.mark.parametrize(
    "text",
    [
        "loops = 5",
        "agents = 5",
        "[agents]\nx = 5",
        "[agents]\ndefault = 5",
        "[loops.tools]\nx = 5",
        "[loops.tools.x]\nrepeat_limit = 1",
        "[loops.tools.x]\nrepeatlimit = 1",
        "[agents.x]\nkind = []",
        "[agents.x]\nkind = 'command'\ncommand = []",
        "[agents.x]\nbase_url = 'localhost'",
        "[agents.x]\napi_key_env = 'A'\napi_key_file = 'b'",
        "[agents.x]\ncli = 'codex'\napi_key_env = 'A'\napi_key_file = 'b'",
        "[agents.x]\ncli = 'gemini'",
        "[agents.x]\nkind = 'cli'",
        "[agents.x]\ncli = 'codex'\nprogram = 'bin/codex'",
        "[agents.x]\ncli = 'codex'\nprogram = ''",
        "[agents.x]\ncli = 'codex'\nbase_url = 'localhost'",
        "[agents.x]\ncli = 'codex'\ncredentials = ['auth.json']",
        "[agents.x]\ncli = 'codex'\nrefresh_credentials = true",
        "[context.models.A]\nrecent_actions = 2\n[context.models.a]\nrecent_actions = 4",
        "[agents.x]\ncli = 'codex'\nargs = [\"\\u0000\"]",
        f"[agents.x]\ncli = 'codex'\nargs = {['a'] * 65}",
        f"[agents.x]\ncli = 'codex'\ncredentials = {['/a'] * 17}",
        "[ledger]\nurl = 'postgres://x'",
        "[sandbox]\nenv = ['A B']",
        "[sandbox]\nread = [1]",
        "[heartbeat]\ntimeout_s = 0.5",
        "[restart]\nbackoff_max_s = 0.01",
        "[limits]\nmemory_mb = 0xfffffffffffffffffffffffffffff.5",
        "[paths]\ninbox = ''",
    ],
)
def test_a_wrong_value_is_a_fault_with_a_line(text):
    (fault,) = faults_of(text)
    assert fault.startswith("c.toml:")


def test_a_variable_is_read_as_the_file_would_have_it_or_as_text():
    found = settings_of(
        "", CLEW_AGENTS__MINE__MODEL='"4"', CLEW_NOTIFY__QUIET="22:00-07:00", CLEW_LOG__BACKUPS="7"
    )
    assert found.agents.named["mine"].model == "4"
    assert (found.notify.quiet, found.log.backups) == ("22:00-07:00", 7)
    (fault,) = faults_of("", CLEW_AGENTS__MINE__BASE_URL="8080")
    assert fault.startswith("env CLEW_AGENTS__MINE__BASE_URL: `agents.mine.base_url` must be")
    assert fault.endswith('quote it: "8080" (the quotes are part of the value)')


def test_a_reload_names_each_changed_key_and_when_it_applies():
    new = settings_of(
        "[loops]\nrepeat_limit = 4\n[daemon]\nmax_workers = 2\nsettle_s = 1.0\n"
        "[limits]\nmemory_mb = 64\n[agents.mine]\ncommand = ['x']\n"
    )
    assert [(c.key, c.old, c.new, c.applies) for c in changes(Settings(), new)] == [
        ("daemon.max_workers", 4, 2, "now"),
        ("daemon.settle_s", 0.5, 1.0, "after a restart"),
        ("limits.memory_mb", 2048, 64, "to new goals"),
        ("loops.repeat_limit", 3, 4, "now"),
        ("agents.default", "default", "mine", "to new goals"),
        ("agents.mine.kind", None, "command", "to new goals"),
        ("agents.mine.command", None, ["x"], "to new goals"),
        ("agents.mine.own_tools", None, False, "to new goals"),
    ]
    assert changes(new, new) == []


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda path: path.mkdir(), "directory"),
        (lambda path: path.symlink_to("nowhere/real.toml"), "is a link to nowhere/real"),
        (os.mkfifo, "not a file"),
        (lambda path: path.symlink_to(path), "symbolic links"),
        (lambda path: path.write_bytes(b"\xff"), "not UTF-8"),
        (lambda path: path.symlink_to("/dev/zero"), "over 1,048,576 bytes"),
        (lambda path: path.write_bytes(b"#" * (BYTES_MAX + 1)), "over 1,048,576 bytes"),
    ],
)
def test_what_cannot_be_read_is_an_error(tmp_path, make, told):
    make(tmp_path / "config.toml")
    with pytest.raises(ConfigFileError, match=told):
        read(tmp_path / "config.toml")
