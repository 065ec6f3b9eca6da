"""Anthropic's Claude Code: `claude -p --output-format stream-json`, tried with 2.1.330."""

import json
from collections.abc import Iterator
from dataclasses import replace

from clew_worker.bridge.clis import cli
from clew_worker.bridge.clis.cli import SERVER

START_TIMEOUT_MS, TOOL_TIMEOUT_MS = 120_000, 3_600_000
_SERVERS = ".clew/mcp.json"
_PREFIX = f"mcp__{SERVER}__"
_LASTING = frozenset({"billing_error", "model_not_found"})


class Claude(cli.Cli):
    """Reads `system`, `assistant`, `rate_limit_event` and `result` events; the first lists its tools."""

    name = "claude"
    kept = (".claude/projects",)
    complains = False
    _reported = cli.NOTHING_USED
    _message = _error = ""
    _limited = False

    @staticmethod
    def launch(options: cli.CliOptions, prompt: str, session: str) -> cli.Launch:
        """Return how to start it, without settings of the user or the workspace, and with clew's tools not deferred."""
        argv = [options.program, "-p", "--output-format", "stream-json", "--verbose"]
        argv += ["--tools", "", "--setting-sources", "", "--strict-mcp-config"]
        argv += ["--mcp-config", f"{options.home}/{_SERVERS}", "--allowedTools", f"mcp__{SERVER}"]
        argv += ["--permission-mode", "dontAsk", "--disable-slash-commands"]
        argv += ["--model", options.model] if options.model else []
        argv += ["--resume", session] if session else []
        env = {
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "ENABLE_TOOL_SEARCH": "false",
            "MCP_TIMEOUT": str(START_TIMEOUT_MS),
            "MCP_TOOL_TIMEOUT": str(TOOL_TIMEOUT_MS),
        }
        env |= {"ANTHROPIC_BASE_URL": options.base_url} if options.base_url else {}
        key = options.key or ("none" if options.base_url else "")
        env |= {"ANTHROPIC_API_KEY": key} if key else {}
        server = {"type": "stdio", "command": options.relay[0], "args": list(options.relay[1:])}
        files = {_SERVERS: json.dumps({"mcpServers": {SERVER: server}})}
        return cli.Launch((*argv, *options.args), env, files, prompt)

    def _events(self, event: cli.Fields) -> Iterator[cli.CliEvent]:
        match event.text("type"), event.text("subtype"):
            case "system", "init":
                if session := event.text("session_id"):
                    yield cli.SessionStarted(session)
                names = tuple(name.removeprefix(_PREFIX) for name in event.texts("tools"))
                servers = {s.text("name"): s.text("status") for s in event.objects("mcp_servers")}
                yield cli.ToolsOffered(names, servers)
            case "assistant", _:
                yield from self._assistant(event)
            case "rate_limit_event", _:
                status = event.object("rate_limit_info").text("status")
                self._limited = self._limited or status == "rejected"
            case "result", _:
                yield self._rest(event)
                said = event.text("result") or "; ".join(event.texts("errors"))
                said = said or event.text("subtype")
                is_fault = event.true("is_error")
                yield self._fault_of(said, event) if is_fault else cli.TurnEnded(said)

    def _assistant(self, event: cli.Fields) -> Iterator[cli.CliEvent]:
        """Yield the text of a message, and its usage the first time: each block comes as an event of its own."""
        if event.text("error"):
            self._error = event.text("error")
            return
        message = event.object("message")
        for block in message.objects("content"):
            if text := block.text("text") or block.text("thinking"):
                yield cli.ThoughtReported(text)
        if message.text("id") != self._message and not event.text("parent_tool_use_id"):
            self._message = message.text("id")
            used = _tokens(message.object("usage"))
            self._reported += used
            yield used

    def _rest(self, event: cli.Fields) -> cli.UsageReported:
        """Return what the messages did not report, and the cost, which counts from the session's beginning."""
        session_usd, before = event.number("total_cost_usd"), self._used.cost_usd or 0.0
        if session_usd is not None:
            self._used = replace(self._used, cost_usd=session_usd)
        cost_usd = max(0.0, (session_usd or before) - before) or None
        rest = _tokens(event.object("usage")).since(self._reported, cost_usd)
        self._reported = cli.NOTHING_USED
        return rest

    def _fault_of(self, message: str, event: cli.Fields) -> cli.Fault:
        found = cli.fault_of(message)
        status = event.number("api_error_status")
        if event.text("terminal_reason") == "prompt_too_long":
            return cli.Fault(found.message, "session")
        if self._error == "rate_limit" or status == 429:
            limited = self._limited or found.kind == "limit"
            return cli.Fault(found.message, "limit" if limited else "temporary")
        if self._error == "authentication_failed" or status == 401:
            return cli.Fault(found.message, "login")
        if status is None or found.kind == "session":
            return found
        lasting = self._error in _LASTING or status == 403
        return cli.Fault(found.message, "lasting" if lasting else "temporary")


def _tokens(usage: cli.Fields) -> cli.UsageReported:
    cached = usage.count("cache_read_input_tokens")
    fresh = usage.count("input_tokens") + usage.count("cache_creation_input_tokens")
    return cli.UsageReported(fresh + cached, usage.count("output_tokens"), cached)
