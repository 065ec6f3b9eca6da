"""What the tables of `config.toml` have in common, and the agents: one frozen class for each kind. Pure data."""

import re
from typing import Annotated, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationInfo

NumberT = TypeVar("NumberT", int, float)


class Table(BaseModel):
    """What every table has in common: frozen, no unknown keys, no silent conversion of types."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, validate_default=True, allow_inf_nan=False
    )


def above(earlier: str, *, or_equal: bool = False) -> AfterValidator:
    """Return a validator for a value that must be larger than that of an earlier key, or `or_equal`."""

    def check(value: NumberT, info: ValidationInfo) -> NumberT:
        floor = info.data.get(earlier)
        if floor is None or value > floor or (or_equal and value == floor):
            return value
        words = "at least" if or_equal else "larger than"
        raise ValueError(f"must be {words} `{earlier}` ({floor:g}), not {value:g}")

    return AfterValidator(check)


def shaped(pattern: str, what: str) -> AfterValidator:
    """Return a validator for a text that matches the pattern as a whole; `what` says in words what it must be."""

    def check(value: str) -> str:
        if not re.fullmatch(pattern, value):
            raise ValueError(f"must be {what}, not {value!r}")
        return value

    return AfterValidator(check)


def _begins_with_program(command: tuple[str, ...]) -> tuple[str, ...]:
    first = command[0]
    if not first or (first.startswith("~") and not first.startswith("~/")):
        raise ValueError(f"must begin with a program's name, absolute path or ~/, not {first!r}")
    return command


Seconds = Annotated[float, Field(gt=0)]
SecondsOrZero = Annotated[float, Field(ge=0)]
AtLeastOne = Annotated[int, Field(ge=1)]
AtLeastTwo = Annotated[int, Field(ge=2)]
Temperature = Annotated[float, Field(ge=0, le=2)]
_TEXT = shaped(r"[^\0]*", "text without NUL characters")
_OTHER_HOME = "a path; another user's home is named by its absolute path"
Texts = Annotated[tuple[Annotated[str, _TEXT], ...], Field(strict=False)]
PathText = Annotated[str, Field(min_length=1), shaped(r"(?!~[^/])[^\0]*", _OTHER_HOME)]
AbsolutePath = Annotated[str, shaped(r"(?:/|~(?=/|\Z))[^\0]*", "an absolute path or begin with ~/")]
AbsolutePaths = Annotated[tuple[AbsolutePath, ...], Field(strict=False)]
Program = Annotated[
    str, shaped(r"[^/~\0][^/\0]*|~?/[^\0]*", "a program's name, absolute path or begin with ~/")
]

ModeSetting = Literal["auto", "tools", "json"]
"""How a model is asked for calls: by native tool calls, by JSON, or by whichever of them it answers with."""

LOCAL_LLM = "http://127.0.0.1:11434/v1"  # Where Ollama listens by default

DEFAULT_AGENT = "default"
RUNBOOK_AGENT = "runbook"

CliName = Literal["codex", "claude", "opencode"]

CREDENTIALS_MAX = 16
ARGUMENTS_MAX = 64


def _only_key(value: str | None, info: ValidationInfo) -> str | None:
    if value is not None and info.data.get("api_key_env") is not None:
        raise ValueError("give `api_key_env` or `api_key_file`, not both")
    return value


def _has_credentials(value: bool, info: ValidationInfo) -> bool:
    if value and info.data.get("credentials") == ():
        raise ValueError("has nothing to write back: name the files in `credentials`")
    return value


BaseUrl = Annotated[
    str,
    shaped(r"https?://[^/\s].*", f"an address with http:// or https:// (like {LOCAL_LLM})"),
    AfterValidator(lambda url: url.rstrip("/")),
]
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
    command: Annotated[Texts, Field(min_length=1), AfterValidator(_begins_with_program)]
    own_tools: bool = False


class CliAgentSettings(Table):
    """A coding agent with a command line of its own, which acts only through clew's tools (docs/agents/README.md)."""

    kind: Literal["cli"] = "cli"
    cli: CliName
    program: Program | None = None
    model: str = ""
    base_url: BaseUrl | None = None
    api_key_env: KeyEnv | None = None
    api_key_file: KeyFile = None
    credentials: Annotated[AbsolutePaths, Field(max_length=CREDENTIALS_MAX)] = ()
    refresh_credentials: Annotated[bool, AfterValidator(_has_credentials)] = False
    args: Annotated[Texts, Field(max_length=ARGUMENTS_MAX)] = ()


def _known_agent(name: str, info: ValidationInfo) -> str:
    """Refuse a name that is not among the agents of the validation's context, by name, with the kind of each."""
    kinds: dict[str, str] = info.context or {name: ""}
    if name not in kinds:
        raise ValueError(f"names an unknown agent {name!r}; available: {', '.join(sorted(kinds))}")
    if info.field_name == "agent" and kinds[name] == "runbook":
        # it repeats the blocks of the goal file, which is no new attempt
        raise ValueError(f"names the runbook {name!r}, which cannot take over a model's work")
    return name


AgentName = Annotated[str, Field(min_length=1), AfterValidator(_known_agent)]


Agent = Annotated[
    LlmAgentSettings | RunbookAgentSettings | CommandAgentSettings | CliAgentSettings,
    Field(discriminator="kind"),
]
_KINDS = LlmAgentSettings, RunbookAgentSettings, CommandAgentSettings, CliAgentSettings
AGENT_KINDS: dict[str, type[Table]] = {one.model_fields["kind"].default: one for one in _KINDS}
ModelAgentSettings = LlmAgentSettings | CliAgentSettings
"""The agents that a model thinks for; they may have a key of their own."""


class AgentSettings(Table):
    """The agents by name: those of the config (`named`) and the built-in `runbook` and `default`.

    The default agent is `[agents] default` where it is set; else `[agents.default]` if there is
    one; else the only agent of the config that is not a runbook; else the built-in llm agent, which
    has no model and says so when it is used.
    """

    default: AgentName | None = None
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
        runbook, default = RunbookAgentSettings(), LlmAgentSettings()
        return {RUNBOOK_AGENT: runbook, DEFAULT_AGENT: default, **self.named}[name]

    def fault(self, name: str | None = None, config: object = "the config") -> str | None:
        """Return why the agent cannot be used and what to do in the file `config`, or None if it can."""
        name = self.resolve(name)
        if name not in self.names:
            available = ", ".join(self.names)
            return f"unknown agent {name!r}; available: {available}; if you have just added it: clew reload"
        match self.get(name):
            case LlmAgentSettings(model="", base_url=url):
                return (
                    f"agent {name!r} has no model; set one in [agents.{name}] of {config}, as in "
                    f'`model = "qwen2.5-coder:7b"` (its `base_url` is {url}), or name another agent'
                )
        return None
