"""What every supervisor is given to run: python -I -B child.py NAME PIPE KIND. It says when it is ready to work.

`tiny` is bare, `loaded` imports what an agent imports, `parent` has a child of its own, `talker` prints. When it is
ready it writes its name, its pid and the monotonic time to the pipe, and then does nothing. Under clew it is an agent:
it is ready when its `hello` is answered, and gives signs of life.
"""

import os
import signal
import sys
import time

HELLO = b'{"jsonrpc":"2.0","id":1,"method":"hello","params":{"protocol":1,"agent":"child/1"}}\n'
HEARTBEAT = b'{"jsonrpc":"2.0","method":"heartbeat"}\n'
HEARTBEAT_S = 1.0


def main() -> None:
    name, pipe, kind = sys.argv[1:]
    if kind == "loaded":
        import asyncio  # noqa: F401 - what an agent imports

        import openai  # noqa: F401
        import pydantic  # noqa: F401
    if kind == "parent":
        os.posix_spawn("/bin/sleep", ["sleep", "600"], {})
    daemon = int(os.environ.get("CLEW_FD", "-1"))
    if daemon >= 0:
        hello(daemon)
    said = os.open(pipe, os.O_WRONLY)
    os.write(said, f"{name} {os.getpid()} {time.monotonic():.6f}\n".encode())
    os.close(said)
    if daemon >= 0:
        serve(daemon)
    while kind == "talker":
        time.sleep(0.1)
        print("still here", flush=True)
    signal.pause()


def hello(daemon: int) -> None:
    os.write(daemon, HELLO)
    answer = b""
    while not (answer.endswith(b"\n") and b'"result"' in answer):
        answer += os.read(daemon, 65536)


def serve(daemon: int) -> None:
    """Give signs of life until told to stop."""
    import select

    heard = b""
    while b'"stop"' not in heard:
        os.write(daemon, HEARTBEAT)
        if select.select([daemon], [], [], HEARTBEAT_S)[0]:
            heard = os.read(daemon, 65536) or b'"stop"'
    sys.exit(0)


main()
