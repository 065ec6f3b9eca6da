"""Which tools an agent's model is offered now, with schemas made short.

The daemon's tools (`hello.tools`), and the agent's own two: `complete_subtask` and `plan`.
"""

from collections.abc import Mapping
from typing import Any

from clew_shared.wire.tools import Tool

SMALL_GOAL_CHARS = 280
SMALL_GOAL_LINES = 4

COMPLETE_SUBTASK = Tool(
    "complete_subtask",
    "Say that the current subtask is done (success=true), or that this way failed (success=false).",
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
PLAN_WITH_CHECKS = Tool(
    PLAN.name,
    f"{PLAN.description} checks: shell commands, one line each, that exit 0 when the goal is reached.",
    {**PLAN.parameters, "properties": {**PLAN.parameters["properties"], "checks": _CHECKS}},
)
"""The plan of a goal without checks of its own: it is asked for some."""

REFLECT = Tool(
    "reflect",
    "Beside another call: what the last results told you.",
    {
        "type": "object",
        "properties": {
            "insights": {"type": "string"},
            "relevance": {"type": "string", "enum": ["high", "medium", "low"]},
            "next": {"type": "string"},
            "assessment": {"type": "string", "enum": ["advancing", "stuck", "regressing"]},
        },
        "required": ["insights"],
    },
)
_FIRST = ("write_file", "read_file", "edit_file", "run_cmd")
_ONLY_IN_LONG_WORK = ("wait", "recall")


def offered(hello: Mapping[str, Any], *, acted: bool = False) -> tuple[Tool, ...]:
    """List the tools for the model, most stable first; `acted` where more was done than `hello` knows of.

    A small goal is not offered `plan`, nor one that has a plan, nor one at work already; `wait` and
    `recall` are left out of small goals too: each costs every turn, and small models call what
    they see.
    """
    state = hello["state"]
    kept = steady(hello)
    plan = PLAN if hello.get("checks") else PLAN_WITH_CHECKS
    if state.get("replan_required"):
        return (plan, *(t for t in kept if t.name == "finish"))
    if has_plan(state):
        return (*kept, COMPLETE_SUBTASK)
    if is_small(hello) or acted or _has_acted(state):
        return kept
    return (*kept, plan)


def has_plan(state: Mapping[str, Any]) -> bool:
    """Say whether the tree is more than the goal's one implicit subtask."""
    tasks = state["goal"]["tasks"]
    subtasks = [s for t in tasks for s in t["subtasks"]]
    return len(subtasks) != 1 or subtasks[0]["description"] != state["goal"]["description"]


def is_small(hello: Mapping[str, Any]) -> bool:
    """Say whether a goal is too small to be worth a plan: a few plain lines."""
    text = hello["state"]["goal"]["description"] + "\n" + (hello.get("notes") or "")
    return len(text) <= SMALL_GOAL_CHARS and len(text.strip().splitlines()) <= SMALL_GOAL_LINES


def is_own(tool: Tool) -> bool:
    """Tell the agent's own tools, which come and go with the plan, from the daemon's."""
    return tool.name in (PLAN.name, COMPLETE_SUBTASK.name)


def steady(hello: Mapping[str, Any]) -> tuple[Tool, ...]:
    """List the daemon's tools as a prompt in json mode names them: the same all through a goal."""
    given = (_from_dict(raw) for raw in hello.get("tools") or ())
    small = is_small(hello)
    shown = (t for t in given if not (small and t.name in _ONLY_IN_LONG_WORK))
    return tuple(_short(t) for t in sorted(shown, key=_order))


def listing(tools: tuple[Tool, ...]) -> str:
    """Write the tools as text, one a line: name, arguments (`?` = optional), description."""
    return "\n".join(f"- {t.name}({_arguments(t)}): {t.description}" for t in tools)


def schema_of(tool: Tool) -> dict[str, Any]:
    """Give a tool as the chat completions API takes it."""
    return {
        "type": "function",
        "function": {
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.parameters,
        },
    }


def _order(tool: Tool) -> int:
    """Put first what most work begins with: small models reach for what they see first."""
    return _FIRST.index(tool.name) if tool.name in _FIRST else len(_FIRST)


def _has_acted(state: Mapping[str, Any]) -> bool:
    return any(s.get("actions_total") for t in state["goal"]["tasks"] for s in t["subtasks"])


def _from_dict(raw: Mapping[str, Any]) -> Tool:
    return Tool(str(raw["name"]), str(raw.get("description") or ""), dict(raw["parameters"]))


def _arguments(tool: Tool) -> str:
    required = tool.parameters.get("required", ())
    return ", ".join(
        name if name in required else name + "?" for name in tool.parameters.get("properties", {})
    )


def _short(tool: Tool) -> Tool:
    """Drop from a schema what the names already say: a model reads it every turn."""
    properties = {
        name: _plain_type(schema)
        for name, schema in tool.parameters.get("properties", {}).items()
        if name != "timeout_s"
    }
    required = list(tool.parameters.get("required", ()))
    short = {"type": "object", "properties": properties, "required": required}
    return Tool(tool.name, tool.description, short)


def _plain_type(schema: Mapping[str, Any]) -> dict[str, Any]:
    if "anyOf" in schema:  # of several types the first is the plain one: `cmd` is a string
        return {"type": schema["anyOf"][0]["type"]}
    kept = {key: schema[key] for key in ("type", "enum", "items") if key in schema}
    return kept or {"type": "string"}
