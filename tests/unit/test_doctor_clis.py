"""What the doctor says of coding agents, where nothing but their programs is there."""

import json
import os

import pytest

from clew_daemon.cli import run
from clew_shared.wire.nursery import SandboxReport


def report(abi):
    return SandboxReport(
        landlock_abi=abi,
        scopes=False,
        isolation="guard",
        userns=False,
        network_off="seccomp",
        seccomp=True,
    )


@pytest.fixture
def kernel(monkeypatch):
    def offers(abi):
        monkeypatch.setattr(
            "clew_daemon.cli.commands.doctor.agents.probe_sandbox", lambda: report(abi)
        )

    offers(7)
    return offers


@pytest.fixture
def coder(tmp_path, monkeypatch, capsys, kernel):
    """Calls the doctor for one agent with these keys, and returns its findings by name."""
    for name in list(os.environ):
        if name.startswith("CLEW_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    program = tmp_path / "codex"

    def call(keys="", version="echo codex-cli 0.1", more=""):
        program.write_text(f"#!/bin/sh\n{version}\n")
        program.chmod(0o755)
        (tmp_path / "config.toml").write_text(f'[agents.coder]\ncli = "codex"\n{keys}\n{more}')
        run(["--home", str(tmp_path), "doctor", "--json"])
        checks = json.loads(capsys.readouterr().out)["checks"]
        return {one["name"]: one for one in checks if one["name"].startswith(("agent", "cod"))}

    call.program = program
    return call


def test_a_coding_agent_is_found_asked_for_its_version(coder):
    found = coder('api_key_env = "HOME"')
    assert [(name, one["level"]) for name, one in found.items()] == [
        ("agent coder", "ok"),
        ("agent coder: login", "ok"),
        ("agent coder: sandbox", "ok"),
    ]
    assert found["agent coder"]["found"] == f"codex-cli 0.1 ({coder.program})"
