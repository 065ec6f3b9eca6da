"""A real OpenAI-compatible HTTP server on loopback that plays a script, one reply a request.

No mock: the agent's own client speaks HTTP to it. What it was asked is kept in `requests`.
"""

import http.server
import json
import threading
from dataclasses import dataclass, field

HANG_MAX_S = 60


@dataclass(frozen=True)
class Reply:
    """One HTTP answer; `hang` waits (until the server is closed), `cut` drops the line midway."""

    body: bytes = b"{}"
    status: int = 200
    headers: dict = field(default_factory=dict)
    hang: bool = False
    cut: bool = False


def completion(message, finish_reason="stop"):
    answer = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 0,
        "model": "scripted",
        "choices": [{"index": 0, "message": message, "finish_reason": finish_reason}],
        "usage": {
            "prompt_tokens": 100,
            "completion_tokens": 10,
            "total_tokens": 110,
            "prompt_tokens_details": {"cached_tokens": 50},
        },
    }
    return Reply(json.dumps(answer).encode())


def says(text, finish_reason="stop"):
    return completion({"role": "assistant", "content": text}, finish_reason)


def calls(*pairs, text=None):
    """Answer with native tool calls: (name, args), args as an object or as the raw text."""
    tool_calls = [
        {
            "id": f"c{number}",
            "type": "function",
            "function": {
                "name": name,
                "arguments": args if isinstance(args, str) else json.dumps(args),
            },
        }
        for number, (name, args) in enumerate(pairs)
    ]
    message = {"role": "assistant", "content": text, "tool_calls": tool_calls}
    return completion(message, "tool_calls")


def writes(tool, **args):
    """Answer with a call as JSON text."""
    return says(json.dumps({"tool": tool, "args": args}))


def fails(status, message="", **headers):
    body = json.dumps({"error": {"message": message, "code": status}}).encode()
    named = {key.replace("_", "-"): str(value) for key, value in headers.items()}
    return Reply(body, status, named)


class ScriptedLlm:
    """Plays `script`, then `then` for ever; use it as a context manager."""

    def __init__(self, *script, then=None, port=0):
        self.script = list(script)
        self.then = then or fails(500, "the script is over")
        self.requests = []
        self.headers = []
        self._closing = threading.Event()
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", port), _handler(self))
        self.port = self._server.server_address[1]
        self.base_url = f"http://127.0.0.1:{self.port}/v1"

    def __enter__(self):
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def next_reply(self, body, headers):
        with self._lock:
            self.requests.append(body)
            self.headers.append(headers)
            reply = self.script.pop(0) if self.script else self.then
        if reply.hang:
            self._closing.wait(HANG_MAX_S)
        return reply

    def prompt(self, number=-1):
        """Give all text of a request's messages."""
        return "\n".join(m["content"] or "" for m in self.requests[number]["messages"])

    def offered(self, number=-1):
        """Name the tools of a request, native or by schema."""
        body = self.requests[number]
        if "tools" in body:
            return {tool["function"]["name"] for tool in body["tools"]}
        schema = body["response_format"]["json_schema"]["schema"]
        return {one["properties"]["tool"]["const"] for one in schema["anyOf"]}


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = False
    block_on_close = True

    def handle_error(self, request, client_address):
        """Say nothing: a client that hangs up is part of the play."""


def _handler(llm):
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            length = int(self.headers.get("content-length", 0))
            body = json.loads(self.rfile.read(length))
            reply = llm.next_reply(body, {k.lower(): v for k, v in self.headers.items()})
            self.send_response(reply.status)
            headers = {"content-type": "application/json", **reply.headers}
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(reply.body) + (100 if reply.cut else 0)))
            self.send_header("connection", "close")
            self.end_headers()
            self.wfile.write(reply.body)

        def log_message(self, *_):
            pass

    return Handler
