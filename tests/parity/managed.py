"""What the tests of `ContextManager` say of a goal: its plan, its actions and its published files."""

import json
from pathlib import Path

from clew_worker import Action, Subtask, Task

GOAL = "Create mathx package with tests"
WRITE = ("write_file", {"path": "mathx/__init__.py", "content": "..."}, "success")
PYTEST = ("run_cmd", {"cmd": ["pytest", "-q"]}, "error")


def planned(ctx, *tasks):
    """Give the goal tasks, each a tuple of its subtasks' names."""
    for i, names in enumerate(tasks or (("Create mathx/__init__.py", "Add add() function"),)):
        task = Task(description=f"Task {i + 1}")
        task.subtasks = [Subtask(description=name) for name in names]
        ctx.state.goal.tasks.append(task)
    return ctx.state.goal.tasks


def published(name):
    text = (Path(".agent_context") / name).read_text()
    return [json.loads(line) for line in text.splitlines()] if "jsonl" in name else json.loads(text)


def signature(name, args, *_):
    return Action(name, args).signature()
