"""The tables of `config.toml`: one frozen class each, with its defaults and what each key may be.

Pure data. Where values come from, and how an error in them is reported, is `settings.py`; this file
knows neither TOML nor the environment. Bounds are set at the keys; a bound that spans two keys is
checked at the later one, so that the error has a place.
"""

import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationInfo,
    field_validator,
)

from clew_shared.text.thoughts import GENERAL, merged, spoken

Seconds = Annotated[float, Field(gt=0)]
SecondsOrZero = Annotated[float, Field(ge=0)]
AtLeastOne = Annotated[int, Field(ge=1)]
AtLeastTwo = Annotated[int, Field(ge=2)]
Texts = Annotated[tuple[str, ...], Field(strict=False)]

LOCAL_LLM = "http://127.0.0.1:11434/v1"
"""Where Ollama listens by default."""

DEFAULT_AGENT = "default"
RUNBOOK_AGENT = "runbook"

IGNORED = (
    ".git",
    ".hg",
    ".svn",
    ".agent_context",
    "__pycache__",
    "*.pyc",
    ".pytest_cache",
    ".mypy_cache",
    ".ruff_cache",
    ".hypothesis",
    ".tox",
    ".coverage",
    ".DS_Store",
    "node_modules/.cache",
)
"""By-products of tools, which are not part of the world (docs/loops.md)."""


