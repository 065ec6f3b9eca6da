"""The worker: agents that think and propose, the executor that acts, and the agents' library.

It decides nothing about loops and records nothing durable; that is `clew_daemon`, which it never
imports. Each public name is loaded when it is first used, so that importing the package is cheap.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clew_shared.core.answers import WrongState
    from clew_shared.ledger import LedgerError
    from clew_shared.playbook.reflector import ExecutionReflector, Reflection
    from clew_shared.playbook.steps import ToolCall
    from clew_shared.prompt.windows import Windows
    from clew_shared.record.model import Action, Goal, Subtask, Task
    from clew_worker.library.context_manager import ContextManager
    from clew_worker.library.dual_track import DualTrackContext
    from clew_worker.library.iteration_log import Intervention, IterationLog, IterationRecord
    from clew_worker.library.open_goal import Answer
    from clew_worker.library.playbook import Bullet, Playbook
    from clew_worker.library.sync_client import SyncClient

__all__ = [
    "Action",
    "Answer",
    "Bullet",
    "ContextManager",
    "DualTrackContext",
    "ExecutionReflector",
    "Goal",
    "Intervention",
    "IterationLog",
    "IterationRecord",
    "LedgerError",
    "Playbook",
    "Reflection",
    "Subtask",
    "SyncClient",
    "Task",
    "ToolCall",
    "Windows",
    "WrongState",
]

_HOMES = {
    "Action": "clew_shared.record.model",
    "Answer": "clew_worker.library.open_goal",
    "Bullet": "clew_worker.library.playbook",
    "ContextManager": "clew_worker.library.context_manager",
    "DualTrackContext": "clew_worker.library.dual_track",
    "ExecutionReflector": "clew_shared.playbook.reflector",
    "Goal": "clew_shared.record.model",
    "Intervention": "clew_worker.library.iteration_log",
    "IterationLog": "clew_worker.library.iteration_log",
    "IterationRecord": "clew_worker.library.iteration_log",
    "LedgerError": "clew_shared.ledger",
    "Playbook": "clew_worker.library.playbook",
    "Reflection": "clew_shared.playbook.reflector",
    "Subtask": "clew_shared.record.model",
    "SyncClient": "clew_worker.library.sync_client",
    "Task": "clew_shared.record.model",
    "ToolCall": "clew_shared.playbook.steps",
    "Windows": "clew_shared.prompt.windows",
    "WrongState": "clew_shared.core.answers",
}


def __getattr__(name: str) -> Any:
    """Load a public name from its module and keep it."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(home), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
