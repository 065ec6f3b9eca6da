"""The tables of `config.toml`: one frozen class each, with its defaults and what each key may be.

Pure data, which knows neither TOML nor the environment (`settings.py` does). Bounds are set at the keys; a bound that
spans two keys is checked at the later one, so that the error has a place.
"""

from itertools import pairwise
from typing import Annotated, Literal, get_args

from pydantic import AfterValidator, Field, ValidationInfo

from clew_shared.config.agent_tables import (
    AbsolutePaths,
    AgentName,
    AgentSettings,
    AtLeastOne,
    AtLeastTwo,
    ModeSetting,
    PathText,
    Seconds,
    SecondsOrZero,
    Table,
    Temperature,
    Texts,
    above,
    shaped,
)
from clew_shared.proof.judges import bad_patterns


def patterns(found: tuple[str, ...]) -> tuple[str, ...]:
    """Return patterns of files; ValueError with what is wrong in them."""
    if faults := bad_patterns(found):
        raise ValueError("; ".join(faults))
    return found


FilePatterns = Annotated[Texts, AfterValidator(patterns)]

# fmt: off
IGNORED = (
    ".git", ".hg", ".svn", ".agent_context", "__pycache__", "*.pyc", ".pytest_cache", ".mypy_cache", ".ruff_cache",
    ".hypothesis", ".tox", ".coverage", ".DS_Store", "node_modules/.cache",
)
# fmt: on
"""By-products of tools, which are not part of the world (docs/loops.md)."""

_HOST = r"(?:[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])"
_PORT = r"(?:[0-9]{1,4}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"
_CLOCK = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]"
_ENV_NAME = shaped("[A-Za-z_][A-Za-z0-9_]*", "the name of an environment variable (like LC_ALL)")
_HOST_NAME = shaped(
    f"{_HOST}(?::{_PORT})?", "the name of a host, with a port where it differs (phone.lan:80)"
)
_LEDGER_URL = shaped(
    "sqlite:///(?:/|<state>)[^\\0]*",
    "sqlite:/// with an absolute path (sqlite:////srv/clew/ledger.db) or one below <state>",
)


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
    timeout_s: Annotated[Seconds, above("interval_s")] = 10.0
    stall_timeout_s: Seconds = 600.0


class RestartSettings(Table):
    """Back-off and restart intensity, as in OTP: `max_restarts` in `window_s`."""

    backoff_initial_s: Seconds = 0.1
    backoff_max_s: Annotated[Seconds, above("backoff_initial_s", or_equal=True)] = 60.0
    max_restarts: Annotated[int, Field(ge=0)] = 5
    window_s: Seconds = 60.0
    healthy_after_s: Seconds = 30.0
    stop_grace_s: SecondsOrZero = 10.0


class LimitSettings(Table):
    """What a worker, an action or a goal may use at most."""

    memory_mb: Annotated[int, Field(ge=16)] = 2048
    action_timeout_s: Seconds = 600.0
    runbook_timeout_s: Seconds = 1800.0
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
    env: Annotated[tuple[Annotated[str, _ENV_NAME], ...], Field(strict=False)] = ()


class ToolLoopSettings(Table):
    """Limits of one tool; unset means the limit of `[loops]`."""

    repeat_limit: AtLeastTwo | None = None


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
    same_error_limit: AtLeastTwo = 3
    patience: SecondsOrZero = 3.0
    stuck_limit: AtLeastOne = 3
    ignore: Texts = IGNORED
    tools: dict[str, ToolLoopSettings] = Field(default_factory=dict)


CompactChars = Annotated[int, Field(ge=200)]
PromptTokens = Annotated[int, Field(ge=256)]
ORDERED = ("full_until", "moderate_until", "aggressive_until")
"""Each of these is larger than the one before."""


class Rung(Table):
    """How one attempt differs from the agent's own settings; `agent` names another agent of the config."""

    temperature: Temperature | None = None
    mode: ModeSetting | None = None
    agent: AgentName | None = None

    def __str__(self) -> str:
        """Return the keys that are set, as in `temperature 0.7, mode json`."""
        set_here = self.model_dump(exclude_none=True)
        return ", ".join(f"{key} {value}" for key, value in set_here.items())


Ladder = Annotated[tuple[Rung, ...], Field(strict=False)]


class ModelProfile(Table):
    """What applies to models whose name matches; unset keys are those of `[context]` and of the agent."""

    window: Annotated[int, Field(ge=512)] | None = None  # tokens of prompt and answer together
    max_chars: CompactChars | None = None
    max_tokens: PromptTokens | None = None
    answer_tokens: PromptTokens | None = None
    guidance: bool | None = None
    recent_actions: AtLeastOne | None = None
    full_until: AtLeastOne | None = None
    moderate_until: AtLeastOne | None = None
    aggressive_until: AtLeastOne | None = None
    progress_from: AtLeastOne | None = None
    max_iterations: AtLeastOne | None = None
    mode: ModeSetting | None = None
    temperature: Temperature | None = None
    attempts: AtLeastOne | None = None  # [attempts] limit
    iterations: AtLeastOne | None = None  # [attempts] iterations
    ladder: Ladder | None = None


