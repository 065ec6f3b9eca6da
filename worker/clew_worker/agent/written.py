"""Reads what models write: calls as JSON text, where they make no native ones, with schemas to ask for; and plans.

Of arguments only slips with a single plausible meaning are corrected: another common name of a parameter, a value that
is not the text that it should be, an option of 0 where only more is possible. Texts are never rewritten, and all else
stays for the executor to refuse with a reason. A reflection is read whether it is a call, an argument of one, or beside
it; progress never depends on it.
"""

import contextlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypedDict

from clew_shared.prompt.reasoning import as_text
from clew_shared.prompt.view import REFLECT
from clew_shared.record.spec import CHECK_CMD_CHARS, CHECK_NAME_CHARS, SUGGESTED_MAX
from clew_shared.text.shorten import in_one_line
from clew_shared.tools import BY_NAME, Schema, Tool, schema
from clew_shared.wire import protocol
from clew_shared.wire.hello import HelloState
from clew_worker.agent.client import AgentClient

SCANNED_CHARS, STARTS_TRIED = 200_000, 200
CALLS_MAX, PARTS_MAX, FIELD_CHARS = 20, 20, 600
PLAN_PARTS_MAX = 20  # the largest plan that is useful: so many tasks, and subtasks in each
PLAN_DEPTH_MAX, PLAN_READ_MAX = 4, 1_000

_OTHER_NAMES = {
    "path": ("file_path", "filepath", "file", "filename", "file_name", "name"),
    "content": ("contents", "text", "data", "file_text", "body"),
    "cmd": ("command", "commands", "script", "code"),
    "old": ("old_str", "old_string", "old_text", "search", "find"),
    "new": ("new_str", "new_string", "new_text", "replace", "replacement"),
    "pattern": ("query", "regex"),
}
_NAME_KEYS = ("tool", "name", "tool_name", "function", "action")
_ARGS_KEYS = ("args", "arguments", "parameters", "params", "input", "action_input")
_THOUGHT_KEYS = ("thought", "thoughts", "reasoning", "why", "rationale")
_DECODER = json.JSONDecoder(strict=False)  # raw line breaks in strings are a common slip

Hindsight = tuple[dict[str, str], ...]


@dataclass(frozen=True)
class ToolRequest:
    """A call that the model asks for; `fault` says why its arguments cannot be used."""

    name: str
    args: dict[str, Any] = field(default_factory=dict)
    fault: str = ""


@dataclass(frozen=True)
class ModelAnswer:
    """A model's answer: its calls in order, the text besides, its own reflection."""

    calls: tuple[ToolRequest, ...] = ()
    text: str = ""
    hindsight: Hindsight = ()


# ---- what is asked for

RUNGS = 4


def response_format(tools: Sequence[Tool], rung: int, *, reflects: bool = False) -> Schema | None:
    """Return the `response_format` of one rung: a schema per tool, one flat schema, any object, none."""
    reflect = {**REFLECT.parameters, "additionalProperties": False}
    optional = {"reflect": reflect} if reflects else {}
    if rung == 0:
        whole: Schema = {"anyOf": [_call_schema(tool, optional) for tool in tools]}
    elif rung == 1:
        names = {"type": "string", "enum": [tool.name for tool in tools]}
        whole = schema(*optional, tool=names, args={"type": "object"}, **optional)
    else:
        return {"type": "json_object"} if rung == 2 else None
    return {"type": "json_schema", "json_schema": {"name": "call", "schema": whole}}


def _call_schema(tool: Tool, optional: Schema) -> Schema:
    properties = {**_properties(tool)}
    if "content" in properties:  # JSON in a JSON string, all quotes escaped, is beyond small models
        properties["content"] = {"anyOf": [{"type": "string"}, {"type": "object"}]}
    args = {**tool.parameters, "properties": properties, "additionalProperties": False}
    return schema(*optional, tool={"const": tool.name}, args=args, **optional)


# ---- what comes back


def answer_of(calls: Sequence[ToolRequest], text: str) -> ModelAnswer:
    acting, raw = list[ToolRequest](), list[Any]()
    for call in calls:
        args = dict(call.args)
        if call.name == REFLECT.name:
            raw.append(args)
        else:
            told = args.pop(REFLECT.name, None)
            raw += told if isinstance(told, list) else [told]
            acting.append(replace(call, args=args))
    parts = [_part(one) for one in raw[:PARTS_MAX] if isinstance(one, Mapping)]
    return ModelAnswer(tuple(acting[:CALLS_MAX]), text, tuple(filter(None, parts)))


def _part(raw: Mapping[str, Any]) -> dict[str, str]:
    found = {}
    for name, expected in REFLECT.parameters["properties"].items():
        text = in_one_line(as_text(raw.get(name)), FIELD_CHARS)
        if allowed := expected.get("enum"):
            text = text.casefold() if text.casefold() in allowed else ""
        if text:
            found[name] = text
    return found


