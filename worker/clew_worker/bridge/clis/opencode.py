"""opencode: `opencode run --format json`, tried with 1.18.33."""

import json
from collections.abc import Iterator

from clew_worker.bridge.clis import cli
from clew_worker.bridge.clis.cli import SERVER

TIMEOUT_MS = 120_000  # for the start of the MCP server, and for each call: clew answers within 45 s
_PROVIDER, _KEY, _MORE_FOLLOWS = "clew", "CLEW_CLI_KEY", "tool-calls"


def _config(options: cli.CliOptions) -> dict[str, object]:
    """Return its config: the relay as the only server, all tools but clew's off, the endpoint as a provider."""
    command = list(options.relay)
    server = {"type": "local", "command": command, "enabled": True, "timeout": TIMEOUT_MS}
    config: dict[str, object] = {
        "autoupdate": False,
        "share": "disabled",
        "mcp": {SERVER: server},
        "tools": {"*": False, f"{SERVER}_*": True},
        "permission": {"*": "deny", f"{SERVER}_*": "allow"},
    }
    model = options.model
    if options.base_url:
        name = model or "default"
        key = f"{{env:{_KEY}}}" if options.key else "none"
        provider = {
            "npm": "@ai-sdk/openai-compatible",
            "name": _PROVIDER,
            "options": {"baseURL": options.base_url, "apiKey": key},
            "models": {name: {"name": name, "tool_call": True}},
        }
        config |= {"provider": {_PROVIDER: provider}, "enabled_providers": [_PROVIDER]}
        model = f"{_PROVIDER}/{name}"
    return config | ({"model": model, "small_model": model} if model else {})


class Opencode(cli.Cli):
    """Reads `text`, `reasoning`, `step_finish` (with its usage) and `error` events; each of them names the session."""

    name = "opencode"
    kept = (".local/share/opencode",)
    harmless = frozenset({"invalid"})
    _session = ""

    @staticmethod
    def launch(options: cli.CliOptions, prompt: str, session: str) -> cli.Launch:
        """Return how to start it; config files of the user or of the workspace do not apply."""
        argv = [options.program, "run", "--format", "json", "--thinking", "--pure"]
        argv += ["--session", session] if session else []
        env = {
            "OPENCODE_CONFIG_CONTENT": json.dumps(_config(options)),
            "OPENCODE_DISABLE_PROJECT_CONFIG": "1",
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
            "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
        }
        env |= {_KEY: options.key} if options.key else {}
        return cli.Launch((*argv, *options.args), env, {}, prompt)

    def _events(self, event: cli.Fields) -> Iterator[cli.CliEvent]:
        session, part = event.text("sessionID"), event.object("part")
        if session and session != self._session:
            self._session = session
            yield cli.SessionStarted(session)
        match event.text("type"):
            case "text" | "reasoning" as kind:
                if text := part.text("text"):
                    self._said = text if kind == "text" else self._said
                    yield cli.ThoughtReported(text)
            case "step_finish":
                yield _tokens(part)
                if part.text("reason") != _MORE_FOLLOWS:
                    yield cli.TurnEnded(self._said)
            case "error":
                yield _fault(event.object("error"))


def _fault(error: cli.Fields) -> cli.Fault:
    data, name = error.object("data"), error.text("name")
    message = data.text("message") or error.text("message") or name
    if name == "ContextOverflowError":
        message = f"the prompt exceeds the context window: {message}"
    found = cli.fault_of(message)
    refused = name == "ProviderAuthError" or data.number("statusCode") == 401
    return cli.Fault(found.message, "login") if refused else found


def _tokens(part: cli.Fields) -> cli.UsageReported:
    """Return what one step has used; a cost of 0 means that the model has no known price."""
    tokens = part.object("tokens")
    cache = tokens.object("cache")
    cached = cache.count("read")
    fresh = tokens.count("input") + cache.count("write")
    output = tokens.count("output") + tokens.count("reasoning")
    return cli.UsageReported(fresh + cached, output, cached, part.number("cost") or None)
