"""An LLM endpoint on loopback for benches: says when each agent asked, and answers or lets it wait as told.

It runs on a loop of its own in a thread; what an answer means is the bench's.
"""

from __future__ import annotations

import asyncio
import json
import re
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Callable

_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_GOAL = re.compile(rb"worker (\d+)")


@dataclass(frozen=True)
class Asked:
    """One request: when its last byte was here (monotonic), and of which `worker N`."""

    at: float
    worker: int


def tool_call(name: str, **args: Any) -> bytes:
    """An HTTP answer that calls one tool."""
    function = {"name": name, "arguments": json.dumps(args)}
    call = {"id": "c1", "type": "function", "function": function}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    body = json.dumps({"choices": [{"message": message, "finish_reason": "tool_calls"}]}).encode()
    head = (
        f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


class Endpoint:
    """Use it as a context manager; `answer` gives the bytes of an answer, None lets the agent wait for ever."""

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
                asked = Asked(time.monotonic(), int((_GOAL.search(body) or (0, b"-1"))[1]))
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
