"""The tools that an agent's model is offered now, with short schemas.

They are the daemon's (`hello.tools`) and the agent's own two: `complete_subtask` and `plan`.
"""

from collections.abc import Mapping
from typing import Any

from clew_shared.tools import BY_NAME, Tool
from clew_shared.wire.hello import HelloAnswer

SMALL_GOAL_CHARS = 280
SMALL_GOAL_LINES = 4

COMPLETE_SUBTASK = Tool(
    "complete_subtask",
    "The current subtask is done (success=true), or this way failed (success=false).",
    {
        "type": "object",
        "properties": {"success": {"type": "boolean"}, "summary": {"type": "string"}},
        "required": ["success", "summary"],
    },
)
PLAN = Tool(
    "plan",
    "Split the work into tasks, each with small subtasks, in order.",
    {
        "type": "object",
        "properties": {
            "tasks": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "description": {"type": "string"},
                        "subtasks": {"type": "array", "items": {"type": "string"}},
                    },
                    "required": ["description", "subtasks"],
                },
            }
        },
        "required": ["tasks"],
    },
)
_CHECKS = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {"name": {"type": "string"}, "cmd": {"type": "string"}},
        "required": ["name", "cmd"],
    },
}
_COVERS = {"type": "array", "items": {"type": "integer"}}

REFLECT = Tool(
    "reflect",
    "Beside another call: what the last results told you.",
    {
        "type": "object",
        "properties": {
            "insights": {"type": "string"},
            "learning": {"type": "string"},
            "relevance": {"type": "string", "enum": ["high", "medium", "low"]},
            "next": {"type": "string"},
            "synthesis": {"type": "string"},
            "assessment": {"type": "string", "enum": ["advancing", "stuck", "regressing"]},
        },
        "required": ["insights"],
    },
)
_FIRST = ("run_cmd", "read_file", "write_file", "edit_file")


def offered_tools(hello: HelloAnswer, *, acted: bool = False) -> tuple[Tool, ...]:
    """Return the tools for the model, most stable first; `acted` where more was done than `hello` shows.

    `plan` is left out for small goals, for goals with a plan and for goals already at work; `wait` and `recall`
    are left out for small goals: every tool costs tokens in every turn, and small models call what they see.
    """
    steady = steady_tools(hello)
    plan = plan_tool(checks=not hello.checks)
    if hello.state.replan_required:
        plan = plan_tool(checks=not hello.checks, covers=bool(hello.state.replaceable))
        return (plan, *(t for t in steady if t.name == "finish"))
    if hello.state.planned:
        return (*steady, COMPLETE_SUBTASK)
    if is_small(hello) or acted or hello.state.acted:
        return steady
    return (*steady, plan)


def plan_tool(*, checks: bool = False, covers: bool = False) -> Tool:
    """Return `plan`; it asks for `checks` of a goal that has none, and for what it `covers` of pending subtasks."""
    text, properties = PLAN.description, dict(PLAN.parameters["properties"])
    if checks:
        text += " checks: shell commands, one line each, that exit 0 when the goal is reached."
        properties["checks"] = _CHECKS
    if covers:
        text += " covers: the numbers of the subtasks not tried yet that this plan replaces."
        properties["covers"] = _COVERS
    return Tool(PLAN.name, text, {**PLAN.parameters, "properties": properties})


def is_small(hello: HelloAnswer) -> bool:
    """Return whether a goal is too small to be worth a plan: a few plain lines."""
    text = hello.state.goal.description + "\n" + hello.notes
    return len(text) <= SMALL_GOAL_CHARS and len(text.strip().splitlines()) <= SMALL_GOAL_LINES


def is_own(tool: Tool) -> bool:
    """Return whether a tool is one of the agent's own, which come and go with the plan."""
    return tool.name in (PLAN.name, COMPLETE_SUBTASK.name)


def steady_tools(hello: HelloAnswer) -> tuple[Tool, ...]:
    """Return the daemon's tools as a prompt in json mode lists them: the same all through a goal."""
    shown = tuple(_short(t) for t in sorted(hello.tools, key=_order))
    if not is_small(hello):
        return shown
    few = (tool for tool in shown if _for_small_goals(tool.name, planned=hello.state.planned))
    return tuple(few) if hello.state.planned else tuple(map(_with_few_arguments, few))


def _for_small_goals(name: str, *, planned: bool) -> bool:
    """Return whether a small goal is offered a tool; without a plan only what the shell cannot do as well."""
    tool = BY_NAME.get(name)
    return tool is None or (tool.small_goals and (planned or not tool.in_shell))


def listing(tools: tuple[Tool, ...]) -> str:
    """Return the tools as text, one a line: name, arguments (`?` = optional), description."""
    return "\n".join(f"- {t.name}({_arguments(t)}): {t.description}" for t in tools)


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


def _order(tool: Tool) -> int:
    """Sort the tools that most work begins with first: small models reach for what they see first."""
    return _FIRST.index(tool.name) if tool.name in _FIRST else len(_FIRST)


def _arguments(tool: Tool) -> str:
    required = tool.parameters.get("required", ())
    return ", ".join(
        name if name in required else name + "?" for name in tool.parameters.get("properties", {})
    )


def _short(tool: Tool) -> Tool:
    """Return a tool without the parts of its schema that its names already imply: a model reads it every turn."""
    properties = {
        name: _plain_type(schema)
        for name, schema in tool.parameters.get("properties", {}).items()
        if name != "timeout_s"
    }
    required = list(tool.parameters.get("required", ()))
    short = {"type": "object", "properties": properties}
    return Tool(tool.name, tool.description, short | ({"required": required} if required else {}))


def _with_few_arguments(tool: Tool) -> Tool:
    """Return a tool with the arguments that it needs, and with `count`, which an ambiguous edit asks for.

    Small models give every argument that a schema names, such as a `max_lines` of 1.
    """
    required = tool.parameters.get("required", ())
    given = tool.parameters["properties"].items()
    properties = {name: schema for name, schema in given if name in (*required, "count")}
    return Tool(tool.name, tool.description, {**tool.parameters, "properties": properties})


def _plain_type(schema: Mapping[str, Any]) -> dict[str, Any]:
    if "anyOf" in schema:  # the first of several types is the plain one: `cmd` is a string
        return {"type": schema["anyOf"][0]["type"]}
    kept = {key: schema[key] for key in ("type", "enum", "items") if key in schema}
    return kept or {"type": "string"}
