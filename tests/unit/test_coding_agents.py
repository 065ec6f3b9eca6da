"""Coding agents: how they are found and started, and what is read from their event streams (`recorded/agents`)."""

import json
import tomllib
from pathlib import Path

import pytest

from clew_daemon.processes.cell_rules import cli_program, cli_program_fault
from clew_daemon.processes.nursery import SpawnError
from clew_shared.config.agent_tables import CliAgentSettings
from clew_worker.bridge.clis import CLIS
from clew_worker.bridge.clis.cli import (
    NOTHING_USED,
    TOOLS,
    CliOptions,
    Fault,
    SessionStarted,
    ThoughtReported,
    ToolsOffered,
    TurnEnded,
    UsageReported,
)


def program_at(path, mode=0o755):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(mode)
    return path


@pytest.mark.parametrize("named", ["~/bin/next", "{home}/bin/next", "next"])
def test_it_may_have_another_name_and_place(tmp_path, named):
    program = program_at(tmp_path / "bin" / "next")
    agent = CliAgentSettings(cli="codex", program=named.format(home=tmp_path))
    assert cli_program(agent, {"HOME": str(tmp_path), "PATH": str(tmp_path / "bin")}) == program


def test_where_it_is_not_installed_the_fault_names_the_page_that_says_how(tmp_path):
    fault = cli_program_fault(CliAgentSettings(cli="codex"), {"PATH": str(tmp_path)})
    assert fault.startswith("codex is not found on the PATH of the daemon")
    assert "docs/agents/codex.md" in fault


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: None, "does not exist"),
        (lambda path: path.mkdir(), "is a directory"),
        (lambda path: program_at(path, 0o644), "is not executable"),
        (lambda path: path.with_name("c" * 300), "does not exist"),  # as in another user's folder
    ],
    ids=["absent", "folder", "not executable", "out of reach"],
)
def test_a_path_that_is_no_program_is_a_fault_that_says_why(tmp_path, make, words):
    path = tmp_path / "codex"
    path = make(path) or path
    with pytest.raises(SpawnError, match=words):
        cli_program(CliAgentSettings(cli="codex", program=str(path)), {})


RELAY = ("/usr/bin/python3", "-I", "-S", "/lib/clew/relay.py", 'a "quoted"\\ path\n\x7f')
HOME = "/var/lib/clew/home"
KEY = "sk-secret"
URL = "http://127.0.0.1:8080/v1"
LOCAL = CliOptions("/opt/agent", RELAY, HOME, "small:1b", URL, KEY, ("--more", "x"))


def started(cli, options=LOCAL, session=""):
    return CLIS[cli].launch(options, "Do the work.", session)


def toml(options=LOCAL):
    return tomllib.loads(started("codex", options).files[".codex/config.toml"])


def settings(options=LOCAL):
    return json.loads(started("opencode", options).env["OPENCODE_CONFIG_CONTENT"])


@pytest.mark.parametrize("cli", CLIS)
def test_the_program_of_the_config_is_started_with_its_own_arguments(cli):
    launch = started(cli)
    assert launch.argv[0] == "/opt/agent"
    assert "--more x" in " ".join(launch.argv)


@pytest.mark.parametrize("cli", CLIS)
def test_prompt_and_key_are_on_no_command_line_and_the_key_is_in_no_file(cli):
    launch = started(cli)
    assert launch.stdin == "Do the work."
    assert not [arg for arg in launch.argv if "Do the work" in arg or KEY in arg]
    assert not [text for text in launch.files.values() if KEY in text]
    assert KEY not in launch.env.pop("OPENCODE_CONFIG_CONTENT", "")
    assert KEY in launch.env.values()


def test_codex_has_the_relay_as_its_only_server_and_does_not_start_without_it():
    servers = toml()["mcp_servers"]
    assert list(servers) == ["clew"]
    assert (servers["clew"]["command"], *servers["clew"]["args"]) == RELAY
    assert servers["clew"]["required"] is True
    assert servers["clew"]["default_tools_approval_mode"] == "approve"


def test_codex_asks_nothing_writes_nothing_and_has_its_tools_off():
    config = toml()
    assert (config["approval_policy"], config["sandbox_mode"]) == ("never", "read-only")
    assert set(config["features"].values()) == {False}
    assert {"shell_tool", "unified_exec"} <= set(config["features"])
    assert config["agents"]["enabled"] is False
    assert "clew_run" in config["developer_instructions"]


def test_claude_has_no_tools_and_no_settings_but_the_server_of_clew():
    launch = started("claude")
    argv = list(launch.argv)
    assert argv[argv.index("--tools") + 1] == argv[argv.index("--setting-sources") + 1] == ""
    assert "--strict-mcp-config" in argv
    path = argv[argv.index("--mcp-config") + 1].removeprefix(f"{HOME}/")
    servers = json.loads(launch.files[path])["mcpServers"]
    assert list(servers) == ["clew"]
    assert (servers["clew"]["command"], *servers["clew"]["args"]) == RELAY


def test_opencode_allows_the_tools_of_clew_alone():
    config = settings()
    assert config["tools"] == {"*": False, "clew_*": True}
    assert config["permission"] == {"*": "deny", "clew_*": "allow"}
    assert list(config["mcp"]) == ["clew"]
    assert config["mcp"]["clew"]["command"] == list(RELAY)


RECORDED = Path(__file__).parent / "recorded" / "agents"
USED = UsageReported(200, 20, 80, 0.000896)
"""What the first turn of each recorded session had used before it was resumed."""


def read(cli, name, used=NOTHING_USED):
    reader = CLIS[cli](used)
    lines = next(RECORDED.glob(f"{cli}/{name}.*")).read_bytes().splitlines()
    return [event for line in lines for event in reader.feed(line)]


