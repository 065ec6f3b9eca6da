"""How coding agents are started: command line, environment and files of the private HOME."""

import json
import tomllib

import pytest

from clew_worker.bridge.clis import CLIS
from clew_worker.bridge.clis.cli import CliOptions

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
    assert [
        name
        for name, value in launch.env.items()
        if KEY in value and name != "OPENCODE_CONFIG_CONTENT"
    ]
    assert KEY not in launch.env.get("OPENCODE_CONFIG_CONTENT", "")


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


@pytest.mark.parametrize("cli", CLIS)
def test_what_survives_is_in_the_home(cli):
    for folder in CLIS[cli].kept:
        assert folder.startswith(".")
        assert ".." not in folder
