"""A model on loopback that calls a list of tools: what a coding agent is proved with, while a block lasts.

Codex sends to `/responses`, Claude Code to `/messages`, opencode to `/chat/completions` (the API references of OpenAI
and Anthropic). Bodies come from a program that is being tested, so every part of them may be missing or wrong.
"""

from __future__ import annotations

import gzip
import json
import threading
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, NamedTuple, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

BODY_BYTES_MAX = 16 << 20
REQUESTS_MAX = 200
"""An agent that asks more often than this gets no more answers: it is in a loop of its own."""
READ_S, POLL_S = 30.0, 0.05
CLEW = "clew_"
"""What the names of clew's tools begin with; each agent makes other names of them."""

Json = dict[str, Any]


class Call(NamedTuple):
    """A call of a tool: one of clew's by clew's name, any other by its own; "" ends the turn with a text."""

    tool: str
    args: Mapping[str, object]


DONE = Call("", {})
SSE = "text/event-stream"


class ScriptedModel:
    """Answers each request with the call that follows those in its conversation; a context manager."""

    def __init__(self, calls: Sequence[Call]) -> None:
        self._calls = tuple(calls)
        self._asked = 0
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(POLL_S,))
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, path: str, body: Json) -> tuple[int, bytes, str]:
        """Return the status, the body and its type; a repeated request gets the same call again."""
        wire = next((wire for end, wire in WIRES.items() if path.endswith(end)), None)
        if wire is None:
            return 404, b"{}", "application/json"
        made = sum(one.get("role") == "assistant" for one in _items(body.get("messages")))
        inputs = _items(body.get("input"))
        made += sum(str(one.get("type", "")).endswith("_call") for one in inputs)
        made += sum(one.get("role") == "assistant" for one in inputs)
        call = self._calls[made] if made < len(self._calls) else DONE
        if not body.get("tools"):  # a title, or a summary
            call = DONE
        self._asked += 1
        if self._asked > REQUESTS_MAX:
            return 429, b"{}", "application/json"
        whole, events = wire(str(body.get("model", "m")), made, call)
        if not body.get("stream"):
            return 200, json.dumps(whole).encode(), "application/json"
        text = ""
        for one in events:
            text += f"event: {one['type']}\n" if "type" in one else ""
            text += f"data: {json.dumps(one)}\n\n"
        return 200, f"{text}{'data: [DONE]' if wire is _chat else ''}\n\n".encode(), SSE


def _items(value: object) -> list[Json]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _chat(model: str, made: int, call: Call) -> tuple[Json, list[Json]]:
    """Return an answer of chat completions, whole and as events."""
    message: Json = {"role": "assistant", "content": "Done."}
    if call.tool:
        name = f"{CLEW}{call.tool}" if call.tool.startswith(CLEW) else call.tool
        function = {"name": name, "arguments": json.dumps(call.args)}
        asked = {"index": 0, "id": f"call_{made}", "type": "function", "function": function}
        message |= {"content": None, "tool_calls": [asked]}
    why = "tool_calls" if call.tool else "stop"
    usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
    base: Json = {"id": f"chat_{made}", "created": 1, "model": model, "object": "chat.completion"}
    whole = base | {"choices": [{"index": 0, "message": message, "finish_reason": why}]}
    base["object"] = "chat.completion.chunk"
    first = {"index": 0, "delta": message, "finish_reason": None}
    last = {"index": 0, "delta": {}, "finish_reason": why}
    events = [base | {"choices": [one]} for one in (first, last)]
    whole["usage"] = usage
    return whole, [*events, base | {"choices": [], "usage": usage}]


def _responses(model: str, made: int, call: Call) -> tuple[Json, list[Json]]:
    """Return an answer of the Responses API, whole and as events."""
    text = {"type": "output_text", "text": "Done.", "annotations": []}
    item: Json = {"type": "message", "id": "msg", "role": "assistant", "content": [text]}
    if call.tool:
        item = {"type": "function_call", "id": f"fc_{made}", "call_id": f"call_{made}"}
        item |= {"name": call.tool, "arguments": json.dumps(call.args)}
        item |= {"namespace": "mcp__clew"} if call.tool.startswith(CLEW) else {}
    item["status"] = "completed"
    usage: Json = {"input_tokens": 100, "output_tokens": 10, "total_tokens": 110}
    usage["input_tokens_details"] = {"cached_tokens": 0}
    usage["output_tokens_details"] = {"reasoning_tokens": 0}
    base: Json = {"id": f"resp_{made}", "object": "response", "created_at": 1, "model": model}
    begun = base | {"status": "in_progress", "output": []}
    ended = base | {"status": "completed", "output": [item], "usage": usage}
    return ended, [
        {"type": "response.created", "response": begun},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": ended},
    ]


def _messages(model: str, made: int, call: Call) -> tuple[Json, list[Json]]:
    """Return an answer of the Messages API, whole and as events."""
    block: Json = {"type": "text", "text": "Done."}
    empty, delta = block | {"text": ""}, {"type": "text_delta", "text": "Done."}
    if call.tool:
        name = f"mcp__clew__{call.tool}" if call.tool.startswith(CLEW) else call.tool
        block = {"type": "tool_use", "id": f"toolu_{made}", "name": name, "input": dict(call.args)}
        empty = block | {"input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(call.args)}
    end = {"stop_reason": "tool_use" if call.tool else "end_turn", "stop_sequence": None}
    message: Json = {"id": f"msg_{made}", "type": "message", "role": "assistant", "model": model}
    message["usage"] = {"input_tokens": 100, "output_tokens": 10}
    begun = message | {"content": [], "stop_reason": None, "stop_sequence": None}
    return message | end | {"content": [block]}, [
        {"type": "message_start", "message": begun},
        {"type": "content_block_start", "index": 0, "content_block": empty},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": end, "usage": {"output_tokens": 10}},
        {"type": "message_stop"},
    ]


WIRES: dict[str, Callable[[str, int, Call], tuple[Json, list[Json]]]] = {
    "/chat/completions": _chat,
    "/responses": _responses,
    "/messages": _messages,
}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = READ_S

    def __init__(self, model: ScriptedModel, *connection: Any) -> None:
        self._model = model
        super().__init__(*connection)

    def do_HEAD(self) -> None:
        self._send(200, b"")

    def do_GET(self) -> None:
        self._send(
            200, b'{"object": "list", "data": [{"id": "m", "object": "model"}], "models": []}'
        )

    def do_POST(self) -> None:
        path = self.path.partition("?")[0]
        try:
            raw = self._body()
            if self.headers.get("content-encoding") == "gzip":
                raw = gzip.decompress(raw)
            body = json.loads(raw)
        except (ValueError, OSError, EOFError, RecursionError):
            body = None
        if path.endswith("/count_tokens"):
            self._send(200, b'{"input_tokens": 100}')
        elif isinstance(body, dict):
            self._send(*self._model.answer(path, body))
        else:
            self._send(400, b"{}")

    def _body(self) -> bytes:
        length = self.headers.get("content-length")
        if length is not None:
            return self.rfile.read(min(int(length), BODY_BYTES_MAX))
        found = bytearray()
        while len(found) < BODY_BYTES_MAX and (size := int(self.rfile.readline(64), 16)):
            found += self.rfile.read(min(size, BODY_BYTES_MAX))
            self.rfile.readline(64)
        self.rfile.readline(64)
        return bytes(found)

    def _send(self, status: int, body: bytes, kind: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name in the base class
        """Print nothing."""
