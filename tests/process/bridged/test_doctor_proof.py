"""The doctor proves real coding agents: a goal in a home of its own, against its own endpoint."""

import contextlib
import json
import signal
import subprocess
import tempfile
from pathlib import Path

import installed as agents
import pytest
from harness import alive

from clew_daemon.reading.client import NoDaemon, call
from clew_worker.sandbox import landlock

PROOF_S = 300


def agent_checks(clew):
    done = subprocess.run(
        clew.command("doctor", "--json"),
        stdout=subprocess.PIPE,
        timeout=PROOF_S,
        env=clew.environment(),
        check=True,
    )
    said = done.stdout
    return {
        one["name"]: one for one in json.loads(said)["checks"] if one["name"].startswith("agent")
    }


def prove(clew, cli, program, home):
    home.mkdir()
    clew.env = {"HOME": str(home)}
    clew.configure({"agents.coder.cli": cli, "agents.coder.program": str(program)})
    clew.configure({"sandbox.mode": "enforce"})
    found = agent_checks(clew)
    assert found["agent coder"]["level"] == "ok", found
    assert str(program) in found["agent coder"]["found"]
    assert found["agent coder: proof"]["level"] == "ok", found
    assert "completed a test goal by clew's tools" in found["agent coder: proof"]["found"]
    assert list(home.iterdir()) == []


def test_the_doctor_finds_an_agent_and_proves_that_it_works_through_clew_alone(
    cli, installed, make_clew, tmp_path
):
    prove(make_clew(), cli, installed, tmp_path / "user")


@pytest.mark.long
@pytest.mark.parametrize("scripts", [True, False], ids=["with its scripts", "without scripts"])
@pytest.mark.parametrize("name", ["codex", "claude", "opencode"])
def test_an_agent_is_proved_where_npm_has_installed_it_globally(name, scripts, make_clew, tmp_path):
    with tempfile.TemporaryDirectory(dir=tmp_path) as prefix:  # 400 MB
        program = agents.install_globally(name, Path(prefix), scripts)
        prove(make_clew(), name, program, tmp_path / "user")


STOPS = '#!/bin/sh\n[ "$1" = --version ] && echo 1 && exit\nkill -STOP $$\n'
"""An agent that takes no turn."""


def daemon_in(temporary):
    """The pid of a proof's daemon, None before it answers."""
    for sock in temporary.glob("clew-proof-*/run/control.sock"):
        with contextlib.suppress(NoDaemon):
            return call(sock, "status")["daemon"]["pid"]
    return None


@pytest.mark.skipif(not landlock.abi(), reason="no coding agent is started without Landlock")
def test_a_doctor_that_is_stopped_in_a_proof_leaves_no_daemon_and_no_home(make_clew, tmp_path):
    clew = make_clew()
    program, temporary = tmp_path / "codex", tmp_path / "temporary"
    temporary.mkdir()
    program.write_text(STOPS)
    program.chmod(0o755)
    clew.configure({"agents.coder.cli": "codex", "agents.coder.program": str(program)})
    env = {**clew.environment(), "TMPDIR": str(temporary)}
    with subprocess.Popen(
        clew.command("doctor"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env
    ) as doctor:
        daemon = clew.until(lambda: daemon_in(temporary), "the daemon of the proof")
        doctor.send_signal(signal.SIGTERM)
        doctor.communicate(timeout=PROOF_S)
    assert doctor.returncode == 143
    assert list(temporary.iterdir()) == []
    assert not alive(daemon)
