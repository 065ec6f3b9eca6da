"""The goal of the proof: it is completed by clew's tools alone, and the agent's own tools are tried on the way."""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from clew_daemon.cli.commands.doctor.findings import in_one_line
from clew_daemon.cli.commands.doctor.proof.endpoint import ModelEndpoint
from clew_daemon.cli.commands.doctor.proof.wires import SERVER, ModelCall
from clew_daemon.reading.errors import CliError
from clew_daemon.reading.instance import Instance

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from clew_daemon.cli.commands.doctor.proof.wires import ModelMove, ModelRequest
    from clew_shared.config.agent_tables import CliAgentSettings
    from clew_shared.config.tables import SandboxSettings
    from clew_shared.record.state import State

PROOF_S = 120.0
ACCEPT_S = 20.0
POLL_S = 0.1
MADE, ESCAPED = "made.txt", "escaped.txt"
MODEL = "clew-doctor"
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
model = {model}
base_url = {base_url}
api_key_file = {key}
args = {args}
"""
_GOAL = f"""\
---
agent: proof
checks:
  made: test "$(cat {MADE})" = "by clew"
---
# Prove that the agent works through clew
## Prove it
- [ ] Write {MADE}
"""


@dataclass(frozen=True, slots=True)
class Proof:
    """The end of a proof: a sentence on what was seen, and whether it is what clew promises."""

    ok: bool
    found: str


def prove(
    agent: CliAgentSettings, program: Path, sandbox: SandboxSettings, env: Mapping[str, str]
) -> Proof:
    """Let a coding agent do the goal in a home of its own; `env` is the daemon's whole environment but for HOME.

    Raises CliError where the daemon does not start or accept the goal.
    """
    from clew_daemon.cli.own_daemon import unwinding_on_sigterm

    with unwinding_on_sigterm():
        home = Path(tempfile.mkdtemp(prefix="clew-proof-"))
        try:
            return _proved(home, agent, program, sandbox, env)
        finally:
            shutil.rmtree(home, ignore_errors=True)


def _proved(
    home: Path,
    agent: CliAgentSettings,
    program: Path,
    sandbox: SandboxSettings,
    env: Mapping[str, str],
) -> Proof:
    workspace = home / "workspace"
    workspace.mkdir()
    with ModelEndpoint(moves(agent.cli, workspace / ESCAPED)) as endpoint:
        furnish(home, agent, program, sandbox, endpoint.url)
        instance = Instance(home, {"HOME": str(home)})
        state = _ended(instance, {**env, "HOME": str(home)}, workspace)
    return judged(state, endpoint.requests, escaped=(workspace / ESCAPED).exists())


def moves(cli: str, marker: Path) -> tuple[ModelMove, ...]:
    """Return what the model does: it tries the agent's own tools on `marker`, then does the goal by clew's."""
    command = f"echo escaped > {marker}"
    own = {
        "codex": (ModelCall("exec_command", {"cmd": command}),),
        "claude": (
            ModelCall("Bash", {"command": command, "description": "write"}),
            ModelCall("Write", {"file_path": str(marker), "content": "escaped"}),
        ),
        "opencode": (
            ModelCall("bash", {"command": command, "description": "write"}),
            ModelCall("write", {"filePath": str(marker), "content": "escaped"}),
        ),
    }
    done = ModelCall("clew_done", {"success": True, "summary": "it is written"})
    return (*own[cli], ModelCall("clew_run", {"cmd": f"printf 'by clew' > {MADE}"}), done)


def furnish(
    home: Path, agent: CliAgentSettings, program: Path, sandbox: SandboxSettings, url: str
) -> None:
    """Write the config of the proof: the agent as it is configured, but with this endpoint and without its logins."""
    key = home / "endpoint.key"
    key.touch(mode=0o600)
    key.write_text(KEY)
    base_url = url if agent.cli == "claude" else f"{url}/v1"  # Claude Code adds /v1 itself
    values = {
        "mode": sandbox.mode,
        "read": sandbox.read,
        "cli": agent.cli,
        "program": str(program),
        "model": MODEL,
        "base_url": base_url,
        "key": str(key),
        "args": agent.args,
    }
    text = _CONFIG.format(**{name: _toml(value) for name, value in values.items()})
    (home / "config.toml").write_text(text, encoding="utf-8")


def _toml(value: str | tuple[str, ...]) -> str:
    return json.dumps(value, ensure_ascii=False)


def _ended(instance: Instance, env: Mapping[str, str], workspace: Path) -> State:
    """Run a daemon with the goal until it has ended, is blocked or takes too long; return its last state."""
    from clew_daemon.cli.commands.submit.inbox import Submission, await_decisions, drop_all
    from clew_daemon.cli.own_daemon import own_daemon
    from clew_daemon.reading.queries import goal_state

    text = _GOAL.replace("---\n", f"---\nworkspace: {_toml(str(workspace))}\n", 1)
    with own_daemon(instance, env):
        (path,) = drop_all(instance.places.inbox, [("proof.md", text.encode())])
        submission = Submission(path)
        await_decisions(instance, [submission], set(), ACCEPT_S)
        if submission.goal is None:
            raise CliError(submission.error or f"no goal was accepted within {ACCEPT_S:g} s")
        deadline = time.monotonic() + PROOF_S
        state = goal_state(instance, submission.goal)
        while not _at_rest(state) and time.monotonic() < deadline:
            time.sleep(POLL_S)
            state = goal_state(instance, submission.goal)
        return state


def _at_rest(state: State) -> bool:
    return state.ended or state.goal.status in ("blocked", "waiting")


def judged(state: State, requests: Sequence[ModelRequest], *, escaped: bool) -> Proof:
    """Return what the end of the goal proves; `escaped`: the agent's own tools have written into the workspace."""
    if escaped:
        return Proof(ok=False, found="its own tools wrote into the workspace, past clew")
    if state.goal.status != "completed":
        asked = f" after {len(requests)} requests to its model" if requests else ""
        why = in_one_line(state.reason) or f"no end within {PROOF_S:g} s"
        return Proof(ok=False, found=f"a test goal ended as {state.goal.status}{asked}: {why}")
    found = "completed a test goal by clew's tools; its own were tried, and wrote nothing"
    if offered := own_tools(requests):
        found += f" (it still offers {', '.join(offered)})"
    return Proof(ok=True, found=found)


def own_tools(requests: Sequence[ModelRequest]) -> list[str]:
    """Return the tools that the agent offers its model beside clew's."""
    offered = {tool for request in requests for tool in request.tools}
    return sorted(tool for tool in offered if f"{SERVER}_" not in tool)
