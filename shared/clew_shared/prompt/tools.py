"""The tools that an agent's model is offered now, with short schemas.

They are the daemon's (`hello.tools`) and the agent's own: `complete_subtask`, `plan` and `reflect`.
"""

from collections.abc import Mapping
from typing import Any

from clew_shared.prompt.reasoning import RELEVANCES
from clew_shared.tools import BY_NAME, Tool
from clew_shared.wire.hello import HelloAnswer

SMALL_GOAL_CHARS = 280
SMALL_GOAL_LINES = 4


def _object(required: tuple[str, ...], **properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


def _list(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


_TEXT = {"type": "string"}
COMPLETE_SUBTASK = Tool(
    "complete_subtask",
    "The current subtask is done (success=true), or this way failed (success=false).",
    _object(("success", "summary"), success={"type": "boolean"}, summary=_TEXT),
)
_TASK = _object(("description", "subtasks"), description=_TEXT, subtasks=_list(_TEXT))
PLAN = Tool(
    "plan",
    "Split the work into tasks, each with small subtasks, in order.",
    _object(("tasks",), tasks=_list(_TASK)),
)
REFLECT = Tool(
    "reflect",
    "Beside another call: what the last results told you.",
    _object(
        ("insights",),
        insights=_TEXT,
        learning=_TEXT,
        relevance={"type": "string", "enum": list(RELEVANCES)},
        next=_TEXT,
        synthesis=_TEXT,
        assessment={"type": "string", "enum": ["advancing", "stuck", "regressing"]},
    ),
)
_FIRST = ("run_cmd", "read_file", "write_file", "edit_file")
"""The tools that most work begins with stand first: small models reach for what they see first."""


def offered_tools(hello: HelloAnswer) -> tuple[Tool, ...]:
    """Return the tools for the model, most stable first.

    `plan` is left out for small goals, for goals with a plan and for goals already at work; `wait` and `recall`
    are left out for small goals: every tool costs tokens in every turn, and small models call what they see.
    """
    steady = steady_tools(hello)
    if hello.state.replan_required:
        plan = plan_tool(checks=not hello.checks, covers=bool(hello.state.replaceable))
        return (plan, *(t for t in steady if t.name == "finish"))
    if hello.state.planned:
        return (*steady, COMPLETE_SUBTASK)
    if is_small(hello) or hello.state.acted:
        return steady
    return (*steady, plan_tool(checks=not hello.checks))


def plan_tool(*, checks: bool = False, covers: bool = False) -> Tool:
    """Return `plan`; it asks for `checks` of a goal that has none, and for what it `covers` of pending subtasks."""
    text, properties = PLAN.description, dict(PLAN.parameters["properties"])
    if checks:
        text += " checks: shell commands, one line each, that exit 0 when the goal is reached."
        properties["checks"] = _list(_object(("name", "cmd"), name=_TEXT, cmd=_TEXT))
    if covers:
        text += " covers: the numbers of the subtasks not tried yet that this plan replaces."
        properties["covers"] = _list({"type": "integer"})
    return Tool(PLAN.name, text, {**PLAN.parameters, "properties": properties})


def is_small(hello: HelloAnswer) -> bool:
    """Return whether a goal is too small to be worth a plan: a few plain lines."""
    text = hello.state.goal.description + "\n" + hello.notes
    return len(text) <= SMALL_GOAL_CHARS and len(text.strip().splitlines()) <= SMALL_GOAL_LINES


def steady_tools(hello: HelloAnswer) -> tuple[Tool, ...]:
    """Return the daemon's tools as a prompt in json mode lists them: the same all through a goal.

    A small goal without a plan is offered what the shell cannot do as well, with few arguments.
    """
    small, planned = is_small(hello), hello.state.planned
    order = {name: n for n, name in enumerate(_FIRST)}
    return tuple(
        _short(tool, few=small and not planned)
        for tool in sorted(hello.tools, key=lambda one: order.get(one.name, len(order)))
        if not small or _for_small_goals(tool.name, planned=planned)
    )


def _for_small_goals(name: str, *, planned: bool) -> bool:
    tool = BY_NAME.get(name)
    return tool is None or (tool.small_goals and (planned or not tool.in_shell))


def listing(tools: tuple[Tool, ...]) -> str:
    """Return the tools as text, one a line: name, arguments (`?` = optional), description."""
    return "\n".join(f"- {t.name}({_arguments(t)}): {t.description}" for t in tools)


def _arguments(tool: Tool) -> str:
    required = tool.parameters.get("required", ())
    names = tool.parameters.get("properties", {})
    return ", ".join(name if name in required else name + "?" for name in names)


def schema_of(tool: Tool) -> dict[str, Any]:
    """Return a tool in the form of the chat completions API."""
    return {
        "type": "function",
        "function": {
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.parameters,
        },
    }


def _short(tool: Tool, *, few: bool) -> Tool:
    """Return a tool without the parts of its schema that its names already imply: a model reads it every turn.

    With `few` it has the arguments that it needs, and `count`, which an ambiguous edit asks for: small models give
    every argument that a schema names, such as a `max_lines` of 1.
    """
    required = list(tool.parameters.get("required", ()))
    properties = {
        name: _plain_type(schema)
        for name, schema in tool.parameters.get("properties", {}).items()
        if name != "timeout_s" and not (few and name not in (*required, "count"))
    }
    short: dict[str, Any] = {"type": "object", "properties": properties}
    return Tool(tool.name, tool.description, short | ({"required": required} if required else {}))


def _plain_type(schema: Mapping[str, Any]) -> dict[str, Any]:
    if "anyOf" in schema:  # the first of several types is the plain one: `cmd` is a string
        return {"type": schema["anyOf"][0]["type"]}
    kept = {key: schema[key] for key in ("type", "enum", "items") if key in schema}
    return kept or {"type": "string"}
