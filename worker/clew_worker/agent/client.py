"""The agent's side of the worker protocol, for agents in Python with asyncio; and how an agent ends."""

import asyncio
import contextlib
import itertools
import os
import socket
import sys
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self, TypeVar

from clew_shared.exit_codes import ExitCode
from clew_shared.prompt.messages import plain_args
from clew_shared.wire import protocol
from clew_shared.wire.answers import ActionOutcome, Advanced, AnswerModel, Finished, Judged, Noted
from clew_shared.wire.hello import HelloAnswer

ANSWER_TIMEOUT_S = 8 * 86_400.0  # longer than any answer takes, with its wait for an LLM slot
RETRY_AFTER_MAX_S = 30 * 86_400.0  # the longest wait that an agent may ask for
GAVE_UP = "the agent gave up on this attempt"
RECORD_CHARS, REASON_CHARS = 1_000, 4_000
ENDED = ("stopped", "budget")  # the reasons of a refusal after which nothing more is accepted
_GOODBYE_S = 1.0

A = TypeVar("A", bound=AnswerModel)
Notice = Callable[[Mapping[str, Any]], None]


class RpcError(Exception):
    """The daemon refused a request: `code` as in `clew_shared.wire.protocol` (WRONG_STATE, ...)."""

    def __init__(self, method: str, code: int, message: str) -> None:
        super().__init__(f"{method}: {message}")
        self.code = code
        self.message = message


class Disconnected(Exception):
    """The daemon has closed the connection, or no longer answers."""


class Stopping(Disconnected):
    """The daemon refuses, because it is stopping this worker."""


@dataclass(eq=False)
class CannotContinue(Exception):
    """The agent must stop: `temporary` (a later try may work), or `configuration` (a person must act)."""

    kind: Literal["temporary", "configuration"]
    reason: str
    retry_after_s: float | None = None

    def __str__(self) -> str:
        return self.reason


class AgentClient:
    """A connection to the daemon; use it as `async with AgentClient.from_env() as daemon:`.

    Calls may run concurrently. After `hello` a heartbeat is sent every `heartbeat_s`. `on(method, callback)`
    subscribes to the daemon's notifications (docs/protocol.md).
    """

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._ids = itertools.count(1)
        self._notices: dict[str, list[Notice]] = {}
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._beating = False
        self.closed = asyncio.Event()

    @classmethod
    def from_env(cls) -> Self:
        """Return a client for the connection in `CLEW_FD`; KeyError without one."""
        return cls(socket.socket(fileno=int(os.environ["CLEW_FD"])))

    async def __aenter__(self) -> Self:
        self._sock.setblocking(False)
        opening = asyncio.open_connection(sock=self._sock, limit=protocol.LINE_BYTES_MAX)
        self._reader, self._writer = await opening
        self._tasks.append(asyncio.create_task(self._listen()))
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._writer.close()
        with contextlib.suppress(OSError, TimeoutError):
            await asyncio.wait_for(self._writer.wait_closed(), _GOODBYE_S)

    def on(self, method: str, callback: Notice) -> None:
        self._notices.setdefault(method, []).append(callback)

    # ---- requests

    async def hello(self, agent: str) -> dict[str, Any]:
        """Introduce the agent (`name/version`); returns the goal's state as it is now. Can be called at any time."""
        answer = await self.call("hello", protocol=protocol.PROTOCOL_VERSION, agent=agent)
        if not self._beating:
            self._beating = True
            beat = self._beat(float(answer.get("heartbeat_s") or 1.0))
            self._tasks.append(asyncio.create_task(beat))
        return dict(answer)

    async def greet(self, agent: str) -> HelloAnswer:
        return HelloAnswer.model_validate(await self.hello(agent))

    async def act(self, tool: str, args: Mapping[str, Any], rationale: str = "") -> Judged:
        """Propose an action, which clew carries out where it is allowed."""
        why = {"rationale": rationale} if rationale else {}
        return await self.ask(Judged, "act", tool=tool, args=dict(args), **why)

    async def complete_subtask(self, *, success: bool, summary: str) -> str | None:
        """End the current subtask, or this attempt at it; returns the level to which it was escalated."""
        said = {"failure": "" if success else summary or GAVE_UP, "summary": summary}
        answer = await self.ask(Noted, "complete_subtask", success=success, **said)
        return answer.escalated_to

    async def advance(self) -> bool:
        """Begin the next pending subtask; False where none is left."""
        return (await self.ask(Advanced, "advance")).subtask is not None

    async def finish(self, *, success: bool, summary: str, tests_changed: str = "") -> Finished:
        """End the goal; a success is accepted where its checks pass, and what judges it was not changed."""
        told = {"success": success, "summary": summary, "tests_changed": tests_changed}
        return await self.ask(Finished, "finish", **told)

    async def think(self, text: str, *, has_tool_calls: bool) -> Noted:
        return await self.ask(Noted, "think", text=text, has_tool_calls=has_tool_calls)

    async def reflect(self, usage: Mapping[str, float], record: Mapping[str, object]) -> Noted:
        """Report a turn; one whose record is refused, or too long, is reported with its cost alone: it was a turn."""
        kept = {key: record[key] for key in ("unfinished",) if key in record}
        answer = None
        for sent in (record, kept):
            with contextlib.suppress(RpcError, ValueError):
                answer = await self.call("reflect", usage=usage, **sent)
                break
        return Noted.model_validate(answer or {})

    async def ask(self, answer: type[A], method: str, /, **params: Any) -> A:
        """Send a request and return its answer as a model; raises as `call`."""
        return answer.model_validate(await self.call(method, **params) or {})

    # ---- transport

    async def call(self, method: str, /, **params: Any) -> Any:
        """Send a request, return its result; raises RpcError, Disconnected, and ValueError for one too long."""
        if self.closed.is_set():
            raise Disconnected(f"{method}: the daemon closed the connection")
        request_id = next(self._ids)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[request_id] = answer
        try:
            await self._send(method, params, id=request_id)
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                message = await answer
        except (OSError, TimeoutError) as error:
            raise Disconnected(f"{method}: no answer from the daemon: {error}") from error
        finally:
            self._waiting.pop(request_id, None)
        if fault := message.get("error"):
            code, text = int(fault.get("code", 0)), str(fault.get("message", ""))
            if code == protocol.STOPPING:
                raise Stopping(f"{method}: {text}")
            raise RpcError(method, code, text)
        return message.get("result")

    async def _send(self, method: str, params: Mapping[str, object], **ids: int) -> None:
        """Send a request, or a notification where it has no id; ValueError if it is too long to be sent."""
        line = protocol.line({"jsonrpc": "2.0", **ids, "method": method, "params": params})
        if len(line) > protocol.LINE_BYTES_MAX:
            most = f"at most {protocol.LINE_BYTES_MAX} can be sent: use smaller arguments"
            raise ValueError(f"{method}: a message of {len(line)} bytes; {most}")
        self._writer.write(line)
        await self._writer.drain()

    async def _beat(self, every_s: float) -> None:
        with contextlib.suppress(OSError):  # the daemon is gone
            while True:
                await asyncio.sleep(every_s)
                await self._send("heartbeat", {})

    async def _listen(self) -> None:
        try:
            async for line in self._reader:
                message = protocol.parse(line)
                if "method" in message:
                    for callback in self._notices.get(str(message["method"]), ()):
                        callback(message.get("params") or {})
                    continue
                answer = self._waiting.get(message.get("id") or 0)
                if answer and not answer.done():
                    answer.set_result(message)
        except (OSError, ValueError, protocol.ProtocolError):
            pass  # as good as closed: later bytes have no meaning
        finally:
            self.closed.set()
            for answer in self._waiting.values():
                if not answer.done():
                    answer.set_exception(Disconnected("the daemon closed the connection"))


