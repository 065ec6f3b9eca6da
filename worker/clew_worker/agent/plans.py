"""Reads plans and suggested checks in any of the shapes that models write."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from clew_shared.record.spec import CHECK_CMD_CHARS, CHECK_NAME_CHARS, SUGGESTED_MAX
from clew_shared.wire import protocol
from clew_shared.wire.hello import HelloState
from clew_worker.agent.client import AgentClient

PLAN_PARTS_MAX = 20  # the largest plan that is useful: so many tasks, and subtasks in each
PLAN_DEPTH_MAX, PLAN_READ_MAX = 4, 1_000
_NUMBER = re.compile(r"#?(\d{1,4})(?:[.):].*)?", re.DOTALL)
_NAMES = ("description", "name", "title", "task", "subtask", "step")


class PlanTask(TypedDict):
    """A task of a plan; a subtask has a `description`."""

    description: str
    subtasks: list[dict[str, str]]


Tasks = list[PlanTask]


def read_plan(args: Mapping[str, Any], replan: str | None = None) -> Tasks:
    """Return the tasks of a plan, two levels deep; the replan of a task brings one, with the subtasks of all."""
    raw = next((args[k] for k in ("tasks", "plan", "subtasks", "steps") if args.get(k)), None)
    items = raw[:PLAN_READ_MAX] if isinstance(raw, list) else []
    tasks: Tasks = []
    for item in items if any(map(_inner, items)) else []:
        if inner := _subtasks(_inner(item) or [item]):
            name = _description(item) or inner[0]["description"]
            tasks.append({"description": name, "subtasks": inner})
    if not tasks and (subtasks := _subtasks(items)):  # a bare list of steps
        tasks = [{"description": "Do the work", "subtasks": subtasks}]
    if replan == "task" and tasks:
        joined = [subtask for task in tasks for subtask in task["subtasks"]]
        tasks = [{"description": tasks[0]["description"], "subtasks": joined}]
    return tasks


async def record_plan(daemon: AgentClient, args: Mapping[str, Any], state: HelloState) -> str:
    """Send the daemon the plan in a call's arguments; return what is wrong with it, "" for nothing."""
    replan = state.replan_required
    tasks = read_plan(args, replan)
    if not tasks:
        return 'A plan needs tasks: [{"description": "...", "subtasks": ["...", "..."]}]'
    broadest = max(len(task["subtasks"]) for task in tasks)
    if max(len(tasks), broadest) > PLAN_PARTS_MAX:
        parts = f"{len(tasks)} tasks, {broadest} subtasks in one of them"
        most = f"at most {PLAN_PARTS_MAX} tasks of at most {PLAN_PARTS_MAX} subtasks each"
        return f"The plan is too broad: {parts}. Call plan again with {most}; put small steps together."
    names = [one.description for one in state.replaceable] if replan else []
    more = {"covers": read_covers(args, names)} if replan else {}
    await daemon.call("plan", tasks=tasks, replan=replan, checks=read_checks(args), **more)
    return ""


def _inner(item: Any) -> list[Any]:
    inner = (item.get("subtasks") or item.get("steps")) if isinstance(item, dict) else None
    return inner if isinstance(inner, list) else []


def _subtasks(raw: Sequence[Any], within: str = "", depth: int = 0) -> list[dict[str, str]]:
    """Return the subtasks; one that is nested deeper has the names of those around it before its own."""
    found: list[dict[str, str]] = []
    for item in raw[:PLAN_READ_MAX]:
        name = plain_text(": ".join(filter(None, (within, _description(item)))))
        inner = _inner(item) if depth < PLAN_DEPTH_MAX else []
        found += _subtasks(inner, name, depth + 1) or ([{"description": name}] if name else [])
    return found


def _description(item: Any) -> str:
    if isinstance(item, dict):
        item = next((item[key] for key in _NAMES if isinstance(item.get(key), str)), "")
    return plain_text(item)


def read_checks(args: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return the checks that a plan suggests; invalid ones are left out, since the plan is valid without them."""
    raw = args.get("checks")
    if isinstance(raw, Mapping):
        raw = [{"name": name, "cmd": cmd} for name, cmd in raw.items()]
    found: dict[str, str] = {}
    for n, item in enumerate(raw[:PLAN_READ_MAX] if isinstance(raw, list) else [], start=1):
        one = item if isinstance(item, Mapping) else {"cmd": item}
        cmd = plain_text(one.get("cmd") or one.get("command"))
        name = " ".join(plain_text(one.get("name")).split())[:CHECK_NAME_CHARS] or f"check_{n}"
        if cmd and len(cmd) <= CHECK_CMD_CHARS and (name + cmd).isprintable():
            found.setdefault(name, cmd)
    return [{"name": name, "cmd": cmd} for name, cmd in found.items()][:SUGGESTED_MAX]


def read_covers(args: Mapping[str, Any], names: Sequence[str]) -> list[int]:
    """Return the numbers, from 1, of the subtasks that a plan replaces; models give names and texts, too."""
    raw = args.get("covers")
    if raw == "all":
        return [*range(1, len(names) + 1)]
    numbers = {name.strip().casefold(): n for n, name in enumerate(names, start=1)}
    found: set[int] = set()
    for item in raw[:PLAN_READ_MAX] if isinstance(raw, list) else [raw]:
        text = str(item).strip().casefold() if isinstance(item, int | str) else ""
        leading = _NUMBER.fullmatch(text)
        number = numbers.get(text) or (int(leading[1]) if leading else 0)
        found.add(number if number <= len(names) else 0)
    return sorted(found - {0})


def plain_text(value: Any) -> str:
    """Return a text stripped and bounded; "" for anything else."""
    return value.strip()[: protocol.DESCRIPTION_CHARS_MAX] if isinstance(value, str) else ""


def truth(value: Any) -> bool:
    """Return whether a model meant yes: it may write a truth value as text."""
    if isinstance(value, str):
        return value.strip().lower() not in ("false", "no", "0", "")
    return bool(value)
