"""What a tool is given and what it gives back."""

from dataclasses import dataclass

from clew_shared.wire.cells import ToolResult
from clew_worker.executor.commands import Commands
from clew_worker.executor.wire import Wire
from clew_worker.executor.workspace import Workspace


@dataclass(frozen=True)
class Context:
    """One action's surroundings and bounds."""

    workspace: Workspace
    commands: Commands
    wire: Wire
    request_id: int
    timeout_s: float
    output_bytes: int


@dataclass(frozen=True)
class Outcome:
    """How an action went. `changed` where the tool itself knows."""

    result: ToolResult
    output: str
    exit_code: int | None = None
    changed: bool | None = None
