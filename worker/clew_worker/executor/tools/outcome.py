"""The input and the result of a tool."""

from collections.abc import Callable
from dataclasses import dataclass

from clew_shared.wire.executor import ToolResult
from clew_worker.executor.commands import Commands
from clew_worker.executor.wire import Wire
from clew_worker.executor.workspace import Workspace


@dataclass(frozen=True)
class ToolContext:
    """What one action works with, and its bounds."""

    workspace: Workspace
    commands: Commands
    wire: Wire
    timeout_s: float
    output_bytes: int
    limit: str = ""
    """The setting that says `timeout_s`."""
    said: Callable[[str], None] = lambda _tail: None
    """Is told what its command has printed last."""


@dataclass(frozen=True)
class ToolOutcome:
    """The outcome of a tool; `exit_code` where it ran a command, `changed` where the tool itself knows."""

    result: ToolResult
    output: str
    exit_code: int | None = None
    changed: bool | None = None
