"""What the doctor says of coding agents, where nothing but their programs is there (the proof: a process test)."""

import json
import os
import tomllib

import pytest

from clew_daemon.cli import run
from clew_daemon.cli.commands.doctor import agents, proof
from clew_daemon.cli.commands.doctor.agents import checked_command
from clew_daemon.cli.commands.doctor.model import Call
from clew_daemon.cli.commands.doctor.proof import KEY, calls, furnish
from clew_daemon.reading.errors import CliError
from clew_shared.config.agent_tables import CliAgentSettings, CommandAgentSettings
from clew_shared.config.settings import load
from clew_shared.config.tables import SandboxSettings
from clew_shared.wire.nursery import SandboxReport

PROVED = ""


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
def proofs(monkeypatch):
    """The proofs that were asked for; each ends as the last of `ends`."""
    asked, ends = [], [PROVED]

    def prove(agent, program, *_):
        asked.append((agent.cli, program))
        if isinstance(ends[-1], Exception):
            raise ends[-1]
        return ends[-1]

    monkeypatch.setattr(proof, "fault", prove)
    return asked, ends


@pytest.fixture
def coder(tmp_path, monkeypatch, capsys, kernel, proofs):
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


def test_a_coding_agent_is_found_asked_for_its_version_and_proved(coder, proofs):
    found = coder('api_key_env = "HOME"')
    assert [(name, one["level"]) for name, one in found.items()] == [
        ("agent coder", "ok"),
        ("agent coder: login", "ok"),
        ("agent coder: sandbox", "ok"),
        ("agent coder: proof", "ok"),
    ]
    assert found["agent coder"]["found"] == f"codex-cli 0.1 ({coder.program})"
    assert proofs[0] == [("codex", coder.program)]


def test_a_program_that_does_not_answer_in_time_is_a_fault(coder, monkeypatch):
    monkeypatch.setattr(agents, "VERSION_S", 0.2)
    found = coder(version="exec sleep 60")["agent coder"]
    assert (found["level"], "timed out" in found["found"]) == ("fail", True)


def test_a_program_that_is_not_installed_says_how_to_install_it(coder, proofs):
    found = coder('program = "codex-of-mine"')["agent coder"]
    assert found["level"] == "fail"
    assert "codex-of-mine is not found" in found["found"]
    assert "npm install -g @openai/codex" in found["mend"]
    assert proofs[0] == []


def test_login_files_must_be_there_and_for_this_user_alone(coder, tmp_path):
    keys = f'credentials = ["{tmp_path}/auth.json"]'
    gone = coder(keys)["agent coder: login"]
    assert "No such file" in gone["found"]
    assert "`codex login`" in gone["mend"]
    (tmp_path / "auth.json").write_text("{}")
    (tmp_path / "auth.json").chmod(0o644)
    assert "chmod 600" in coder(keys)["agent coder: login"]["found"]
    (tmp_path / "auth.json").chmod(0o600)
    assert coder(keys)["agent coder: login"]["level"] == "ok"
    (tmp_path / "auth.json").unlink()
    os.mkfifo(tmp_path / "auth.json", 0o600)
    assert "is not a file" in coder(keys)["agent coder: login"]["found"]


@pytest.mark.parametrize(
    ("abi", "mode", "level"),
    [(7, "enforce", "ok"), (3, "enforce", "warn"), (0, "enforce", "fail"), (0, "best_effort", "warn"),
     (7, "off", "warn")],
)  # fmt: skip
def test_whether_it_can_be_confined_follows_from_kernel_and_mode(
    coder, kernel, proofs, abi, mode, level
):
    kernel(abi)
    found = coder(more=f'[sandbox]\nmode = "{mode}"')
    assert found["agent coder: sandbox"]["level"] == level
    assert len(proofs[0]) == (level != "fail")


@pytest.mark.parametrize(
    ("end", "words"),
    [
        ("its own tools wrote", "its own tools wrote"),
        (CliError("the daemon did not start"), "the daemon did not start"),
        (OSError(28, "No space left on device"), "No space left"),
    ],
)
def test_a_failed_proof_fails_and_says_why(coder, proofs, end, words):
    proofs[1].append(end)
    found = coder()["agent coder: proof"]
    assert (found["level"], words in found["found"]) == ("fail", True)


def test_an_agent_that_is_installed_and_not_configured_is_mentioned(coder, tmp_path, capsys):
    coder()
    (tmp_path / "config.toml").unlink()
    run(["--home", str(tmp_path), "doctor", "--json"])
    checks = {one["name"]: one for one in json.loads(capsys.readouterr().out)["checks"]}
    assert checks["codex"]["level"] == "note"
    assert 'cli = "codex"' in checks["codex"]["mend"]
    assert "agent coder" not in checks


# ---- the proof's goal


@pytest.mark.parametrize("cli", ["codex", "claude", "opencode"])
def test_the_model_of_the_proof_tries_the_agents_own_tools_and_then_works_through_clew(
    cli, tmp_path
):
    marker = tmp_path / "escaped.txt"
    *own, run_it, done = calls(cli, marker)
    assert own
    assert all(str(marker) in json.dumps(dict(move.args)) for move in own)
    assert [move.tool for move in (run_it, done)] == ["clew_run", "clew_done"]
    assert all(isinstance(move, Call) for move in own)


def test_the_config_of_the_proof_has_the_agent_without_its_logins_and_key(tmp_path):
    agent = CliAgentSettings(
        cli="codex",
        api_key_env="MY_KEY",
        credentials=["/home/me/auth.json"],
        args=["--flag", 'with "quotes"'],
    )
    sandbox = SandboxSettings(read=["/srv"], env=["TOKEN"])
    furnish(tmp_path, agent, tmp_path / "codex", sandbox, "http://127.0.0.1:9")
    text = (tmp_path / "config.toml").read_text()
    found = load(text, {}, "c.toml").settings
    proved = found.agents.get("proof")
    assert (proved.credentials, proved.api_key_env, proved.args) == ((), None, agent.args)
    assert proved.base_url == "http://127.0.0.1:9/v1"
    assert (found.sandbox.read, found.sandbox.env) == (("/srv",), ())
    key = tmp_path / "endpoint.key"
    assert (key.read_text(), key.stat().st_mode & 0o777) == (KEY, 0o600)
    assert tomllib.loads(text)["agents"]["proof"]["api_key_file"] == str(key)


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("no-such-program", "not found on the PATH"),
        ("/nowhere/agent", "does not exist"),
        ("/etc", "is a directory"),
        (__file__, "is not executable"),
        ("/bin/true", "/bin/true"),
    ],
)
def test_a_command_that_cannot_be_started_is_said_with_the_reason(command, told):
    agent = CommandAgentSettings(command=(command,))
    found = checked_command("agent mine", agent, {"PATH": "/usr/bin"})
    assert told in found.found
    assert found.level == ("ok" if command == "/bin/true" else "fail")
