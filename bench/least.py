"""The least that a step can cost here: the same messages, only recorded and answered.

`python least.py messages|commits|inline STEPS ROUNDS` starts the agent of the step benches and answers it: at once;
when one event a message is durable, by the ledger's writer thread; or the same by the loop's own thread.
"""

import asyncio
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import uvloop

from clew_shared.ledger import Ledger, NewEvent
from clew_shared.ledger.turns import TurnLedger

AGENT = Path(__file__).with_name("agents.py")
BODY = b'{"kind":"action_allowed","at":1795336548.123456,"epoch":1,"tool":"edit"}'.ljust(250)


class Answers(asyncio.Protocol):
    """Answers every message."""

    def __init__(self, sock: socket.socket, ledger: Ledger | TurnLedger | None) -> None:
        self._socket, self._ledger = sock, ledger
        self.over = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        message = json.loads(data)
        if self._ledger is None or message["method"] in ("hello", "finish"):
            self._answer(message["id"], 0)
            return
        entries = [NewEvent("least-7f3a", "action_allowed", BODY)]
        if isinstance(self._ledger, TurnLedger):
            with self._ledger.turn():
                seqs = self._ledger.append(entries)
            self._answer(message["id"], seqs[0])
            return
        (seq,), done = self._ledger.append(entries)
        done.add_done_callback(lambda _: self._answer(message["id"], seq))

    def _answer(self, request: int, seq: int) -> None:
        result = {"verdict": "allowed", "seq": seq, "intervention": None, "escalated_to": None}
        answer = {"jsonrpc": "2.0", "id": request, "result": result}
        self._socket.send(json.dumps(answer, separators=(",", ":")).encode() + b"\n")

    def connection_lost(self, exc: Exception | None) -> None:
        self.over.set_result(exc)


async def serve(what: str, *arguments: str) -> None:
    """Start the agent, and answer it until it ends."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    kinds = {"commits": Ledger, "inline": TurnLedger}
    ledger = kinds[what].open(Path("ledger.db")) if what in kinds else None
    loop = asyncio.get_running_loop()
    with theirs:
        _, answers = await loop.create_connection(lambda: Answers(ours, ledger), sock=ours)
        agent = subprocess.Popen(  # noqa: ASYNC220 - nothing else waits
            [sys.executable, str(AGENT), "step", *arguments],
            env=os.environ | {"CLEW_FD": str(theirs.fileno())},
            pass_fds=[theirs.fileno()],
        )
    await answers.over
    agent.wait()
    if isinstance(ledger, Ledger):
        await ledger.close(10.0)
    elif ledger:
        ledger.close()


if __name__ == "__main__":
    uvloop.run(serve(*sys.argv[1:]))
