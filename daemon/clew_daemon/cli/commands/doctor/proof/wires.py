"""What coding agents send to their models, and a model's answers: three formats of HTTP bodies. Pure.

Codex sends to `/responses`, Claude Code to `/messages`, opencode to `/chat/completions`. Sources: the API references of
OpenAI and Anthropic. Bodies come from a program that is being tested, so every part of them may be missing or wrong.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

SERVER = "clew"
"""The name of clew's MCP server, from which each agent derives the names of its tools."""

_OWN = f"{SERVER}_"
_USAGE_IN, _USAGE_OUT = 100, 10


@dataclass(frozen=True, slots=True)
class ModelText:
    """The model ends its turn with a text."""

    text: str


@dataclass(frozen=True, slots=True)
class ModelCall:
    """The model calls a tool: one of clew's by clew's name, any other by its own."""

    tool: str
    args: Mapping[str, object] = field(default_factory=dict)


ModelMove = ModelText | ModelCall


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One request to the model: the tools that it is offered, and how many moves it has made in this conversation.

    A request without tools is not part of the conversation: agents ask for titles and summaries beside it.
    """

    model: str
    stream: bool
    tools: tuple[str, ...]
    moves: int


@dataclass(frozen=True, slots=True)
class ModelWire:
    """A format: the end of its path, how a request is read, and how a move is written as the answer to it."""

    path: str
    read: Callable[[Mapping[str, Any]], ModelRequest]
    write: Callable[[ModelRequest, ModelMove], bytes]


def wire_of(path: str) -> ModelWire | None:
    """Return the format of a path, None for one that belongs to none."""
    return next((wire for wire in WIRES if path.partition("?")[0].endswith(wire.path)), None)


def _items(value: object) -> list[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []


def _request(body: Mapping[str, Any], tools: list[str], moves: int) -> ModelRequest:
    return ModelRequest(str(body.get("model", "m")), bool(body.get("stream")), tuple(tools), moves)


# -- chat completions


def _read_chat(body: Mapping[str, Any]) -> ModelRequest:
    functions = [tool.get("function") for tool in _items(body.get("tools"))]
    names = [str(one.get("name", "")) for one in functions if isinstance(one, Mapping)]
    moves = sum(one.get("role") == "assistant" for one in _items(body.get("messages")))
    return _request(body, names, moves)


def _write_chat(request: ModelRequest, move: ModelMove) -> bytes:
    message: dict[str, Any] = {"role": "assistant", "content": None}
    if isinstance(move, ModelText):
        message["content"], why = move.text, "stop"
    else:
        name = f"{SERVER}_{move.tool}" if move.tool.startswith(_OWN) else move.tool
        call = {"index": 0, "id": f"call_{request.moves}", "type": "function"}
        message["tool_calls"] = [
            call | {"function": {"name": name, "arguments": json.dumps(move.args)}}
        ]
        why = "tool_calls"
    usage = {"prompt_tokens": _USAGE_IN, "completion_tokens": _USAGE_OUT}
    usage["total_tokens"] = _USAGE_IN + _USAGE_OUT
    base = {"id": f"chat_{request.moves}", "created": 1, "model": request.model}
    if not request.stream:
        choice = {"index": 0, "message": message, "finish_reason": why}
        return _json(base | {"object": "chat.completion", "choices": [choice], "usage": usage})
    base["object"] = "chat.completion.chunk"
    first = {"index": 0, "delta": message, "finish_reason": None}
    last = {"index": 0, "delta": {}, "finish_reason": why}
    choices: list[list[Any]] = [[first], [last], []]
    events = [base | {"choices": one} for one in choices]
    events[-1]["usage"] = usage
    return _events(events) + b"data: [DONE]\n\n"


# -- responses


def _read_responses(body: Mapping[str, Any]) -> ModelRequest:
    items = _items(body.get("input"))
    names = [name for tool in _items(body.get("tools")) for name in _flat(tool)]
    calls = sum(str(one.get("type", "")).endswith("_call") for one in items)
    return _request(body, names, calls + sum(one.get("role") == "assistant" for one in items))


def _flat(tool: Mapping[str, Any]) -> list[str]:
    """Return the name of a tool; of a namespace those of its tools, as NAMESPACE__TOOL."""
    if tool.get("type") != "namespace":
        return [str(tool.get("name") or tool.get("type", ""))]
    return [f"{tool.get('name')}__{one.get('name')}" for one in _items(tool.get("tools"))]


def _write_responses(request: ModelRequest, move: ModelMove) -> bytes:
    item: dict[str, Any] = {"status": "completed"}
    if isinstance(move, ModelText):
        part = {"type": "output_text", "text": move.text, "annotations": []}
        item |= {"type": "message", "id": "msg", "role": "assistant", "content": [part]}
    else:
        item |= {"type": "function_call", "id": f"fc_{request.moves}"}
        item |= {"call_id": f"call_{request.moves}", "name": move.tool}
        item["arguments"] = json.dumps(move.args)
        if move.tool.startswith(_OWN):
            item["namespace"] = f"mcp__{SERVER}"
    usage: dict[str, Any] = {"input_tokens": _USAGE_IN, "output_tokens": _USAGE_OUT}
    usage |= {"input_tokens_details": {"cached_tokens": 0}}
    usage |= {"output_tokens_details": {"reasoning_tokens": 0}}
    usage["total_tokens"] = _USAGE_IN + _USAGE_OUT
    base = {"id": f"resp_{request.moves}", "object": "response", "created_at": 1}
    begun = base | {"model": request.model, "status": "in_progress", "output": []}
    ended = begun | {"status": "completed", "output": [item], "usage": usage}
    return _events(
        [
            {"type": "response.created", "response": begun},
            {"type": "response.output_item.added", "output_index": 0, "item": item},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": ended},
        ]
    )


# -- messages


def _read_messages(body: Mapping[str, Any]) -> ModelRequest:
    names = [str(tool.get("name", "")) for tool in _items(body.get("tools"))]
    moves = sum(one.get("role") == "assistant" for one in _items(body.get("messages")))
    return _request(body, names, moves)


def _write_messages(request: ModelRequest, move: ModelMove) -> bytes:
    if isinstance(move, ModelText):
        block: dict[str, Any] = {"type": "text", "text": move.text}
        empty, why = block | {"text": ""}, "end_turn"
        delta = {"type": "text_delta", "text": move.text}
    else:
        name = f"mcp__{SERVER}__{move.tool}" if move.tool.startswith(_OWN) else move.tool
        block = {"type": "tool_use", "id": f"toolu_{request.moves}", "name": name}
        block["input"] = dict(move.args)
        empty, why = block | {"input": {}}, "tool_use"
        delta = {"type": "input_json_delta", "partial_json": json.dumps(move.args)}
    message: dict[str, Any] = {"id": f"msg_{request.moves}", "type": "message"}
    message |= {"role": "assistant", "model": request.model, "stop_sequence": None}
    message["usage"] = {"input_tokens": _USAGE_IN, "output_tokens": _USAGE_OUT}
    if not request.stream:
        return _json(message | {"content": [block], "stop_reason": why})
    end = {"stop_reason": why, "stop_sequence": None}
    return _events(
        [
            {
                "type": "message_start",
                "message": message | {"content": [], "stop_reason": None},
            },
            {"type": "content_block_start", "index": 0, "content_block": empty},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": end, "usage": {"output_tokens": _USAGE_OUT}},
            {"type": "message_stop"},
        ]
    )


def _json(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value).encode()


def _events(events: list[dict[str, Any]]) -> bytes:
    """Return server-sent events; those with a type are named by it."""
    parts = []
    for event in events:
        named = f"event: {event['type']}\n" if "type" in event else ""
        parts.append(f"{named}data: {json.dumps(event)}\n\n")
    return "".join(parts).encode()


WIRES = (
    ModelWire("/chat/completions", _read_chat, _write_chat),
    ModelWire("/responses", _read_responses, _write_responses),
    ModelWire("/messages", _read_messages, _write_messages),
)
