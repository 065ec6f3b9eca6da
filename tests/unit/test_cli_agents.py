"""`clew agents`: each agent, and whether the sandbox holds it here."""

import json
import os

import pytest

from clew_daemon.cli import run
from clew_daemon.cli.commands.agents import SandboxHold
from clew_shared.config.tables import SandboxSettings
from clew_shared.wire.nursery import SandboxReport

CONFIG = """
[agents.codex]
cli = "codex"
program = "{program}"
[agents.hand]
command = ["/bin/true"]
own_tools = true
[agents]
default = "codex"
"""


def report(abi=7, network_off="netns"):
    return SandboxReport(
        landlock_abi=abi,
        scopes=abi >= 6,
        isolation="pidns",
        userns=True,
        network_off=network_off,
        seccomp=True,
    )


@pytest.fixture
def clew(tmp_path, monkeypatch, capsys):
    for name in list(os.environ):
        if name.startswith("CLEW_"):
            monkeypatch.delenv(name)
    monkeypatch.setattr("clew_daemon.cli.surroundings.probe_sandbox", report)
    program = tmp_path / "codex"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    (tmp_path / "config.toml").write_text(CONFIG.format(program=program))

    def call(*args):
        code = run(["--home", str(tmp_path), "agents", *args])
        out = capsys.readouterr().out
        assert code == 0
        return out

    return call


@pytest.mark.parametrize(
    ("mode", "abi", "paths", "ports"),
    [
        ("enforce", 7, "enforced", "enforced"),
        ("enforce", 3, "enforced", "advisory"),
        ("best_effort", 0, "advisory", "advisory"),
        ("off", 7, "advisory", "advisory"),
    ],
)
def test_what_holds_follows_from_the_mode_and_the_kernel(mode, abi, paths, ports):
    hold = SandboxHold(SandboxSettings(mode=mode), report(abi))
    assert (hold.paths, hold.ports) == (paths, ports)
    assert SandboxHold(SandboxSettings(), None).paths == "unknown"


def test_a_kernel_that_starts_no_worker_is_said():
    assert "no Landlock" in SandboxHold(SandboxSettings(), report(0)).stops_workers
    table = SandboxSettings(network=False)
    assert "network = false" in SandboxHold(table, report(7, "none")).stops_workers
    assert not SandboxHold(table, report()).stops_workers


def test_each_agent_is_shown_with_its_kind_and_the_built_in_ones_too(clew):
    lines = clew().splitlines()
    assert lines[0] == "sandbox: enforce; files and programs: enforced"
    assert [line.split()[0] for line in lines[1:]] == ["codex", "hand", "runbook"]
    assert lines[1].endswith("works through clew, the default")
    assert "works by itself and reports" in lines[2]


def test_the_json_has_what_each_agent_is(clew):
    found = json.loads(clew("--json"))
    assert (found["default"], set(found["sandbox"])) == (
        "codex",
        {"mode", "paths", "ports", "fault"},
    )
    codex = found["agents"][0]
    assert (codex["kind"], codex["cli"], codex["default"]) == ("cli", "codex", True)
    assert (codex["own_tools"], codex["fault"]) == (False, None)
    assert found["agents"][1]["own_tools"]


def test_an_agent_that_cannot_start_says_why(clew, tmp_path):
    (tmp_path / "codex").unlink()
    assert f"cannot start: {tmp_path}/codex does not exist" in clew()
    (tmp_path / "config.toml").unlink()
    assert "cannot start: " in clew()
