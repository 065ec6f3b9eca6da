"""An LLM endpoint on loopback for benches: notes each request, and answers it or lets the agent wait."""

import asyncio
import json
import re
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple, Self

_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_GOAL = re.compile(rb"worker (\d+)")


class Asked(NamedTuple):
    """One request: when its last byte arrived (s since 1970), of which `worker N`, and its body."""

    at: float
    worker: int
    body: bytes


def tool_call(name: str, usage: dict[str, int] | None = None, **args: Any) -> bytes:
    """Return an HTTP answer that calls one tool."""
    function = {"name": name, "arguments": json.dumps(args)}
    call = {"id": "c1", "type": "function", "function": function}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    answer: dict[str, Any] = {"choices": [{"message": message, "finish_reason": "tool_calls"}]}
    return http_answer(json.dumps(answer | ({"usage": usage} if usage else {})).encode())


def http_answer(body: bytes, status: int = 200) -> bytes:
    """Return an HTTP answer with a body of JSON."""
    head = f"content-type: application/json\r\ncontent-length: {len(body)}"
    return f"HTTP/1.1 {status} Answer\r\n{head}\r\n\r\n".encode() + body


class Endpoint:
    """A context manager; `answer` returns the bytes of an answer, or None to let the agent wait."""

    def __init__(self, answer: Callable[[Asked], bytes | None]) -> None:
        self.answer = answer
        self.asked: list[Asked] = []
        self.url = ""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        serving = asyncio.start_server(self._serve, "127.0.0.1", 0, limit=1 << 22)
        server = asyncio.run_coroutine_threadsafe(serving, self._loop).result(10)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                found = _LENGTH.search(head)
                body = await reader.readexactly(int(found[1]) if found else 0)
                asked = Asked(time.time(), int((_GOAL.search(body) or (0, b"-1"))[1]), body)
                self.asked.append(asked)
                answer = self.answer(asked)
                if answer is None:
                    await reader.read()  # until it hangs up
                    return
                writer.write(answer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()
