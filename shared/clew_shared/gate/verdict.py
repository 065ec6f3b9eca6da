"""The gate's words: what is proposed, what a rule may answer, and which numbers it goes by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping


class ToolThresholds(Protocol):
    """Numbers for one tool."""

    @property
    def repeat_limit(self) -> int | None: ...


class Thresholds(Protocol):
    """The `[loops]` table; defaults and meaning stand in `settings`."""

    @property
    def progress_aware(self) -> bool: ...
    @property
    def repeat_limit(self) -> int: ...
    @property
    def transient_limit(self) -> int: ...
    @property
    def max_period(self) -> int: ...
    @property
    def crash_limit(self) -> int: ...
    @property
    def theme_window(self) -> int: ...
    @property
    def thoughts_without_tools(self) -> int: ...
    @property
    def iterations_without_facts(self) -> int: ...
    @property
    def stale_actions(self) -> int: ...
    @property
    def same_error_limit(self) -> int: ...
    @property
    def stuck_limit(self) -> int: ...
    @property
    def tools(self) -> Mapping[str, ToolThresholds]: ...


@dataclass(frozen=True, slots=True)
class Calls:
    """How an agent says that its work is done, or cannot be done: the names of its own calls."""

    done: str = "call complete_subtask"
    failed: str = "complete_subtask with success=false"
    finish: str = "call finish"


PROTOCOL = Calls()
"""The calls of the worker protocol, which the built-in agents' tools are named after."""


@dataclass(frozen=True, slots=True)
class Known:
    """What came of a proposal that is reported after the fact (`record`).

    `idle` is a write that changed nothing or led back to an earlier world.
    """

    outcome: str
    world: str
    progress: bool
    soft: bool
    idle: bool = False


@dataclass(frozen=True, slots=True)
class Proposal:
    """An action that the agent wants to do, or says that it has done; `calls` are what it can do instead."""

    tool: str
    args: dict[str, Any]
    signature: str
    known: Known | None = None
    calls: Calls = PROTOCOL


@dataclass(frozen=True, slots=True)
class Refusal:
    """No, and why; `attempt` counts from 1, `loop` says that this was found now, not known before."""

    reason: str
    message: str
    attempt: int = 0
    evidence: str = ""
    loop: bool = True
    everywhere: bool = False


@dataclass(frozen=True, slots=True)
class Nudge:
    """Yes, with a word that nothing new is to be expected."""

    message: str
    attempt: int
    evidence: str
