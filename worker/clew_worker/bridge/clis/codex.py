"""OpenAI's Codex: `codex exec --json`, tried with 0.169."""

import json
from collections.abc import Iterator

from clew_worker.bridge.clis import cli
from clew_worker.bridge.clis.cli import SERVER, TOOLS

START_TIMEOUT_S, TOOL_TIMEOUT_S = 120, 3_600
_KEY = "CLEW_CLI_KEY"
_INSTRUCTIONS = (
    f"You act only through the tools of the MCP server {SERVER}: {', '.join(TOOLS)}. Where they are"
    f" not listed, find them with tool_search, or call them within exec, as"
    f" tools.mcp__{SERVER}__clew_run(...). No other tool can change a file or start a program here."
)
"""Newer models are not shown the tools of MCP servers: they search for them, or call them from a script."""

_OFF = (
    *("shell_tool", "unified_exec", "multi_agent", "goals", "apps", "view_image", "plugins"),
    *("shell_snapshot", "unbounded_connection_retries"),
)
"""Features that bring tools of its own, and the one by which it waits for an endpoint without an end.

In the config file a version ignores those that it does not know; as flags they would be errors.
"""


def _config(options: cli.CliOptions) -> str:
    """Return its config.toml: read-only and without questions, its only server the relay, its own tools off."""
    lines = [f"model = {_quoted(options.model)}"] if options.model else []
    lines += [f"developer_instructions = {_quoted(_INSTRUCTIONS)}"]
    lines += ['approval_policy = "never"', 'sandbox_mode = "read-only"', 'web_search = "disabled"']
    if options.base_url:
        lines += ['model_provider = "clew"', "[model_providers.clew]", 'name = "clew"']
        lines += [f"base_url = {_quoted(options.base_url)}", 'wire_api = "responses"']
        lines += [f"env_key = {_quoted(_KEY)}"] if options.key else []
    lines += ["[agents]", "enabled = false", "[features]", *(f"{name} = false" for name in _OFF)]
    lines += [f"[mcp_servers.{SERVER}]", f"command = {_quoted(options.relay[0])}"]
    lines += [f"args = [{', '.join(map(_quoted, options.relay[1:]))}]"]
    lines += ["required = true", 'default_tools_approval_mode = "approve"']
    lines += [f"startup_timeout_sec = {START_TIMEOUT_S}", f"tool_timeout_sec = {TOOL_TIMEOUT_S}"]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """Return a TOML string: JSON's escapes are among TOML's, but DEL must be escaped too."""
    return json.dumps(text).replace("\x7f", "\\u007f")


class Codex(cli.Cli):
    """Reads `thread.*`, `turn.*` and `item.*` events; those of the kind "error" are warnings or repeat themselves.

    Its tools are switched off as features, but for the harmless ones; newer models also have `apply_patch`. The sandbox
    of its own (read-only) and the kernel refuse what that would write.
    """

    name = "codex"
    kept = (".codex/sessions",)
    harmless = frozenset((
        "list_mcp_resources", "list_mcp_resource_templates", "read_mcp_resource", "exec", "tool_search",
        "request_user_input", "request_user_input_async", "wait", "sleep",
    ))  # fmt: skip

    @staticmethod
    def launch(options: cli.CliOptions, prompt: str, session: str) -> cli.Launch:
        """Return how to start it; a session is resumed by a command of its own, with fewer options."""
        argv = [options.program, "exec"]
        argv += ["resume"] if session else []
        argv += ["--json", "--skip-git-repo-check", *options.args]
        argv += [session, "-"] if session else ["-"]
        key = _KEY if options.base_url else "CODEX_API_KEY"
        env = {"CODEX_HOME": f"{options.home}/.codex"}
        env |= {key: options.key} if options.key else {}
        files = {".codex/config.toml": _config(options)}
        return cli.Launch(tuple(argv), env, files, prompt)

    def _events(self, event: cli.Fields) -> Iterator[cli.CliEvent]:
        match event.text("type"):
            case "thread.started":
                if session := event.text("thread_id"):
                    yield cli.SessionStarted(session)
            case "item.completed":
                item = event.object("item")
                text, kind = item.text("text"), item.text("type")
                if text and kind in ("agent_message", "reasoning"):
                    self._said = text if kind == "agent_message" else self._said
                    yield cli.ThoughtReported(text)
            case "turn.completed":  # with what was used since the session's beginning
                names = ("input_tokens", "output_tokens", "cached_input_tokens")
                total = cli.UsageReported(*map(event.object("usage").count, names))
                yield total.since(self._used)
                self._used = total
                yield cli.TurnEnded(self._said)
            case "turn.failed":
                yield cli.fault_of(event.object("error").text("message"))
