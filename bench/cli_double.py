"""In the place of Codex: `act N` calls clew's tools and times them, `restart` kills itself once and notes when.

`start` notes when it began, and no more.

Its program is this file with a first line that names an interpreter. Figures go to `.codex/sessions`, which survives.
"""

import json
import os
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

BEGAN = time.monotonic()
SESSIONS = Path(os.environ["HOME"], ".codex", "sessions")


class Tools:
    """An MCP server that was started as a process: clew's relay."""

    def __init__(self, relay):
        self._relay = relay
        self._asked = 0
        info = {"name": "bench", "version": "1"}
        self.ask("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=info)
        self._send(method="notifications/initialized")

    def _send(self, **message):
        self._relay.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self._relay.stdin.flush()

    def ask(self, method, **params):
        self._asked += 1
        self._send(id=self._asked, method=method, params=params)
        while json.loads(line := self._relay.stdout.readline()).get("id") != self._asked:
            pass
        return json.loads(line)["result"]

    def call(self, name, **arguments):
        """Call a tool and return its milliseconds."""
        began = time.perf_counter()
        answer = self.ask("tools/call", name=name, arguments=arguments)
        took_ms = (time.perf_counter() - began) * 1e3
        if answer.get("isError"):
            sys.exit(f"{name}: {answer}")
        return took_ms


def configured():
    """Start the MCP server that the config names."""
    config = tomllib.loads(Path(os.environ["CODEX_HOME"], "config.toml").read_text())
    clew = config["mcp_servers"]["clew"]
    command = [clew["command"], *clew["args"]]
    return Tools(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE))


def event(**fields):
    print(json.dumps(fields), flush=True)


def act(calls):
    tools = configured()
    took = [tools.call("clew_write", path="w", content=f"{n}\n") for n in range(int(calls))]
    (SESSIONS / "took").write_text(json.dumps(took))


def restart():
    died = SESSIONS / "died"
    if not died.exists():
        died.write_text(str(time.monotonic()))
        os.kill(os.getpid(), signal.SIGKILL)
    (SESSIONS / "took").write_text(json.dumps([(BEGAN - float(died.read_text())) * 1e3]))


def start():
    (SESSIONS / "took").write_text(json.dumps([BEGAN]))


MODES = {"act": act, "restart": restart, "start": start}

if __name__ == "__main__":
    SESSIONS.mkdir(parents=True, exist_ok=True)
    event(type="thread.started", thread_id="t")
    mode, *given = (one for one in sys.argv[1:] if one in MODES or one.isdigit())
    MODES[mode](*given)
    event(type="turn.failed", error={"message": "unknown model m"})  # blocks the goal: it is over
