"""What a prompt is made of: the answer to `hello`, how its model is asked, and the tools that it is offered now.

Agent and daemon have the same answer, so that `clew context` shows what the model is shown. The tools are the daemon's
(`hello.tools`), with short schemas, and the agent's own: `complete_subtask`, `plan` and `reflect`. It knows nothing of
messages (that is `layout`) and nothing of HTTP.
"""

from dataclasses import asdict, dataclass
from typing import Self

from clew_shared.prompt.reasoning import RELEVANCES
from clew_shared.prompt.windows import Window, window_at
from clew_shared.record.spec import Prompt
from clew_shared.tools import IDLE_TOOLS, SHELL_TOOLS, Schema, Tool
from clew_shared.wire.hello import HelloAnswer, HelloState, Mode

CHARS_PER_TOKEN = 4.0
FIXED_CHARS_PER_TOKEN = 3.0  # for shares of the budget: a calibrated one would move what must stay


@dataclass(frozen=True)
class PromptView:
    """All that a prompt shows; equal views give equal bytes."""

    hello: HelloAnswer
    mode: Mode = "tools"
    chars_per_token: float = CHARS_PER_TOKEN
    tightness: int = 0  # how often a server found it too long: each halves the transcript's room
    folded: int = 0  # how many entries are shown as one line each; never decreases within a subtask

    @classmethod
    def on_record(cls, hello: HelloAnswer) -> Self:
        """Return the view of an agent that begins now: mode and token count as last recorded."""
        last, folded = hello.state.prompt or Prompt(), hello.state.folded
        folded = min(folded, len(hello.state.transcript))
        return cls(hello, recorded_mode(hello), last.chars_per_token, last.tightness, folded)

    @property
    def state(self) -> HelloState:
        return self.hello.state

    @property
    def max_tokens(self) -> int:
        return self.hello.options.context.max_tokens

    @property
    def chars_each_token(self) -> float:
        """The calibrated `chars_per_token` in steps of a half, so that a small drift does not move the folds."""
        return max(round(self.chars_per_token * 2), 2) / 2

    def share(self, part: float) -> int:
        """Return the characters of a part of the budget, at least 200."""
        return max(int(self.max_tokens * FIXED_CHARS_PER_TOKEN * part), 200)

    @property
    def implicit(self) -> bool:
        """Whether the goal has no plan: its one subtask bears its description."""
        state = self.state
        is_goal = state.subtask.description == state.goal.description
        return is_goal and len(state.open_subtasks) <= 1 and not state.finished

    @property
    def reflects(self) -> bool:
        """Whether the model may add a `reflect` part to its calls."""
        return self.hello.options.agent.reflection != "off" and not is_small(self.hello)

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools that are offered now, most stable first."""
        steady, own = self.steady, (REFLECT,) if self.reflects and self.mode == "tools" else ()
        if self.state.replan_required:
            return (*self.passing, *(t for t in steady if t.name == "finish"), *own)
        return (*steady, *self.passing, *own)

    @property
    def steady(self) -> tuple[Tool, ...]:
        """The daemon's tools, the same all through a goal; few for small goals, as small models call what they see."""
        small, planned = is_small(self.hello), self.state.planned
        order = {name: n for n, name in enumerate(_FIRST)}
        left_out = {*(IDLE_TOOLS if small else ()), *(SHELL_TOOLS if small and not planned else ())}
        return tuple(
            _short(tool, few=small and not planned)
            for tool in sorted(self.hello.tools, key=lambda one: order.get(one.name, len(order)))
            if tool.name not in left_out
        )

    @property
    def passing(self) -> tuple[Tool, ...]:
        """The tools that come and go; `plan` is there neither for small goals, nor for those planned or at work."""
        state, asks = self.state, not self.hello.checks
        if state.replan_required:
            return (_plan_tool(checks=asks, covers=bool(state.replaceable)),)
        if state.planned:
            return (COMPLETE_SUBTASK,)
        return () if is_small(self.hello) or state.acted else (_plan_tool(checks=asks),)

    @property
    def schemas(self) -> list[Schema]:
        return [] if self.mode == "json" else [schema_of(tool) for tool in self.tools]

    @property
    def window(self) -> Window:
        """How strictly the transcript is cut in this turn; a conversation begins with each subtask and attempt."""
        context, turn = self.hello.options.context, self.state.iteration
        turn = max(turn - self.hello.attempt.from_iteration, 0)
        return window_at(turn, context.full_until, context.moderate_until, context.aggressive_until)


def recorded_mode(hello: HelloAnswer) -> Mode:
    """Return the mode to begin with: the config's, and where that is `auto` what fits the model's answers so far."""
    asked = hello.options.agent.mode
    return asked if asked != "auto" else (hello.state.prompt or Prompt()).mode


# ---- the tools

SMALL_GOAL_CHARS = 280
SMALL_GOAL_LINES = 4


def _object(required: tuple[str, ...], **properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "required": list(required)}


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


_TEXT: Schema = {"type": "string"}
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
_RELEVANCE = {**_TEXT, "enum": list(RELEVANCES)}
_ASSESSMENT = {**_TEXT, "enum": ["advancing", "stuck", "regressing"]}
_FOUND = {"insights": _TEXT, "learning": _TEXT, "relevance": _RELEVANCE}
REFLECT = Tool(
    "reflect",
    "Beside another call: what the last results told you.",
    _object(("insights",), **_FOUND, next=_TEXT, synthesis=_TEXT, assessment=_ASSESSMENT),
)
_FIRST = ("run_cmd", "read_file", "write_file", "edit_file")
"""The tools that most work begins with stand first: small models reach for what they see first."""


def _plan_tool(*, checks: bool = False, covers: bool = False) -> Tool:
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


def listing(tools: tuple[Tool, ...]) -> str:
    """Return the tools as text, one a line: name, arguments (`?` = optional), description."""
    lines = []
    for tool in tools:
        required = tool.parameters.get("required", ())
        names = tool.parameters.get("properties", {})
        arguments = ", ".join(name if name in required else name + "?" for name in names)
        lines.append(f"- {tool.name}({arguments}): {tool.description}")
    return "\n".join(lines)


def schema_of(tool: Tool) -> Schema:
    """Return a tool in the form of the chat completions API."""
    return {"type": "function", "function": asdict(tool)}


def _short(tool: Tool, *, few: bool) -> Tool:
    """Return a tool without what its names imply; `few`: only the arguments that it needs, and `count`."""
    required = list(tool.parameters.get("required", ()))
    properties = {
        name: _plain_type(schema)
        for name, schema in tool.parameters.get("properties", {}).items()
        if name != "timeout_s" and not (few and name not in (*required, "count"))
    }
    short: Schema = {"type": "object", "properties": properties}
    return Tool(tool.name, tool.description, short | ({"required": required} if required else {}))


def _plain_type(schema: Schema) -> Schema:
    if "anyOf" in schema:  # the first of several types is the plain one: `cmd` is a string
        return {"type": schema["anyOf"][0]["type"]}
    kept: Schema = {key: schema[key] for key in ("type", "enum", "items") if key in schema}
    return kept or {"type": "string"}
