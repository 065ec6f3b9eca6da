"""The agents of `config.toml`: one frozen class for each kind, and which of them a goal's `agent:` means. Pure data."""

import re
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, Discriminator, Field, Tag, ValidationInfo, field_validator

from clew_shared.config.context_tables import ModeSetting
from clew_shared.config.values import AbsolutePaths, PathText, Seconds, Table, Temperature, Texts

LOCAL_LLM = "http://127.0.0.1:11434/v1"
"""Where Ollama listens by default."""

DEFAULT_AGENT = "default"
RUNBOOK_AGENT = "runbook"

CliName = Literal["codex", "claude", "opencode"]


CREDENTIALS_MAX = 16
ARGUMENTS_MAX = 64


def to_add(name: str) -> str:
    """Return what a person can do about an agent that the config does not have."""
    if name in get_args(CliName):
        table = f'[agents.{name}] with cli = "{name}"'
        return f"to use this coding agent, add {table} to the config, then: clew reload"
    return "if you have just added it: clew reload"


def _http_address(value: str) -> str:
    if not re.match(r"https?://[^/\s]", value):
        raise ValueError(f"must begin with http:// or https:// (like {LOCAL_LLM}): {value!r}")
    return value.rstrip("/")


def _only_key(value: str | None, info: ValidationInfo) -> str | None:
    if value is not None and info.data.get("api_key_env") is not None:
        raise ValueError("give `api_key_env` or `api_key_file`, not both")
    return value


BaseUrl = Annotated[str, AfterValidator(_http_address)]
KeyEnv = Annotated[str, Field(min_length=1)]
KeyFile = Annotated[PathText | None, AfterValidator(_only_key)]
"""A table that has this key has `api_key_env` before it."""


class LlmAgentSettings(Table):
    """An agent that asks an OpenAI-compatible endpoint what to do next."""

    kind: Literal["llm"] = "llm"
    base_url: BaseUrl = LOCAL_LLM
    model: str = ""
    api_key_env: KeyEnv | None = None
    api_key_file: KeyFile = None
    mode: ModeSetting = "auto"
    temperature: Temperature = 0.2
    timeout_s: Seconds = 300.0
    reflection: Literal["inline", "separate", "off"] = "inline"


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


class CliAgentSettings(Table):
    """A coding agent with a command line of its own, which acts only through clew's tools (docs/agents/README.md)."""

    kind: Literal["cli"] = "cli"
    cli: CliName
    program: PathText | None = None
    model: str = ""
    base_url: BaseUrl | None = None
    api_key_env: KeyEnv | None = None
    api_key_file: KeyFile = None
    credentials: AbsolutePaths = ()
    refresh_credentials: bool = False
    args: Texts = ()

    @field_validator("program")
    @classmethod
    def _findable(cls, value: str | None) -> str | None:
        if value is not None and "/" in value and not value.startswith(("/", "~")):
            raise ValueError(
                f"must be a program's name, absolute path or begin with ~/, not {value!r}"
            )
        return value

    @field_validator("credentials")
    @classmethod
    def _a_few(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if len(value) > CREDENTIALS_MAX:
            raise ValueError(f"must name at most {CREDENTIALS_MAX} files, not {len(value)}")
        return value

    @field_validator("refresh_credentials")
    @classmethod
    def _has_credentials(cls, value: bool, info: ValidationInfo) -> bool:
        if value and info.data.get("credentials") == ():
            raise ValueError("has nothing to write back: name the files in `credentials`")
        return value

    @field_validator("args")
    @classmethod
    def _passable(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if len(value) > ARGUMENTS_MAX:
            raise ValueError(f"must be at most {ARGUMENTS_MAX} arguments, not {len(value)}")
        if "\0" in "".join(value):
            raise ValueError("must contain no NUL characters")
        return value

    @property
    def looked_for(self) -> str:
        """The program to start: a path, or a name to be looked up on PATH."""
        return self.program or self.cli


def agent_kind(value: Any) -> Any:
    """Return the kind of an agent's table; without `kind`, one with `command` is a command, one with `cli` a CLI."""
    if isinstance(value, dict):
        implied = next((kind for kind in ("command", "cli") if kind in value), "llm")
        return value.get("kind", implied)
    return getattr(value, "kind", None)


Agent = Annotated[
    Annotated[LlmAgentSettings, Tag("llm")]
    | Annotated[RunbookAgentSettings, Tag("runbook")]
    | Annotated[CommandAgentSettings, Tag("command")]
    | Annotated[CliAgentSettings, Tag("cli")],
    Discriminator(agent_kind),
]
AGENT_KINDS: dict[str, type[Table]] = {
    "llm": LlmAgentSettings,
    "runbook": RunbookAgentSettings,
    "command": CommandAgentSettings,
    "cli": CliAgentSettings,
}
ModelAgentSettings = LlmAgentSettings | CliAgentSettings
"""The agents that a model thinks for; they may have a key of their own."""


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

    def get(self, name: str | None = None) -> Agent:
        """Return the agent of that name, or the default one; KeyError where there is none."""
        name = self.resolve(name)
        if name in self.named:
            return self.named[name]
        built_in: dict[str, LlmAgentSettings | RunbookAgentSettings] = {
            RUNBOOK_AGENT: RunbookAgentSettings(),
            DEFAULT_AGENT: LlmAgentSettings(),
        }
        return built_in[name]

    def fault(self, name: str | None = None, config: object = "the config") -> str | None:
        """Return why the agent cannot be used and what to do in the file `config`, or None if it can."""
        name = self.resolve(name)
        if name not in self.names:
            available = ", ".join(self.names)
            return f"unknown agent {name!r}; available: {available}; {to_add(name)}"
        agent = self.get(name)
        if isinstance(agent, LlmAgentSettings) and not agent.model:
            which = "the built-in agent" if name not in self.named else "agent"
            return (
                f"{which} {name!r} has no model; set one in [agents.{name}] of {config}, as in "
                f'`model = "qwen2.5-coder:7b"` (its `base_url` is {agent.base_url}), or name another agent'
            )
        if isinstance(agent, CliAgentSettings) and agent.base_url and not agent.model:
            return (
                f"agent {name!r} has a `base_url` and no model; set `model` in [agents.{name}] of {config} "
                f"to the model's name at {agent.base_url}"
            )
        return None
