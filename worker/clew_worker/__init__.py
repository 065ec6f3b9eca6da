"""The worker: agents that think and propose, the executor that acts, and the agents' library.

It decides nothing about loops and records nothing durable; that is `clew_daemon`, which it never
imports. Each public name is loaded when it is first used, so that importing the package is cheap.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clew_shared.core.answers import WrongState as WrongState
    from clew_shared.ledger import LedgerError as LedgerError
    from clew_shared.playbook.reflector import ExecutionReflector as ExecutionReflector
    from clew_shared.playbook.reflector import Reflection as Reflection
    from clew_shared.playbook.steps import ToolCall as ToolCall
    from clew_shared.prompt.windows import Windows as Windows
    from clew_shared.record.model import Action as Action
    from clew_shared.record.model import Goal as Goal
    from clew_shared.record.model import Subtask as Subtask
    from clew_shared.record.model import Task as Task
    from clew_worker.library.context_manager import ContextManager as ContextManager
    from clew_worker.library.dual_track import DualTrackContext as DualTrackContext
    from clew_worker.library.iteration_log import Intervention as Intervention
    from clew_worker.library.iteration_log import IterationLog as IterationLog
    from clew_worker.library.iteration_log import IterationRecord as IterationRecord
    from clew_worker.library.open_goal import Answer as Answer
    from clew_worker.library.playbook import Bullet as Bullet
    from clew_worker.library.playbook import Playbook as Playbook

_NAMES = {
    "clew_shared.core.answers": "WrongState",
    "clew_shared.ledger": "LedgerError",
    "clew_shared.playbook.reflector": "ExecutionReflector Reflection",
    "clew_shared.playbook.steps": "ToolCall",
    "clew_shared.prompt.windows": "Windows",
    "clew_shared.record.model": "Action Goal Subtask Task",
    "clew_worker.library.context_manager": "ContextManager",
    "clew_worker.library.dual_track": "DualTrackContext",
    "clew_worker.library.iteration_log": "Intervention IterationLog IterationRecord",
    "clew_worker.library.open_goal": "Answer",
    "clew_worker.library.playbook": "Bullet Playbook",
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names.split()}


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
