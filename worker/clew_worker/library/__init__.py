"""The library for agents written in Python, with a daemon or without: its public names."""

from clew_shared.core.answers import WrongState
from clew_shared.ledger.errors import LedgerError
from clew_shared.playbook.playbook import Bullet
from clew_shared.playbook.reflector import ExecutionReflector, Reflection, ToolCall
from clew_shared.record.model import Action, Goal, Subtask, Task
from clew_worker.library.context_manager import ContextManager
from clew_worker.library.dual_track import DualTrackContext
from clew_worker.library.iteration_log import Intervention, IterationLog, IterationRecord
from clew_worker.library.open_goal import Answer
from clew_worker.library.playbook import Playbook

__all__ = [
    "Action", "Answer", "Bullet", "ContextManager", "DualTrackContext", "ExecutionReflector", "Goal",
    "Intervention", "IterationLog", "IterationRecord", "LedgerError", "Playbook", "Reflection",
    "Subtask", "Task", "ToolCall", "WrongState",
]  # fmt: skip