def of(events, kind):
    return [event for event in events if isinstance(event, kind)]


def spent(events):
    reports = of(events, UsageReported)
    cost = sum(report.cost_usd or 0 for report in reports)
    sums = [sum(getattr(r, part) for r in reports) for part in ("input", "output", "cached")]
    return UsageReported(*sums, round(cost, 6))


@pytest.mark.parametrize("cli", CLIS)
def test_a_turn_has_a_session_thoughts_usage_and_an_end(cli):
    events = read(cli, "turn")
    assert isinstance(events[0], SessionStarted)
    assert of(events, ThoughtReported) == [ThoughtReported("It is done.")]
    assert events[-1] == TurnEnded("It is done.")
    cost = 0.001792 if cli == "claude" else 0
    assert spent(events) == UsageReported(400, 40, 160, cost)


@pytest.mark.parametrize("cli", CLIS)
def test_a_resumed_session_reports_its_name_and_what_the_new_turn_used(cli):
    events = read(cli, "resumed", USED)
    assert events[0].id
    assert events[-1] == TurnEnded("Second.")
    cost = 0.000896 if cli == "claude" else 0
    assert spent(events) == UsageReported(200, 20, 80, cost)


FAULTS = {
    ("codex", "wrong-key"): Fault("", "login"),
    ("codex", "no-key"): Fault("", "login"),
    ("codex", "too-many-requests"): Fault("exceeded retry limit"),
    ("codex", "server-error"): Fault("currently experiencing"),
    ("codex", "unknown-model"): Fault("model: m not found", "lasting"),
    ("codex", "no-quota"): Fault("Quota exceeded", "lasting"),
    ("codex", "too-long"): Fault("ran out of room", "session"),
    ("codex", "unknown-session"): Fault("no rollout found", "session"),
    ("codex", "unknown-flag"): Fault("Unknown feature flag", "lasting"),
    ("codex", "no-server"): Fault("failed to initialize", "start"),
    ("codex", "limit-today"): Fault("", "limit"),
    ("codex", "limit-next-week"): Fault("", "limit"),
    ("codex", "limit-without-time"): Fault("", "limit"),
    ("claude", "limit"): Fault("", "limit"),
    ("claude", "wrong-key"): Fault("", "login"),
    ("claude", "no-login"): Fault("", "login"),
    ("claude", "too-many-requests"): Fault("Request rejected (429)"),
    ("claude", "server-error"): Fault("API Error: 500"),
    ("claude", "unknown-model"): Fault("issue with the selected model", "lasting"),
    ("claude", "no-credit"): Fault("Credit balance is too low", "lasting"),
    ("claude", "too-long"): Fault("Prompt is too long", "session"),
    ("claude", "unknown-session"): Fault("No conversation found", "session"),
    ("opencode", "wrong-key"): Fault("", "login"),
    ("opencode", "unknown-model"): Fault("model: m not found", "lasting"),
    ("opencode", "unknown-session"): Fault("Session not found", "session"),
}


@pytest.mark.parametrize(("cli", "name"), FAULTS)
def test_a_fault_is_known_for_what_it_is(cli, name):
    expected = FAULTS[cli, name]
    found = read(cli, name)[-1]
    assert found.kind == expected.kind
    assert expected.message in found.message


def test_a_request_that_claude_repeats_is_no_fault():
    assert read("claude", "server-error-retried")[-1] == TurnEnded("x")


def test_claude_offers_the_tools_of_clew_alone():
    [offered] = of(read("claude", "turn"), ToolsOffered)
    assert set(offered.names) == set(TOOLS)
    assert offered.servers == {"clew": "connected"}
    assert CLIS["claude"].unexpected(offered) == ()


def test_a_tool_that_is_not_clews_is_unexpected_but_for_the_harmless_ones():
    offered = ToolsOffered((*TOOLS, "Bash", "exec"), {})
    assert CLIS["claude"].unexpected(offered) == ("Bash", "exec")
    assert CLIS["codex"].unexpected(offered) == ("Bash",)


def test_claude_without_the_server_of_clew_says_so():
    [offered] = of(read("claude", "no-server"), ToolsOffered)
    assert (offered.names, offered.servers) == ((), {"clew": "failed"})


ODD = [
    b"",
    b"not JSON",
    b"{",
    b"[1, 2]",
    b"null",
    b'{"type": 7}',
    b'{"type": "no.such.event", "item": {}}',
    b'{"type": null, "error": null}',
    b'{"type": "item.completed", "item": "text"}',
    b'{"type": "item.completed", "item": {"type": "agent_message", "text": 5}}',
    b'{"type": "assistant", "message": {"content": [1, null, {"text": {}}], "usage": []}}',
    b'{"type": "system", "subtype": "other", "tools": 5}',
    b'{"type": "text", "part": []}',
    b'{"type": "thread.started", "thread_id": {}}',
    b"\xff\xfe\x00",
    b"[" * 100_000,
    b'{"type": ' * 50_000,
]


@pytest.mark.parametrize("cli", CLIS)
def test_a_line_of_unknown_form_says_nothing(cli):
    assert [line[:80] for line in ODD if CLIS[cli]().feed(line) != ()] == []


@pytest.mark.parametrize("usage", ["null", "[]", '{"input_tokens": -5}', '{"input_tokens": 1e400}'])
def test_odd_counts_of_tokens_are_no_usage(usage):
    line = f'{{"type":"turn.completed","usage":{usage}}}'
    assert CLIS["codex"]().feed(line.encode()) == (TurnEnded(""),)