def read(text: str, tools: Sequence[Tool]) -> tuple[list[ToolRequest], str]:
    """Return the calls in a model's text, and the words besides; never raises."""
    known = {tool.name: tool for tool in tools}
    calls: list[ToolRequest] = []
    words: list[str] = []
    at = 0
    for start, end, value in _objects(text[:SCANNED_CHARS]):
        if found := _calls(value, known):
            calls += found
            words += [value[key] for key in _THOUGHT_KEYS if isinstance(value.get(key), str)]
            words.append(text[at:start])
            at = end
    bare = re.sub(r"```\w*|</?tool_call>", "", "\n".join([*words, text[at:]]))
    return calls, re.sub(r"\n{2,}", "\n", bare).strip(" \n,[]") if calls else text.strip()


def _objects(text: str) -> Iterator[tuple[int, int, dict[str, Any]]]:
    at = 0
    for _ in range(STARTS_TRIED):
        start = text.find("{", at)
        if start < 0:
            return
        at = start + 1
        with contextlib.suppress(ValueError, RecursionError):
            value, at = _DECODER.raw_decode(text, start)
            if isinstance(value, dict):
                yield start, at, value


def _calls(value: Mapping[str, Any], known: Mapping[str, Tool]) -> list[ToolRequest]:
    several, inner = value.get("tool_calls"), value.get("function")
    if isinstance(several, list):
        calls = [call for one in several if isinstance(one, dict) for call in _calls(one, known)]
    else:
        calls = _calls(inner, known) if isinstance(inner, dict) else _call(value, known)
    raw = value.get(REFLECT.name) if calls and len(value) > 1 else None
    parts = raw if isinstance(raw, list) else [raw]
    return [*(ToolRequest(REFLECT.name, p) for p in parts if isinstance(p, dict)), *calls]


def _call(value: Mapping[str, Any], known: Mapping[str, Tool]) -> list[ToolRequest]:
    name = next((value[k] for k in _NAME_KEYS if isinstance(value.get(k), str)), None)
    if name is None:  # `{"write_file": {"path": ...}}`
        name, raw = next(iter(value.items()), ("", None))
        is_call = len(value) == 1 and name in known and isinstance(raw, dict)
        return [request(name, raw, known)] if is_call else []
    name = name.strip().removeprefix("functions.")
    raw = next((value[k] for k in _ARGS_KEYS if k in value), None)
    if raw is None:
        if name not in known:
            return []  # some other object with a `name`, such as a package.json
        reflected = REFLECT.parameters["properties"].keys() - _properties(known[name]).keys()
        used = {*_NAME_KEYS, *_THOUGHT_KEYS, *reflected, REFLECT.name}
        raw = {key: v for key, v in value.items() if key not in used}
        if told := {key: value[key] for key in reflected & value.keys()}:
            return [ToolRequest(REFLECT.name, told), request(name, raw, known)]
    return [request(name, raw, known)]


def request(name: str, raw: Any, known: Mapping[str, Tool]) -> ToolRequest:
    """Return a call with its arguments: an object, an object as a string, or one bare value."""
    tool = known.get(name)
    if isinstance(raw, str):
        with contextlib.suppress(ValueError, RecursionError):  # a bare value, or broken
            raw = _DECODER.decode(raw.strip() or "{}")
    if raw is None:
        return ToolRequest(name)
    if isinstance(raw, dict):
        args = {str(key): v for key, v in raw.items()}
        return ToolRequest(name, fitted(tool, args) if tool else args)
    if isinstance(raw, str) and raw.lstrip().startswith(("{", "[")):  # cut off, or broken
        return ToolRequest(name, {}, f"the arguments of {name} are not valid JSON: {raw[-200:]!r}")
    required = list(tool.parameters.get("required", ())) if tool else []
    if len(required) == 1:
        return ToolRequest(name, {required[0]: raw})
    return ToolRequest(name, {}, f"the arguments of {name} are not a JSON object: {raw!r:.200}")


# ---- arguments


def fitted(tool: Tool, args: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments under the names of the schema, and texts as text."""
    properties = _properties(tool)
    whole = BY_NAME.get(tool.name, tool)  # as it is offered, it may lack limits
    found = dict(args)
    for name in properties:
        other = next((o for o in _OTHER_NAMES.get(name, ()) if o in found), None)
        if name not in found and other is not None and other not in properties:
            found[name] = found.pop(other)
    for name, value in list(found.items()):
        schema = properties.get(name, {})
        if schema.get("type") == "string" or "anyOf" in schema:
            found[name] = _as_text(name, value)
        least = _properties(whole).get(name, {}).get("minimum", 0)
        unset = type(value) is int and value <= 0 < least
        if unset and name not in whole.parameters.get("required", ()):
            del found[name]  # some models fill in each option
    return found


def _properties(tool: Tool) -> Mapping[str, Any]:
    properties: Mapping[str, Any] = tool.parameters.get("properties", {})
    return properties


def _as_text(name: str, value: Any) -> Any:
    """Return a value as the text that is meant by it; a command may also be a list of program and arguments."""
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    if isinstance(value, int | float):
        return str(value)
    lines = isinstance(value, list) and all(isinstance(one, str) for one in value)
    if name == "cmd":
        return value[0] if lines and len(value) == 1 else value
    if name != "content":
        return value
    return "\n".join(value) + "\n" if lines else json.dumps(value, indent=2) + "\n"


# ---- plans

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
