"""What every supervisor runs: python -I -B child.py NAME PIPE KIND. It reports to the pipe when it is ready to work.

`tiny` is bare, `loaded` imports what an agent imports, `parent` has a child of its own, `talker` prints. Under clew it
is an agent: it is ready when its `hello` is answered, and sends heartbeats.
"""

import os
import select
import signal
import sys
import time

HELLO = b'{"jsonrpc":"2.0","id":1,"method":"hello","params":{"protocol":1,"agent":"child/1"}}\n'
HEARTBEAT = b'{"jsonrpc":"2.0","method":"heartbeat"}\n'

name, path, kind = sys.argv[1:]
if kind == "loaded":
    import asyncio  # noqa: F401 - what an agent imports

    import openai  # noqa: F401
    import pydantic  # noqa: F401
if kind == "parent":
    os.posix_spawn("/bin/sleep", ["sleep", "600"], {})
daemon = int(os.environ.get("CLEW_FD", "-1"))
received = b""
if daemon >= 0:
    os.write(daemon, HELLO)
    while not (received.endswith(b"\n") and b'"result"' in received):
        received += os.read(daemon, 65536)
pipe = os.open(path, os.O_WRONLY)
os.write(pipe, f"{name} {os.getpid()} {time.monotonic():.6f}\n".encode())
os.close(pipe)
received = b""
while daemon >= 0 and b'"stop"' not in received:
    os.write(daemon, HEARTBEAT)
    if select.select([daemon], [], [], 1.0)[0]:
        received = os.read(daemon, 65536) or b'"stop"'
while daemon < 0 and kind == "talker":
    time.sleep(0.1)
    print("still here", flush=True)
if daemon < 0:
    signal.pause()
