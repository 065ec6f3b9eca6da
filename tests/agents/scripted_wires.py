"""The three wire formats of `scripted_endpoint`: what a request says, and how a step is written as its answer."""

import json
from dataclasses import dataclass, field

from clew_worker.bridge.clis.cli import TOOLS

SERVER = "clew"


@dataclass(frozen=True)
class Say:
    """The model ends its turn with this text."""

    text: str


@dataclass(frozen=True)
class Call:
    """The model calls a tool: one of clew's by clew's name, any other by its own.

    `args` as a text is the input of a custom tool, which only Codex has.
    """

    tool: str
    args: dict | str = field(default_factory=dict)


def _text(content) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text", "") for part in content or () if isinstance(part, dict))


class Chat:
    """`POST …/chat/completions`."""

    def __init__(self, body: dict):
        messages = body.get("messages", [])
        self.model = body.get("model", "m")
        self.stream = bool(body.get("stream"))
        self.tools = tuple(tool["function"]["name"] for tool in body.get("tools") or ())
        self.results = tuple(_text(m["content"]) for m in messages if m["role"] == "tool")
        self.moves = sum(m["role"] == "assistant" for m in messages)

    def reply(self, step: Say | Call) -> bytes:
        message, why = {"role": "assistant", "content": None}, "tool_calls"
        if isinstance(step, Say):
            message, why = {"role": "assistant", "content": step.text}, "stop"
        else:
            name = f"{SERVER}_{step.tool}" if step.tool in TOOLS else step.tool
            function = {"name": name, "arguments": json.dumps(step.args)}
            call = {
                "index": 0,
                "id": f"call_{self.moves}",
                "type": "function",
                "function": function,
            }
            message["tool_calls"] = [call]
        usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
        usage["prompt_tokens_details"] = {"cached_tokens": 40}
        base = {"id": "c", "created": 1, "model": self.model}
        if not self.stream:
            choice = {"index": 0, "message": message, "finish_reason": why}
            answer = {**base, "object": "chat.completion", "choices": [choice], "usage": usage}
            return json.dumps(answer).encode()
        base["object"] = "chat.completion.chunk"
        first = {"index": 0, "delta": message, "finish_reason": None}
        last = {"index": 0, "delta": {}, "finish_reason": why}
        events = [{**base, "choices": [first]}, {**base, "choices": [last]}]
        return _stream([*events, {**base, "choices": [], "usage": usage}]) + b"data: [DONE]\n\n"


class Responses:
    """`POST …/responses`."""

    def __init__(self, body: dict):
        given = body.get("input") or []
        items = [] if isinstance(given, str) else given
        more = [tool for i in items if i.get("type") == "additional_tools" for tool in i["tools"]]
        self.tools = tuple(n for tool in [*(body.get("tools") or ()), *more] for n in _flat(tool))
        outputs = [i for i in items if i.get("type", "").endswith("_call_output")]
        self.results = tuple(_text(item["output"]) for item in outputs)
        calls = sum(item.get("type", "").endswith("_call") for item in items)
        self.moves = calls + sum(item.get("role") == "assistant" for item in items)

    def reply(self, step: Say | Call) -> bytes:
        if isinstance(step, Say):
            part = {"type": "output_text", "text": step.text, "annotations": []}
            item = {"type": "message", "id": "msg", "role": "assistant", "content": [part]}
        elif isinstance(step.args, str):
            name = step.tool.rpartition("__")[2]
            item = {"type": "custom_tool_call", "id": f"ct_{self.moves}", "name": name}
            item |= {"call_id": f"c_{self.moves}", "input": step.args}
        else:
            item = {"type": "function_call", "id": f"fc_{self.moves}", "call_id": f"c_{self.moves}"}
            item |= {"name": step.tool, "arguments": json.dumps(step.args)}
            if step.tool in TOOLS:
                item["namespace"] = f"mcp__{SERVER}"
            elif "__" in step.tool:
                item["namespace"], item["name"] = step.tool.split("__", 1)
        item["status"] = "completed"
        usage = {"input_tokens": 100, "input_tokens_details": {"cached_tokens": 40}}
        usage |= {"output_tokens": 10, "output_tokens_details": {"reasoning_tokens": 0}}
        usage["total_tokens"] = 110
        response = {"id": f"resp_{self.moves}", "object": "response", "created_at": 1, "model": "m"}
        ended = {**response, "status": "completed", "output": [item], "usage": usage}
        return _stream(
            [
                {"type": "response.created", "response": {**response, "output": []}},
                {"type": "response.output_item.added", "output_index": 0, "item": item},
                {"type": "response.output_item.done", "output_index": 0, "item": item},
                {"type": "response.completed", "response": ended},
            ]
        )


def _flat(tool: dict) -> list[str]:
    """The names of a tool, for a namespace those of its tools as NAMESPACE__TOOL."""
    if tool["type"] != "namespace":
        return [tool.get("name", tool["type"])]
    return [f"{tool['name']}__{one['name']}" for one in tool["tools"]]


class Messages:
    """`POST …/messages`."""

    def __init__(self, body: dict):
        messages = body.get("messages", [])
        self.model = body.get("model", "m")
        self.stream = bool(body.get("stream"))
        self.tools = tuple(tool["name"] for tool in body.get("tools") or ())
        blocks = [b for m in messages if isinstance(m["content"], list) for b in m["content"]]
        found = [block for block in blocks if block.get("type") == "tool_result"]
        self.results = tuple(_text(block.get("content")) for block in found)
        self.moves = sum(message["role"] == "assistant" for message in messages)

    def reply(self, step: Say | Call) -> bytes:
        if isinstance(step, Say):
            block, why = {"type": "text", "text": step.text}, "end_turn"
            empty, delta = {**block, "text": ""}, {"type": "text_delta", "text": step.text}
        else:
            name = f"mcp__{SERVER}__{step.tool}" if step.tool in TOOLS else step.tool
            block = {"type": "tool_use", "id": f"toolu_{self.moves:04d}", "name": name}
            block, empty, why = {**block, "input": step.args}, {**block, "input": {}}, "tool_use"
            delta = {"type": "input_json_delta", "partial_json": json.dumps(step.args)}
        usage = {"input_tokens": 60, "output_tokens": 10}
        usage |= {"cache_creation_input_tokens": 0, "cache_read_input_tokens": 40}
        message = {"id": f"msg_{self.moves}", "type": "message", "role": "assistant"}
        message |= {"model": self.model, "content": [], "stop_reason": None, "stop_sequence": None}
        message["usage"] = usage
        if not self.stream:
            return json.dumps({**message, "content": [block], "stop_reason": why}).encode()
        end = {"stop_reason": why, "stop_sequence": None}
        return _stream(
            [
                {"type": "message_start", "message": message},
                {"type": "content_block_start", "index": 0, "content_block": empty},
                {"type": "content_block_delta", "index": 0, "delta": delta},
                {"type": "content_block_stop", "index": 0},
                {"type": "message_delta", "delta": end, "usage": {"output_tokens": 10}},
                {"type": "message_stop"},
            ]
        )


def _stream(events: list[dict]) -> bytes:
    """Server-sent events; those with a type name it."""
    lines = []
    for event in events:
        named = f"event: {event['type']}\n" if "type" in event else ""
        lines.append(f"{named}data: {json.dumps(event)}\n\n")
    return "".join(lines).encode()


WIRES = {"/chat/completions": Chat, "/responses": Responses, "/messages": Messages}
