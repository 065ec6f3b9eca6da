"""The tables of `config.toml`: one frozen class each, with its defaults and what each key may be.

Pure data. Where values come from, and how an error in them is reported, is `settings.py`; this file
knows neither TOML nor the environment. Bounds are set at the keys; a bound that spans two keys is
checked at the later one, so that the error has a place.
"""

import re
from typing import Annotated, Literal, get_args

from pydantic import AfterValidator, Field, field_validator

from clew_shared.config.agent_tables import AgentSettings
from clew_shared.config.context_tables import ContextSettings, Ladder, Rung
from clew_shared.config.values import (
    AbsolutePaths,
    AtLeastOne,
    AtLeastTwo,
    PathText,
    Seconds,
    SecondsOrZero,
    Table,
    Texts,
    above,
)
from clew_shared.text.themes import GENERAL, merged, spoken

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

PORT_MAX = 65_535


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
    patience: SecondsOrZero = 3.0
    stuck_limit: AtLeastOne = 3
    ignore: Texts = IGNORED
    themes: Themes = Field(default_factory=dict)
    tools: dict[str, ToolLoopSettings] = Field(default_factory=dict)

    @field_validator("themes")
    @classmethod
    def _with_built_in(cls, value: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        return merged(value)


class AttemptSettings(Table):
    """When an agent that is stuck starts afresh at its subtask, and how (docs/attempts.md)."""

    limit: AtLeastOne = 3
    iterations: AtLeastOne = 10
    adapt: bool = True
    restore: Literal["subtask", "keep"] = "subtask"
    ladder: Ladder = (
        Rung(),
        Rung(temperature=0.7, mode="json"),
        Rung(temperature=0.9),
    )

    def rung(self, attempt: int) -> Rung:
        """Return how an attempt differs, counted from 1; the last rung repeats."""
        return self.ladder[min(attempt, len(self.ladder)) - 1] if self.ladder else Rung()


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


NoticeKind = Literal[
    "blocked",
    "completed",
    "failed",
    "waiting_long",
    "gave_up",
    "ledger_full",
    "daemon_down",
]
"""What `clew herald` can send a message about (docs/herald.md)."""

_CLOCK = r"([01][0-9]|2[0-3]):[0-5][0-9]"


class NotifySettings(Table):
    """Which messages `clew herald` sends, and where and when."""

    urls_file: PathText | None = None
    desktop: bool = True
    on: Annotated[tuple[NoticeKind, ...], Field(strict=False)] = get_args(NoticeKind)
    quiet: str = ""

    @field_validator("on", mode="before")
    @classmethod
    def _without_rejected(cls, value: object) -> object:
        """Pass over a kind of message that clew no longer sends."""
        if isinstance(value, list | tuple):
            return [one for one in value if one != "rejected"]
        return value

    @field_validator("quiet")
    @classmethod
    def _hours(cls, value: str) -> str:
        begin, _, end = value.partition("-")
        if value and (not re.fullmatch(f"{_CLOCK}-{_CLOCK}", value) or begin == end):
            raise ValueError(f'must be hours like "22:00-07:00", or "" for none, not {value!r}')
        return value


class HeraldSettings(Table):
    """Where `clew herald` serves its metrics."""

    listen: str = "127.0.0.1:8421"

    @field_validator("listen")
    @classmethod
    def _loopback(cls, value: str) -> str:
        host, _, port = value.rpartition(":")
        if host not in ("127.0.0.1", "[::1]") or not port.isdecimal() or int(port) > PORT_MAX:
            raise ValueError(f"must be 127.0.0.1:PORT or [::1]:PORT, not {value!r}")
        return value


class WebSettings(Table):
    """Where `clew web` listens, under which other names, and whether its pages may change anything."""

    listen: str = "127.0.0.1:8420"
    hosts: Texts = ()
    read_only: bool = False

    @field_validator("listen")
    @classmethod
    def _address(cls, value: str) -> str:
        if value.startswith("unix:") and len(value) > len("unix:") and "\0" not in value:
            return value
        host, _, port = value.rpartition(":")
        named = re.fullmatch(r"[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\]", host)
        if named is None or not re.fullmatch(r"[0-9]{1,5}", port) or int(port) > PORT_MAX:
            raise ValueError(f"must be HOST:PORT (127.0.0.1:8420) or unix:PATH, not {value!r}")
        return value

    @field_validator("hosts")
    @classmethod
    def _names(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for name in value:
            if not re.fullmatch(r"([A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?", name):
                raise ValueError(
                    f"must hold names of hosts, with a port where it differs (phone.lan:80), not {name!r}"
                )
        return value


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
    agents: AgentSettings = AgentSettings()
    ledger: LedgerSettings = LedgerSettings()
    notify: NotifySettings = NotifySettings()
    herald: HeraldSettings = HeraldSettings()
    web: WebSettings = WebSettings()
    log: LogSettings = LogSettings()
