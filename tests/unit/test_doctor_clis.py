"""What the doctor says of coding agents, and of whether the sandbox holds them."""

import json

import pytest

from clew_daemon.cli.commands import doctor
from clew_shared.config.tables import SandboxSettings
from clew_shared.wire.nursery import SandboxReport


def report(abi=7, network_off="netns"):
    known = {"isolation": "pidns", "userns": True, "network_off": network_off}
    return SandboxReport(landlock_abi=abi, **known)


def test_a_coding_agent_is_found_and_asked_for_its_version(tmp_path, monkeypatch, clew):
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(doctor, "probe_sandbox", report)
    program = tmp_path / "codex"
    program.write_text("#!/bin/sh\necho codex-cli 0.1\n")
    program.chmod(0o755)
    (tmp_path / "config.toml").write_text('[agents.coder]\ncli = "codex"\napi_key_env = "HOME"\n')
    _, out, _ = clew("--home", tmp_path, "doctor", "--json")
    checks = json.loads(out)["checks"]
    found = {one["name"]: one for one in checks if one["name"].startswith(("agent", "cod"))}
    assert [(name, one["level"]) for name, one in found.items()] == [
        ("agent coder", "ok"),
        ("agent coder: login", "ok"),
        ("agent coder: sandbox", "ok"),
    ]
    assert found["agent coder"]["found"] == f"codex-cli 0.1 ({program})"


@pytest.mark.parametrize(
    ("table", "probed", "level"),
    [
        ({}, report(), "ok"),
        ({}, report(3), "warn"),
        ({}, report(0), "fail"),
        ({}, None, "warn"),
        ({"mode": "best_effort"}, report(0), "warn"),
        ({"mode": "off"}, report(), "warn"),
        ({"network": False}, report(7, "none"), "fail"),
    ],
)
def test_whether_the_sandbox_holds_follows_from_the_mode_and_the_kernel(table, probed, level):
    assert doctor.confined("agent", SandboxSettings(**table), probed).level == level