class Table(BaseModel):
    """What every table has in common: frozen, no unknown keys, no silent conversion of types."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        validate_default=True,
        allow_inf_nan=False,
    )


def at_least(value: float, info: ValidationInfo, earlier: str, *, larger: bool = False) -> float:
    """Return `value` if no less than (or `larger` than) the earlier key; else ValueError."""
    floor = info.data.get(earlier)
    if floor is None or value > floor or (value == floor and not larger):
        return value
    words = "larger than" if larger else "at least"
    raise ValueError(f"must be {words} `{earlier}` ({floor:g}), not {value:g}")


def _path(text: str) -> str:
    """Return a path that can be used as it stands; else ValueError."""
    if "\0" in text:
        raise ValueError("must be a path, without NUL characters")
    if text.startswith("~") and text[1:2] not in ("", "/"):
        try:
            Path(text).expanduser()
        except RuntimeError:
            raise ValueError(f"must be a path; {text!r} begins with an unknown user") from None
    return text


def _absolute_path(text: str) -> str:
    if not text.startswith(("/", "~")):
        raise ValueError(f"must be an absolute path or begin with ~/, not {text!r}")
    return _path(text)


PathText = Annotated[str, Field(min_length=1), AfterValidator(_path)]
AbsolutePaths = Annotated[
    tuple[Annotated[str, AfterValidator(_absolute_path)], ...], Field(strict=False)
]


class PathSettings(Table):
    """Folders; unset means the place that XDG (or `--home`) gives, see `places.py`."""

    inbox: PathText | None = None
    outbox: PathText | None = None
    workspaces: PathText | None = None
    state: PathText | None = None
    run: PathText | None = None


class DaemonSettings(Table):
    """How many goals at once, and how the inbox is watched."""

    max_workers: AtLeastOne = 4
    settle_s: SecondsOrZero = 0.5
    sweep_s: Seconds = 30.0


class HeartbeatSettings(Table):
    """When a silent worker counts as hung or stalled."""

    interval_s: Seconds = 1.0
    timeout_s: Seconds = 10.0
    stall_timeout_s: Seconds = 600.0

    @field_validator("timeout_s")
    @classmethod
    def _above_interval(cls, value: float, info: ValidationInfo) -> float:
        return at_least(value, info, "interval_s", larger=True)


class RestartSettings(Table):
    """Back-off and restart intensity, as in OTP: `max_restarts` in `window_s`."""

    backoff_initial_s: Seconds = 0.1
    backoff_max_s: Seconds = 60.0
    max_restarts: Annotated[int, Field(ge=0)] = 5
    window_s: Seconds = 60.0
    healthy_after_s: Seconds = 30.0
    stop_grace_s: SecondsOrZero = 10.0

    @field_validator("backoff_max_s")
    @classmethod
    def _above_initial(cls, value: float, info: ValidationInfo) -> float:
        return at_least(value, info, "backoff_initial_s")


class LimitSettings(Table):
    """What a worker, an action or a goal may use at most."""

    memory_mb: Annotated[int, Field(ge=16)] = 2048
    action_timeout_s: Seconds = 120.0
    output_bytes: Annotated[int, Field(ge=256, le=16 * 1024 * 1024)] = 65536
    open_files: Annotated[int, Field(ge=32)] = 1024
    processes: Annotated[int, Field(ge=4)] = 512
    max_actions: AtLeastOne = 1000
    check_timeout_s: Seconds = 300.0
    llm_calls: AtLeastOne | None = None


class SandboxSettings(Table):
    """What workers may read, write and reach besides what they always may."""

    mode: Literal["enforce", "best_effort", "off"] = "enforce"
    read: AbsolutePaths = ()
    write: AbsolutePaths = ()
    network: bool = True
    env: Texts = ()

    @field_validator("env")
    @classmethod
    def _names(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for name in value:
            if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
                raise ValueError(
                    f"must hold names of environment variables (like LC_ALL), not {name!r}"
                )
        return value


class ToolLoopSettings(Table):
    """Limits of one tool; unset means the limit of `[loops]`."""

    repeat_limit: AtLeastTwo | None = None


def _theme_name(name: str) -> str:
    if name == GENERAL:
        raise ValueError(
            f"must have another name: {GENERAL!r} is reserved for thoughts without a theme"
        )
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise ValueError(f"must have a name of letters, digits and _ (like planning), not {name!r}")
    return name


def _theme_words(text: str) -> str:
    if not spoken(text):
        raise ValueError(f"must be a word or a phrase (like look for), not {text!r}")
    return text


Themes = dict[
    Annotated[str, AfterValidator(_theme_name)],
    Annotated[tuple[Annotated[str, AfterValidator(_theme_words)], ...], Field(strict=False)],
]


class LoopSettings(Table):
    """Thresholds of the gate; docs/loops.md says what each one counts."""

    progress_aware: bool = True
    scope: Literal["subtask", "task", "goal"] = "subtask"
    repeat_limit: AtLeastTwo = 3
    transient_limit: AtLeastTwo = 6
    max_period: Annotated[int, Field(ge=2, le=16)] = 4
    crash_limit: AtLeastOne = 2
    failure_limit: AtLeastOne = 2
    blocked_limit: AtLeastOne = 3
    replan_limit: AtLeastOne = 2
    theme_window: AtLeastTwo = 3
    thoughts_without_tools: AtLeastTwo = 3
    iterations_without_facts: AtLeastTwo = 5
    stale_actions: AtLeastTwo = 5
    same_error_limit: AtLeastTwo = 3
    stuck_limit: AtLeastOne = 3
    ignore: Texts = IGNORED
    themes: Themes = Field(default_factory=dict)
    tools: dict[str, ToolLoopSettings] = Field(default_factory=dict)

    @field_validator("themes")
    @classmethod
    def _with_built_in(cls, value: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        return merged(value)


class ContextSettings(Table):
    """How much an agent's LLM is shown, and from which iteration on it is shown less."""

    max_chars: Annotated[int, Field(ge=200)] = 2000
    max_tokens: Annotated[int, Field(ge=256)] = 8000
    recent_actions: AtLeastOne = 3  # has no effect; accepted for configs that set it
    full_until: AtLeastOne = 10
    moderate_until: AtLeastOne = 15
    aggressive_until: AtLeastOne = 20
    progress_from: AtLeastOne = 5
    max_iterations: AtLeastOne = 30

    @field_validator("moderate_until")
    @classmethod
    def _after_full(cls, value: int, info: ValidationInfo) -> float:
        return at_least(value, info, "full_until", larger=True)

    @field_validator("aggressive_until")
    @classmethod
    def _after_moderate(cls, value: int, info: ValidationInfo) -> float:
        return at_least(value, info, "moderate_until", larger=True)


