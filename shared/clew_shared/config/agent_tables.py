"""The agents of `config.toml`: one frozen class for each kind, and which of them a goal's `agent:` means. Pure data."""

import re
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, ValidationInfo, field_validator

from clew_shared.config.context_tables import ModeSetting
from clew_shared.config.values import PathText, Seconds, Table, Temperature

LOCAL_LLM = "http://127.0.0.1:11434/v1"
"""Where Ollama listens by default."""

DEFAULT_AGENT = "default"
RUNBOOK_AGENT = "runbook"


class LlmAgentSettings(Table):
    """An agent that asks an OpenAI-compatible endpoint what to do next."""

    kind: Literal["llm"] = "llm"
    base_url: str = LOCAL_LLM
    model: str = ""
    api_key_env: str | None = Field(default=None, min_length=1)
    api_key_file: PathText | None = None
    mode: ModeSetting = "auto"
    temperature: Temperature = 0.2
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