def _in_order(profile: ModelProfile, info: ValidationInfo) -> ModelProfile:
    """Return a profile whose windows are in order, together with those of `[context]` that it leaves unset."""
    own = {key: getattr(profile, key) for key in ORDERED}
    found = [(key, own[key] or info.data.get(key)) for key in ORDERED if any(own.values())]
    known = [(key, value) for key, value in found if value is not None]
    for (before, low), (after, high) in pairwise(known):
        if high <= low:
            raise ValueError(f"must have a larger `{after}` than `{before}` ({low}), not {high}")
    return profile


def _distinct(models: dict[str, ModelProfile]) -> dict[str, ModelProfile]:
    names = [name.strip().lower() for name in models]
    if same := next((name for name in names if names.count(name) > 1), None):
        raise ValueError(f"must not have two profiles for {same!r}: case makes no difference")
    return models


class ContextSettings(Table):
    """How much an agent's LLM is shown, and from which turn on it is shown less."""

    max_chars: CompactChars = 2000
    max_tokens: PromptTokens = 8000
    answer_tokens: PromptTokens | None = None
    guidance: bool = True
    recent_actions: AtLeastOne = 3
    check_within_s: SecondsOrZero = 10.0
    full_until: AtLeastOne = 10
    moderate_until: Annotated[AtLeastOne, above("full_until")] = 15
    aggressive_until: Annotated[AtLeastOne, above("moderate_until")] = 20
    progress_from: AtLeastOne = 5
    max_iterations: AtLeastOne = 30
    models: Annotated[
        dict[str, Annotated[ModelProfile, AfterValidator(_in_order)]], AfterValidator(_distinct)
    ] = Field(default_factory=dict)


class AttemptSettings(Table):
    """When an agent that is stuck starts afresh at its subtask, and how (docs/attempts.md)."""

    limit: AtLeastOne = 3
    iterations: AtLeastOne = 10
    adapt: bool = True
    restore: Literal["subtask", "keep"] = "subtask"
    ladder: Ladder = (Rung(), Rung(temperature=0.7, mode="json"), Rung(temperature=0.9))

    def rung(self, attempt: int) -> Rung:
        return self.ladder[min(attempt, len(self.ladder)) - 1] if self.ladder else Rung()


class SnapshotSettings(Table):
    """Snapshots of workspaces, for `clew diff` and `clew undo`: whether they are taken, and their limits."""

    enabled: bool = True
    max_mb: AtLeastOne = 2000
    max_file_mb: AtLeastOne = 10


class ProofSettings(Table):
    """How a finish whose checks pass is proved (docs/proof.md): `judges` and `ignore` are patterns of files."""

    mode: Literal["enforce", "say", "off"] = "enforce"
    judges: FilePatterns = ()
    ignore: FilePatterns = ()
    view: Literal["auto", "overlay", "copy"] = "auto"
    copy_mb: AtLeastOne = 2000


class PlaybookSettings(Table):
    """What is learned across goals, and when it is dropped."""

    enabled: bool = True
    max_strategies: AtLeastOne = 50
    min_tool_calls: AtLeastOne = 2
    min_confidence: Annotated[float, Field(ge=0, le=1)] = 0.7
    prune_below: Annotated[float, Field(ge=-1, le=1)] = -0.3


class LedgerSettings(Table):
    """Where the ledger is; `<state>` in the url stands for the state folder."""

    url: Annotated[str, _LEDGER_URL] = "sqlite:///<state>/ledger.db"
    keep_days: Seconds = 90.0


NoticeKind = Literal[
    "blocked", "completed", "failed", "waiting_long", "gave_up", "ledger_full", "daemon_down"
]
"""What `clew herald` can send a message about (docs/herald.md)."""


class NotifySettings(Table):
    """Which messages `clew herald` sends, and where and when."""

    urls_file: PathText | None = None
    desktop: bool = True
    on: Annotated[tuple[NoticeKind, ...], Field(strict=False)] = get_args(NoticeKind)
    quiet: Annotated[
        str, shaped(rf"({_CLOCK})-(?!\1){_CLOCK}|", 'hours like "22:00-07:00", or "" for none')
    ] = ""


class HeraldSettings(Table):
    """Where `clew herald` serves its metrics."""

    listen: Annotated[
        str, shaped(rf"(?:127\.0\.0\.1|\[::1\]):{_PORT}", "127.0.0.1:PORT or [::1]:PORT")
    ] = "127.0.0.1:8421"


class WebSettings(Table):
    """Where `clew web` listens, under which other names, and whether its pages may change anything."""

    listen: Annotated[
        str, shaped(rf"{_HOST}:{_PORT}|unix:[^\0]+", "HOST:PORT (127.0.0.1:8420) or unix:PATH")
    ] = "127.0.0.1:8420"
    hosts: Annotated[tuple[Annotated[str, _HOST_NAME], ...], Field(strict=False)] = ()
    read_only: bool = False


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
    attempts: AttemptSettings = AttemptSettings()
    snapshots: SnapshotSettings = SnapshotSettings()
    proof: ProofSettings = ProofSettings()
    agents: AgentSettings = AgentSettings()
    ledger: LedgerSettings = LedgerSettings()
    notify: NotifySettings = NotifySettings()
    herald: HeraldSettings = HeraldSettings()
    web: WebSettings = WebSettings()
    log: LogSettings = LogSettings()