class SnapshotSettings(Table):
    """Snapshots of workspaces, for `clew diff` and `clew undo`: whether they are taken, and their limits."""

    enabled: bool = True
    max_mb: AtLeastOne = 2000
    max_file_mb: AtLeastOne = 10


class PlaybookSettings(Table):
    """What is learned across goals, and when it is dropped."""

    enabled: bool = True
    max_strategies: AtLeastOne = 50
    min_tool_calls: AtLeastOne = 2
    min_confidence: Annotated[float, Field(ge=0, le=1)] = 0.7
    prune_below: Annotated[float, Field(ge=-1, le=1)] = -0.3
    llm_reflection: bool = False


class LlmAgentSettings(Table):
    """An agent that asks an OpenAI-compatible endpoint what to do next."""

    kind: Literal["llm"] = "llm"
    base_url: str = LOCAL_LLM
    model: str = ""
    api_key_env: str | None = Field(default=None, min_length=1)
    api_key_file: PathText | None = None
    mode: Literal["auto", "tools", "json"] = "auto"
    temperature: Annotated[float, Field(ge=0, le=2)] = 0.2
    timeout_s: Seconds = 300.0
    reflection: Literal["inline", "separate", "off"] = "inline"

    @field_validator("base_url")
    @classmethod
    def _is_http(cls, value: str) -> str:
        if not re.match(r"https?://[^/\s]", value):
            raise ValueError(f"must begin with http:// or https:// (like {LOCAL_LLM}): {value!r}")
        return value.rstrip("/")

    @field_validator("api_key_file")
    @classmethod
    def _one_key(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is not None and info.data.get("api_key_env") is not None:
            raise ValueError("give `api_key_env` or `api_key_file`, not both")
        return value


class RunbookAgentSettings(Table):
    """The built-in agent that carries out the blocks of a goal file; it needs no LLM."""

    kind: Literal["runbook"] = "runbook"


class CommandAgentSettings(Table):
    """A program of any language that speaks the worker protocol."""

    kind: Literal["command"] = "command"
    command: Annotated[tuple[str, ...], Field(strict=False, min_length=1)]
    own_tools: bool = False

    @field_validator("command")
    @classmethod
    def _program(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        program = value[0]
        if not program or "\0" in "".join(value):
            raise ValueError("must begin with a program, and contain no NUL characters")
        if program.startswith("~") and not program.startswith("~/"):
            raise ValueError(
                f"must begin with a program's name, absolute path or ~/, not {program!r}"
            )
        return value


def agent_kind(value: Any) -> Any:
    """Return the kind of an agent's table; without `kind`, one with `command` is a command."""
    if isinstance(value, dict):
        return value.get("kind", "command" if "command" in value else "llm")
    return getattr(value, "kind", None)


Agent = Annotated[
    Annotated[LlmAgentSettings, Tag("llm")]
    | Annotated[RunbookAgentSettings, Tag("runbook")]
    | Annotated[CommandAgentSettings, Tag("command")],
    Discriminator(agent_kind),
]
AGENT_KINDS: dict[str, type[Table]] = {
    "llm": LlmAgentSettings,
    "runbook": RunbookAgentSettings,
    "command": CommandAgentSettings,
}


class AgentSettings(Table):
    """The agents by name: those of the config (`named`) and the built-in `runbook` and `default`.

    The default agent is `[agents] default` where it is set; else `[agents.default]` if there is
    one; else the only agent of the config that is not a runbook; else the built-in llm agent, which
    has no model and says so when it is used.
    """

    default: str | None = None
    named: dict[str, Agent] = Field(default_factory=dict)

    @property
    def default_name(self) -> str:
        if self.default is not None:
            return self.default
        thinking = [name for name, agent in self.named.items() if agent.kind != "runbook"]
        if DEFAULT_AGENT not in self.named and len(thinking) == 1:
            return thinking[0]
        return DEFAULT_AGENT

    @property
    def names(self) -> list[str]:
        """Every name that a goal file may give, sorted."""
        return sorted({*self.named, DEFAULT_AGENT, RUNBOOK_AGENT})

    def resolve(self, name: str | None) -> str:
        """Return which agent a goal's `agent:` means; None and `default` mean the default agent."""
        if name is None or (name == DEFAULT_AGENT and name not in self.named):
            return self.default_name
        return name

    def get(
        self, name: str | None = None
    ) -> LlmAgentSettings | RunbookAgentSettings | CommandAgentSettings:
        """Return the agent of that name, or the default one; KeyError where there is none."""
        name = self.resolve(name)
        if name in self.named:
            return self.named[name]
        built_in: dict[str, LlmAgentSettings | RunbookAgentSettings] = {
            RUNBOOK_AGENT: RunbookAgentSettings(),
            DEFAULT_AGENT: LlmAgentSettings(),
        }
        return built_in[name]

    def fault(self, name: str | None = None) -> str | None:
        """Return why the agent cannot be used and what to do, or None if it can."""
        name = self.resolve(name)
        if name not in self.names:
            available = ", ".join(self.names)
            return (
                f"unknown agent {name!r}; available: {available}; "
                "if you have just added it: clew reload"
            )
        agent = self.get(name)
        if isinstance(agent, LlmAgentSettings) and not agent.model:
            which = "the built-in agent" if name not in self.named else "agent"
            return (
                f"{which} {name!r} has no model; set `model` in [agents.{name}] of the config "
                f"(its `base_url` is {agent.base_url})"
            )
        return None


class LedgerSettings(Table):
    """Where the ledger is; `<state>` in the url stands for the state folder."""

    url: str = "sqlite:///<state>/ledger.db"
    keep_days: Annotated[float, Field(gt=0)] = 90.0

    @field_validator("url")
    @classmethod
    def _known(cls, value: str) -> str:
        if not value.startswith("sqlite:///") or value == "sqlite:///":
            raise ValueError(f"must be sqlite:///PATH, like sqlite:///<state>/ledger.db: {value!r}")
        if not value.removeprefix("sqlite:///").startswith(("/", "<state>")) or "\0" in value:
            raise ValueError(
                f"must have an absolute path (sqlite:////srv/clew/ledger.db) or one below <state>: {value!r}"
            )
        return value

    def located(self, state: str) -> str:
        """Return the url with `<state>` filled in."""
        return self.url.replace("<state>", state)


class LogSettings(Table):
    """How much is logged, how it looks, and where it goes besides stdout."""

    level: Literal["debug", "info", "warning", "error", "critical"] = "info"
    format: Literal["auto", "json", "console"] = "auto"
    file: PathText | None = None
    max_bytes: Annotated[int, Field(ge=4096)] = 10 * 1024 * 1024
    backups: Annotated[int, Field(ge=0)] = 5


class Settings(Table):
    """The whole config, effective; `Settings()` is what an absent file gives."""

    paths: PathSettings = PathSettings()
    daemon: DaemonSettings = DaemonSettings()
    heartbeat: HeartbeatSettings = HeartbeatSettings()
    restart: RestartSettings = RestartSettings()
    limits: LimitSettings = LimitSettings()
    sandbox: SandboxSettings = SandboxSettings()
    loops: LoopSettings = LoopSettings()
    context: ContextSettings = ContextSettings()
    playbook: PlaybookSettings = PlaybookSettings()
    snapshots: SnapshotSettings = SnapshotSettings()
    agents: AgentSettings = AgentSettings()
    ledger: LedgerSettings = LedgerSettings()
    log: LogSettings = LogSettings()
