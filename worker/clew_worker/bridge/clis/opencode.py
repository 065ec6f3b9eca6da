"""opencode: `opencode run --format json`, tried with 1.18.33."""

import json
import re
import time
from collections.abc import Callable

from clew_worker.bridge.clis.cli import (
    NOTHING_USED,
    SERVER,
    CliEvent,
    CliOptions,
    FaultReported,
    Launch,
    LoginNeeded,
    SessionStarted,
    ThoughtReported,
    TurnEnded,
    UsageReported,
)
from clew_worker.bridge.clis.printed import Fault, Fields, fault

TIMEOUT_MS = 120_000
"""For the start of the MCP server, and for each call: clew answers a call within 45 s."""

_PROVIDER = "clew"
_KEY = "CLEW_CLI_KEY"
_MORE_FOLLOWS = "tool-calls"
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_LOGGED = re.compile(
    r'level=ERROR .*message="stream error" .*small=false .*error\.error="(.{1,2000}?)"$'
)
"""A failed request in the log: it is tried again and again, for hours, and the event stream is silent about it."""


class Opencode:
    """It offers the tools that its config allows; its event stream does not list them."""

    name = "opencode"
    kept = (".local/share/opencode",)
    harmless = frozenset({"invalid"})

    def launch(
        self, options: CliOptions, relay: tuple[str, ...], home: str, prompt: str, session: str = ""
    ) -> Launch:
        """Return how to start it; config files of the user or of the workspace do not apply."""
        argv = [options.program, "run", "--format", "json", "--thinking", "--pure"]
        argv += ["--print-logs", "--log-level", "ERROR"]
        argv += ["--session", session] if session else []
        env = {
            "HOME": home,
            "TZ": "UTC",
            "OPENCODE_CONFIG_CONTENT": json.dumps(_config(options, relay)),
            "OPENCODE_DISABLE_PROJECT_CONFIG": "1",
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
            "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
        }
        env |= {_KEY: options.key} if options.key else {}
        return Launch((*argv, *options.args), env, {}, prompt)

    def reader(self, used: UsageReported = NOTHING_USED) -> "OpencodeReader":
        """Return a reader; usage is reported for each step, so what was used before does not matter."""
        del used
        return OpencodeReader()


def _config(options: CliOptions, relay: tuple[str, ...]) -> dict[str, object]:
    """Return its config: the relay as the only server, all tools but clew's off, the model's endpoint."""
    server = {"type": "local", "command": list(relay), "enabled": True, "timeout": TIMEOUT_MS}
    config: dict[str, object] = {
        "autoupdate": False,
        "share": "disabled",
        "mcp": {SERVER: server},
        "tools": {"*": False, f"{SERVER}_*": True},
        "permission": {"*": "deny", f"{SERVER}_*": "allow"},
    }
    model = options.model
    if options.base_url:
        model = options.model or "default"
        config["provider"] = {_PROVIDER: _provider(options, model)}
        config["enabled_providers"] = [_PROVIDER]
        model = f"{_PROVIDER}/{model}"
    if model:
        config |= {"model": model, "small_model": model}
    return config


def _provider(options: CliOptions, model: str) -> dict[str, object]:
    """Return an OpenAI-compatible endpoint of its own; the key stays in a variable of the environment."""
    key = f"{{env:{_KEY}}}" if options.key else "none"
    return {
        "npm": "@ai-sdk/openai-compatible",
        "name": _PROVIDER,
        "options": {"baseURL": options.base_url, "apiKey": key},
        "models": {model: {"name": model, "tool_call": True}},
    }


class OpencodeReader:
    """Reads `text`, `reasoning`, `step_finish` and `error` events; each of them names the session."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._session = ""
        self._said = ""

    def feed(self, line: bytes) -> tuple[CliEvent, ...]:
        event = Fields.of_line(line)
        match event.text("type"):
            case "text" | "reasoning":
                events = self._text(event)
            case "step_finish":
                events = self._finished(event.object("part"))
            case "error":
                events = self._failed(event.object("error"))
            case "":
                return self._complaint(line)
            case _:
                events = ()
        return (*self._started(event.text("sessionID")), *events)

    def _started(self, session: str) -> tuple[CliEvent, ...]:
        if not session or session == self._session:
            return ()
        self._session = session
        return (SessionStarted(session),)

    def _text(self, event: Fields) -> tuple[CliEvent, ...]:
        text = event.object("part").text("text")
        if event.text("type") == "text":
            self._said = text or self._said
        return (ThoughtReported(text),) if text else ()

    def _finished(self, part: Fields) -> tuple[CliEvent, ...]:
        used = _tokens(part)
        events: tuple[CliEvent, ...] = (used,) if used != NOTHING_USED else ()
        if part.text("reason") == _MORE_FOLLOWS:
            return events
        return (*events, TurnEnded(ok=True, message=self._said))

    def _failed(self, error: Fields) -> tuple[CliEvent, ...]:
        data = error.object("data")
        message = data.text("message") or error.text("message") or error.text("name")
        if error.text("name") == "ContextOverflowError":
            message = f"the prompt exceeds the context window: {message}"
        status = 401.0 if error.text("name") == "ProviderAuthError" else data.number("statusCode")
        return self._failed_with(message, status)

    def _fault(self, message: str, status: float | None) -> Fault:
        found = fault(message, self._clock())
        return LoginNeeded(found.message) if status == 401 else found

    def _complaint(self, line: bytes) -> tuple[CliEvent, ...]:
        """Return the fault in a line of standard error: of a request, or the reason for which it did not start."""
        text = _COLOUR.sub("", line.decode(errors="replace")).strip()
        if logged := _LOGGED.search(text):
            found = self._fault(logged[1].removeprefix("AI_APICallError: "), None)
            return () if isinstance(found, FaultReported) and found.session_over else (found,)
        return self._failed_with(text.removeprefix("Error: ")) if text.startswith("Error: ") else ()

    def _failed_with(self, message: str, status: float | None = None) -> tuple[CliEvent, ...]:
        found = self._fault(message, status)
        return (found, TurnEnded(ok=False, message=found.message))


def _tokens(part: Fields) -> UsageReported:
    """Return what one step has used; a cost of 0 means that the model has no known price."""
    tokens = part.object("tokens")
    cache = tokens.object("cache")
    fresh = tokens.count("input") + cache.count("write")
    output = tokens.count("output") + tokens.count("reasoning")
    cached = cache.count("read")
    return UsageReported(fresh + cached, output, cached, part.number("cost") or None)
