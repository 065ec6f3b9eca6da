"""A worker of another maker for tests: plain Python that plays a script of a few lines.

It speaks the worker protocol by itself (contract, section 7) and uses nothing of clew. The script is
run with what is defined here: `hello`, `call`, `act`, `say`, `notices`, `epoch`, `raw`.
"""

import json
import os
import queue
import socket
import sys
import threading
from pathlib import Path

ANSWER_TIMEOUT_S = 60


class RefusedError(Exception):
    """The daemon answered with an error."""


stream = socket.socket(fileno=int(os.environ["CLEW_FD"]))
epoch = int(os.environ["CLEW_EPOCH"])
notices = queue.Queue()
answers = queue.Queue()
lock = threading.Lock()
numbers = iter(range(1, 1_000_000))


def raw(data):
    """Send bytes as they are."""
    with lock:
        stream.sendall(data)


def send(**message):
    raw(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


def listen():
    with stream.makefile("rb") as lines:
        for line in lines:
            message = json.loads(line)
            (notices if "method" in message else answers).put(message)
    os._exit(9)  # the daemon is gone


def call(method, **params):
    """Ask and wait for the answer; RefusedError for an error."""
    number = next(numbers)
    send(id=number, method=method, params=params)
    answer = answers.get(timeout=ANSWER_TIMEOUT_S)
    assert answer["id"] == number, answer
    if "error" in answer:
        raise RefusedError(answer["error"]["message"])
    return answer["result"]


def beat(every_s):
    while not stopped.wait(every_s):
        send(method="heartbeat")


stopped = threading.Event()


def hello():
    """Say who is here and keep beating; the daemon's answer."""
    answer = call("hello", protocol=1, agent="player/1")
    threading.Thread(target=beat, args=(answer["heartbeat_s"],), daemon=True).start()
    return answer


def act(tool, **args):
    """Let an action be judged and carried out."""
    return call("act", tool=tool, args=args)


def run(cmd):
    return act("run_cmd", cmd=cmd)


def say(value):
    """Tell the test something: a line of JSON in the daemon's log, of 500 characters at the most."""
    sys.stdout.write(f"say {json.dumps(value)}\n")
    sys.stdout.flush()


def notice(method):
    """Wait for a notification of that name; its params."""
    while True:
        message = notices.get(timeout=ANSWER_TIMEOUT_S)
        if message["method"] == method:
            return message["params"]


def done(summary="done"):
    """Complete the subtask and finish; whether that was accepted."""
    call("complete_subtask", success=True)
    return call("finish", success=True, summary=summary)


threading.Thread(target=listen, daemon=True).start()
code = Path(sys.argv[1]).read_text()
exec(compile(code, sys.argv[1], "exec"), globals())
sys.stdout.flush()
