"""The proof of a coding agent: a goal that it does by clew's tools alone, after its own were tried."""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from clew_daemon.cli.commands.doctor.model import Call, ScriptedModel
from clew_daemon.reading.errors import CliError
from clew_daemon.reading.instance import Instance

if TYPE_CHECKING:
    from collections.abc import Mapping

    from clew_shared.config.agent_tables import CliAgentSettings
    from clew_shared.config.tables import SandboxSettings
    from clew_shared.record.state import State

PROOF_S, ACCEPT_S, POLL_S = 120.0, 20.0, 0.1
MADE, ESCAPED = "made.txt", "escaped.txt"
KEY = "clew-doctor-key-0000"
"""What the agent shows to the endpoint: no key of anything, but some want one."""

_CONFIG = """\
[daemon]
settle_s = 0.05
[restart]
max_restarts = 1
[attempts]
limit = 1
[snapshots]
enabled = false
[playbook]
enabled = false
[sandbox]
mode = {mode}
read = {read}
[agents.proof]
kind = "cli"
cli = {cli}
program = {program}
model = "clew-doctor"
base_url = {base_url}
api_key_file = {key}
args = {args}
"""
_GOAL = f"""\
---
agent: proof
workspace: %s
checks:
  made: test "$(cat {MADE})" = "by clew"
---
# Prove that the agent works through clew
## Prove it
- [ ] Write {MADE}
"""


def fault(
    agent: CliAgentSettings, program: Path, sandbox: SandboxSettings, env: Mapping[str, str]
) -> str:
    """Let a coding agent do the goal in a home of its own; return what is wrong with it, "" if nothing is.

    `env` is the daemon's whole environment but for HOME. Raises CliError where no daemon starts or accepts the goal.
    """
    from clew_daemon.cli.own_daemon import unwinding_on_sigterm

    with unwinding_on_sigterm():
        home = Path(tempfile.mkdtemp(prefix="clew-proof-"))
        try:
            workspace = home / "workspace"
            workspace.mkdir()
            with ScriptedModel(calls(agent.cli, workspace / ESCAPED)) as model:
                furnish(home, agent, program, sandbox, model.url)
                state = _ended(Instance(home, {"HOME": str(home)}), {**env, "HOME": str(home)})
            if (workspace / ESCAPED).exists():
                return "its own tools wrote into the workspace, past clew"
        finally:
            shutil.rmtree(home, ignore_errors=True)
    if state.goal.status == "completed":
        return ""
    why = state.reason or f"no end within {PROOF_S:g} s"
    return f"a test goal ended as {state.goal.status}: {why}"


def calls(cli: str, marker: Path) -> list[Call]:
    """Return what the model calls: it tries the agent's own tools on `marker`, then does the goal by clew's."""
    command = f"echo escaped > {marker}"
    own = {
        "codex": [Call("exec_command", {"cmd": command})],
        "claude": [
            Call("Bash", {"command": command, "description": "write"}),
            Call("Write", {"file_path": str(marker), "content": "escaped"}),
        ],
        "opencode": [
            Call("bash", {"command": command, "description": "write"}),
            Call("write", {"filePath": str(marker), "content": "escaped"}),
        ],
    }
    done = Call("clew_done", {"success": True, "summary": "it is written"})
    return [*own[cli], Call("clew_run", {"cmd": f"printf 'by clew' > {MADE}"}), done]


def furnish(
    home: Path, agent: CliAgentSettings, program: Path, sandbox: SandboxSettings, url: str
) -> None:
    """Write the config of the proof: the agent as it is configured, but with this endpoint and without its logins."""
    key = home / "endpoint.key"
    key.touch(mode=0o600)
    key.write_text(KEY)
    values = {
        "mode": sandbox.mode,
        "read": sandbox.read,
        "cli": agent.cli,
        "program": str(program),
        "base_url": url if agent.cli == "claude" else f"{url}/v1",  # Claude Code adds /v1 itself
        "key": str(key),
        "args": agent.args,
    }
    quoted = {name: json.dumps(value, ensure_ascii=False) for name, value in values.items()}
    (home / "config.toml").write_text(_CONFIG.format(**quoted), encoding="utf-8")


def _ended(instance: Instance, env: Mapping[str, str]) -> State:
    """Run a daemon with the goal until it has ended, is blocked or takes too long; return its last state."""
    from clew_daemon.cli.commands.submit.inbox import Submission, await_decisions, drop_all
    from clew_daemon.cli.own_daemon import own_daemon
    from clew_daemon.reading.queries import goal_state

    with own_daemon(instance, env):
        goal = _GOAL % json.dumps(str(instance.places.config.parent / "workspace"))
        [path] = drop_all(instance.places.inbox, [("proof.md", goal.encode())])
        submission = Submission(path)
        await_decisions(instance, [submission], set(), ACCEPT_S)
        if submission.goal is None:
            raise CliError(submission.error or f"no goal was accepted within {ACCEPT_S:g} s")
        deadline = time.monotonic() + PROOF_S
        while True:
            state = goal_state(instance, submission.goal)
            is_at_rest = state.ended or state.goal.status in ("blocked", "waiting")
            if is_at_rest or time.monotonic() > deadline:
                return state
            time.sleep(POLL_S)
