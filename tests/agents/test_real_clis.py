"""The real CLIs do what the pure part of clew believes: an empty HOME, a model on loopback, no account."""

import re
import shutil

import pytest
from installed import NAMES
from scripted_endpoint import Fail
from scripted_wires import Call, Say

from clew_worker.bridge.clis import claude, codex, opencode
from clew_worker.bridge.clis.cli import (
    SERVER,
    TOOLS,
    Fault,
    SessionStarted,
    ToolsOffered,
    TurnEnded,
)

pytestmark = pytest.mark.timeout(900)
clis = pytest.mark.parametrize("name", NAMES)
FALSE = Call("clew_run", {"cmd": "false"})
LONGER_THAN_DEFAULTS_S = 70
"""Codex and the MCP library that opencode uses give up after 60 s unless told otherwise; clew answers within 45 s."""

LIMITS = {
    "codex": (codex, "TOOL_TIMEOUT_S", 5),
    "claude": (claude, "TOOL_TIMEOUT_MS", 5_000),
    "opencode": (opencode, "TIMEOUT_MS", 15_000),  # also the limit of the server's start
}
"""Where clew's time limit for a call is, and a shorter one: it is given up after that, so the setting is in effect."""


def own_names(cli, offered):
    """The tools of a request that are not clew's, and those of clew's that are missing."""
    server = f"{SERVER}_"
    short = {name.rpartition("__")[2] for name in offered}
    short = {name.removeprefix(server) if name.startswith(server * 2) else name for name in short}
    return short - set(TOOLS) - cli.harmless, set(TOOLS) - short


@clis
def test_the_model_is_offered_the_tools_of_clew_and_no_others_that_matter(name, make_cli):
    cli = make_cli(name)
    turn = cli.turn([Say("Hello.")])
    assert own_names(cli.cli, turn.seen[0].tools) == (set(), set())
    assert [e for e in turn.of(ToolsOffered) if set(e.names) != set(TOOLS)] == []
    assert turn.events[-1] == TurnEnded("Hello.")
    assert turn.code == 0


@pytest.mark.long
@clis
def test_a_call_is_given_up_after_the_time_that_clew_sets_and_no_earlier(
    name, make_cli, monkeypatch
):
    module, limit, scaled = LIMITS[name]
    calls = [Call("clew_run", {"cmd": f"sleep {LONGER_THAN_DEFAULTS_S}"}), Say("End.")]
    turn = make_cli(name).turn(calls)
    assert turn.results[0].endswith("exit code 0")
    monkeypatch.setattr(module, limit, scaled)
    turn = make_cli(name, folder="scaled").turn(calls)
    assert re.search(r"tim(ed|e) ?out", turn.results[0], re.IGNORECASE), turn.results
    assert turn.of(TurnEnded) == [TurnEnded("End.")]


@clis
def test_it_resumes_its_session_with_nothing_but_the_folders_that_are_kept(name, make_cli):
    cli = make_cli(name)
    [begun] = cli.turn([FALSE, Say("First.")]).of(SessionStarted)
    old = cli.home.rename(cli.home.with_name("old"))
    for folder in cli.cli.kept:
        shutil.copytree(old / folder, cli.home / folder)
    turn = cli.turn([FALSE, Say("First."), FALSE, Say("Second.")], session=begun.id, prompt="More.")
    assert turn.of(SessionStarted) == [begun]
    assert turn.of(TurnEnded) == [TurnEnded("Second.")]
    assert turn.seen[0].moves == 2


@clis
def test_a_wrong_key_needs_a_login(name, make_cli):
    error = {"type": "authentication_error", "message": "invalid x-api-key"}
    turn = make_cli(name).turn([Fail(401, {"type": "error", "error": error})])
    assert "login" in [fault.kind for fault in turn.of(Fault)]
    assert turn.code != 0


def test_a_limit_of_codex_is_known_for_one(make_cli):
    error = {"type": "usage_limit_reached", "message": "The usage limit has been reached"}
    error |= {"plan_type": "plus", "resets_in_seconds": 7200}
    turn = make_cli("codex").turn([Fail(429, {"error": error | {"resets_at": 4_102_444_800}})])
    assert "limit" in [fault.kind for fault in turn.of(Fault)]


@pytest.mark.parametrize("model", ["gpt-5.5", "gpt-6.1-sol"])
def test_newer_models_of_codex_reach_the_tools_of_clew(model, make_cli):
    script = "text(JSON.stringify(await tools.mcp__clew__clew_run({cmd: 'true'})))"
    calls = [Call("clew_run", {"cmd": "true"})]
    calls += [Call("exec", script)] if model == "gpt-6.1-sol" else []
    turn = make_cli("codex").turn([*calls, Say("End.")], model=model)
    assert len(turn.results) == len(calls)
    assert all("exit code 0" in text for text in turn.results)
