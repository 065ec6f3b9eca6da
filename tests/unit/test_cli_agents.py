"""`clew agents`: what each agent may do, from the config and what a kernel can enforce."""

import json
import os

import pytest

from clew_daemon.cli import run
from clew_daemon.cli.commands.agents.abilities import SandboxHold, abilities
from clew_shared.config.agent_tables import (
    CliAgentSettings,
    CommandAgentSettings,
    LlmAgentSettings,
    RunbookAgentSettings,
)
from clew_shared.config.tables import SandboxSettings
from clew_shared.wire.nursery import SandboxReport

WIDTH = 80
CONFIG = """
[agents.codex]
cli = "codex"
program = "{program}"
[agents.local]
cli = "opencode"
program = "{program}"
base_url = "http://127.0.0.1:8080/v1"
model = "m"
[agents.mine]
command = ["/bin/true"]
[agents.hand]
command = ["/bin/true"]
own_tools = true
[agents]
default = "codex"
"""
LLM, RUNBOOK = LlmAgentSettings(model="m"), RunbookAgentSettings()
COMMAND = CommandAgentSettings(command=("true",))
OWN = CommandAgentSettings(command=("true",), own_tools=True)
CODEX = CliAgentSettings(cli="codex")


def report(abi=7, network_off="netns"):
    return SandboxReport(
        landlock_abi=abi,
        scopes=abi >= 6,
        isolation="pidns",
        userns=True,
        network_off=network_off,
        seccomp=True,
    )


def held(agent, found, **table):
    hold = SandboxHold(SandboxSettings(**table), found)
    return {key: one.held for key, one in abilities(agent, hold).items()}


@pytest.fixture
def clew(tmp_path, monkeypatch, capsys):
    for name in list(os.environ):
        if name.startswith("CLEW_"):
            monkeypatch.delenv(name)
    program = tmp_path / "codex"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    (tmp_path / "config.toml").write_text(CONFIG.format(program=program))

    def call(*args):
        code = run(["--home", str(tmp_path), "agents", *args])
        said = capsys.readouterr()
        assert code == 0, said.err
        return said.out

    return call


@pytest.mark.parametrize("agent", [LLM, RUNBOOK, COMMAND, CODEX], ids=lambda a: a.kind)
def test_where_landlock_is_all_but_own_tools_are_confined(agent):
    found = held(agent, report())
    assert {found[key] for key in ("refused_actions", "writes_files", "starts_programs")} == {
        "enforced"
    }


def test_an_agent_with_own_tools_keeps_refusals_of_its_own_will_but_writes_only_its_folders():
    found = held(OWN, report())
    assert found["refused_actions"] == "advisory"
    assert found["starts_programs"] == "open"
    assert found["writes_files"] == "enforced"


@pytest.mark.parametrize("agent", [LLM, RUNBOOK, COMMAND, OWN, CODEX], ids=lambda a: a.kind)
def test_without_a_sandbox_nothing_is_enforced(agent):
    assert "enforced" not in held(agent, report(), mode="off").values()
    assert "enforced" not in held(agent, report(0, "none"), mode="best_effort").values()


@pytest.mark.parametrize("agent", [LLM, COMMAND, CODEX], ids=lambda a: a.kind)
def test_where_the_probe_failed_nothing_is_promised(agent):
    assert set(held(agent, None).values()) <= {"unknown", "open"}


@pytest.mark.parametrize(("abi", "network"), [(3, "advisory"), (4, "enforced")])
def test_a_coding_agent_is_held_to_its_port_where_landlock_knows_ports(abi, network):
    found = held(CODEX, report(abi))
    assert (found["network"], found["writes_files"]) == (network, "enforced")


@pytest.mark.parametrize(
    ("base_url", "port"),
    [(None, 443), ("https://x/v1", 443), ("http://x/v1", 80), ("http://[::1]:8080", 8080)],
)
def test_the_port_is_that_of_its_endpoint(base_url, port):
    agent = CliAgentSettings(cli="codex", base_url=base_url, model="m")
    text = abilities(agent, SandboxHold(SandboxSettings(), report()))["network"].text
    assert f"port {port}," in text


def test_keys_are_named_and_never_shown():
    agent = CliAgentSettings(
        cli="codex",
        api_key_env="MY_KEY",
        credentials=["~/.codex/auth.json"],
        refresh_credentials=True,
    )
    text = abilities(agent, SandboxHold(SandboxSettings(), report()))["keys"].text
    assert text == "$MY_KEY, a copy of ~/.codex/auth.json, refreshed logins are written back"


def test_enforce_without_landlock_says_that_no_worker_starts():
    assert "no Landlock" in SandboxHold(SandboxSettings(), report(0)).stops_workers
    assert SandboxHold(SandboxSettings(mode="off"), report(0)).stops_workers == ""
    off = SandboxSettings(network=False)
    assert "network = false" in SandboxHold(off, report(7, "none")).stops_workers


def test_all_agents_are_listed_without_a_daemon_within_80_columns(clew, tmp_path):
    out = clew()
    heads = [
        line for line in out.splitlines() if line and not line.startswith((" ", "(", "sandbox"))
    ]
    assert [head.split()[0] for head in heads] == ["codex", "local", "mine", "hand", "runbook"]
    assert heads[0].endswith("the default")
    assert "TCP only to port 8080" in out
    own = [line for line in out.splitlines() if str(tmp_path) not in line]
    assert [line for line in own if len(line) > WIDTH] == []


def test_the_json_has_what_each_agent_is_and_may_do(clew, tmp_path):
    found = json.loads(clew("--json"))
    assert found["default"] == "codex"
    assert set(found["sandbox"]) == {
        *("mode", "network", "landlock_abi", "isolation", "seccomp", "fault")
    }
    codex = found["agents"][0]
    assert (codex["kind"], codex["cli"], codex["program"]) == ("cli", "codex", f"{tmp_path}/codex")
    assert (codex["default"], codex["built_in"], codex["fault"]) == (True, False, None)
    assert set(codex["may"]) == {
        *("refused_actions", "writes_files", "starts_programs", "network", "keys", "own_tools")
    }
    runbook = found["agents"][-1]
    assert (runbook["name"], runbook["built_in"], runbook["model"]) == ("runbook", True, None)


def test_an_agent_that_cannot_start_says_why(clew, tmp_path):
    (tmp_path / "codex").unlink()
    assert f"cannot start: {tmp_path}/codex does not exist" in clew()
    (tmp_path / "config.toml").unlink()
    assert "cannot start: the built-in agent 'default' has no model" in clew()