CallRecord = Mapping[str, object]
Args = Mapping[str, Any]


def call_record(
    tool: str, args: Args, outcome: ActionOutcome | None, *, message: str, rationale: str = ""
) -> CallRecord:
    """Return a call's entry of the iteration record (docs/protocol.md); `message` says why it has no outcome."""
    duration_s = outcome.duration_s if outcome else 0.0
    known = outcome is not None and outcome.result in ("success", "failure", "timeout")
    return {
        "tool": tool,
        "params": plain_args(args, RECORD_CHARS),
        "raw_output": (outcome.output if outcome else message)[:RECORD_CHARS],
        "outcome": outcome.result if outcome and known else "error",
        "execution_time": duration_s,
        "cost": {"tokens": 0, "time": duration_s},
        "tool_selection_rationale": rationale[:RECORD_CHARS],
    }


# ---- the life of an agent of clew's own

Work = Callable[[AgentClient], Coroutine[Any, Any, None]]  # until it is done, or `CannotContinue`


async def live(sock: socket.socket, work: Work) -> int:
    """Run an agent on a connection until it ends, or the daemon wants that; return its exit code."""
    async with AgentClient(sock) as daemon:
        stop_asked = asyncio.Event()
        daemon.on("stop", lambda _: stop_asked.set())
        working = asyncio.create_task(_exit_code(daemon, work))
        ends = [asyncio.create_task(e.wait()) for e in (stop_asked, daemon.closed)]
        await asyncio.wait([working, *ends], return_when=asyncio.FIRST_COMPLETED)
        finished = working.done()
        for task in (working, *ends):
            task.cancel()
        await asyncio.gather(working, *ends, return_exceptions=True)
        return working.result() if finished else ExitCode.OK


async def _exit_code(daemon: AgentClient, work: Work) -> int:
    try:
        await work(daemon)
    except Disconnected:
        return ExitCode.OK
    except CannotContinue as leave:
        kind, reason = leave.kind, leave.reason[:REASON_CHARS]
        try:
            await daemon.call("leave", kind=kind, reason=reason, retry_after_s=leave.retry_after_s)
        except (Disconnected, RpcError):  # the exit code tells the kind
            sys.stderr.write(f"{kind}: {leave.reason}\n")
        return ExitCode.TEMPORARY if kind == "temporary" else ExitCode.CONFIGURATION
    return ExitCode.OK
