"""Codex."""

import json
from collections.abc import Mapping
from typing import Any

from clew_worker.bridge.clis.cli import (
    CliEvent,
    CliOptions,
    EventReader,
    FaultReported,
    Launch,
    SessionStarted,
    ThoughtReported,
    TurnEnded,
    UsageReported,
)

OFF = "shell_tool unified_exec multi_agent goals apps view_image plugins shell_snapshot".split()


class Codex:
    name = "codex"
    kept = (".codex/sessions",)
    harmless: frozenset[str] = frozenset()

    def launch(
        self, options: CliOptions, relay: tuple[str, ...], home: str, prompt: str, session: str = ""
    ) -> Launch:
        config = f"""
model = {json.dumps(options.model or "m")}
web_search = "disabled"
"""
        if options.base_url:
            config += f"""model_provider = "clew"
[model_providers.clew]
name = "clew"
base_url = {json.dumps(options.base_url)}
wire_api = "responses"
env_key = "CLEW_KEY"
request_max_retries = 1
stream_max_retries = 1
"""
        config += f"""
[mcp_servers.clew]
command = {json.dumps(relay[0])}
args = {json.dumps(list(relay[1:]))}
required = true
default_tools_approval_mode = "approve"
tool_timeout_sec = 3600
"""
        argv = [options.program, "exec"]
        if session:
            argv += ["resume", session]
        argv += ["--json", "--strict-config", "--skip-git-repo-check"]
        argv += [] if session else ["-s", "read-only"]
        for one in OFF:
            argv += ["--disable", one]
        argv += [*options.args, "-"]
        env = {"HOME": home, "CODEX_HOME": f"{home}/.codex", "CLEW_KEY": options.key or "none"}
        return Launch(tuple(argv), env, {".codex/config.toml": config}, prompt)

    def reader(self) -> EventReader:
        return CodexReader()


class CodexReader:
    def feed(self, line: bytes) -> tuple[CliEvent, ...]:
        try:
            event: Any = json.loads(line)
        except ValueError:
            return ()
        if not isinstance(event, Mapping):
            return ()
        match event.get("type"):
            case "thread.started":
                return (SessionStarted(str(event.get("thread_id"))),)
            case "item.completed" if event["item"].get("type") == "agent_message":
                return (ThoughtReported(str(event["item"].get("text"))),)
            case "turn.completed":
                u = event.get("usage") or {}
                return (
                    UsageReported(
                        u.get("input_tokens", 0),
                        u.get("output_tokens", 0),
                        u.get("cached_input_tokens", 0),
                    ),
                    TurnEnded(True),
                )
            case "turn.failed":
                return (TurnEnded(False, str((event.get("error") or {}).get("message"))),)
            case "error":
                return (FaultReported(str(event.get("message"))),)
        return ()
