"""What a coding agent's bridge costs: python -m bench.bridge [--help].

Real daemons, and a small program in the place of Codex, in a real cell. In turns: `write_file` by a `command` agent on
the worker's socket, and by MCP through relay, gateway and bridge; the time of a call in relay and gateway alone, and
its processor time with a client's; the time from the death of the agent's program to the first line of the next one,
and from the bare start of that program to its first line; daemons at rest without and with a coding agent.
"""

import asyncio
import json
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import psutil
from bench import home, page, runner
from bench.cli_double import Tools
from bench.figures import Recorder, Result
from bench.processes import pss_mb, spent

from clew_daemon.reading.client import call
from clew_worker.bridge import relay
from clew_worker.bridge.gateway import Gateway
from clew_worker.bridge.place import SOCKET as GATEWAY
from clew_worker.bridge.tools import ToolAnswer
from clew_worker.sandbox import interpreter

DOUBLE = Path(__file__).with_name("cli_double.py")
SOCKET, MCP = "act by the worker's socket", "act by MCP"
RELAYED, CPU = "a call in relay and gateway alone", "processor time of that, with the client's"
RESTART, START = "death of the program to the next one's first line", "bare start to the first line"
WITHOUT, WITH = "at rest without a coding agent", "at rest with a coding agent"
SETTLE_S = 5.0
CLI = '[agents.{name}]\nkind = "cli"\ncli = "codex"\nprogram = "{program}"\nargs = {args}\n'


def program(folder: Path) -> Path:
    """Write the program in the place of Codex, and return it."""
    made = folder / "codex"
    made.write_text(f"#!{interpreter.own_python()} -I\n{DOUBLE.read_text()}")
    made.chmod(0o755)
    return made


def config(folder: Path, calls: int) -> str:
    found = home.bench_agent("write", str(calls), own_tools=False)
    for name, args in (("act", ["act", str(calls)]), ("restart", ["restart"])):
        found += CLI.format(name=name, program=program(folder), args=json.dumps(args))
    return found


def taken(place: home.Home, agent: str, number: int) -> list[float]:
    """Let a coding agent work on a goal until it is blocked, and return the figures that it leaves."""
    before = place.count("goal.blocked")
    place.drop(f"{agent}-{number}.md", f"---\nagent: {agent}\n---\n# Goal {agent} {number}\n")
    home.wait_for(lambda: place.count("goal.blocked") > before)
    goal = place.events("goal.blocked")[-1]["goal"]
    took = place.folder / "state/goals" / goal / "cli/home/.codex/sessions/took"
    found: list[float] = json.loads(took.read_text())
    call(place.socket, "cancel", goal=goal)
    return found


def by_socket(place: home.Home, number: int) -> list[float]:
    """Let the `command` agent make its calls, and return their milliseconds, which it prints."""
    over, seen = place.count("goal.failed"), len(place.events("worker.output"))
    place.drop(f"socket-{number}.md", f"---\nagent: bench\n---\n# Goal by socket {number}\n")
    home.wait_for(lambda: place.count("goal.failed") > over)
    lines = [one["line"].split() for one in place.events("worker.output")[seen:]]
    return [float(line[1]) for line in lines if line[0] == "write_file"]


async def relayed(calls: int) -> tuple[float, list[float]]:
    """Return the processor time in ms of a call of a client through a real relay and the gateway, and all times."""

    async def answer(_name: str, _args: Mapping[str, object]) -> ToolAnswer:
        return ToolAnswer("done")

    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{folder}/{GATEWAY}")
        listener.listen()
        async with Gateway(listener, answer):
            return await asyncio.to_thread(_spent_on, folder, calls)


def _spent_on(folder: str, calls: int) -> tuple[float, list[float]]:
    argv = [sys.executable, "-I", "-S", relay.__file__, folder]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        processes = [psutil.Process(), psutil.Process(process.pid)]
        tools = Tools(process)
        before = spent(processes).cpu_s
        took = [tools.call("clew_write", path="w", content=f"{n}\n") for n in range(calls)]
        used_s = spent(processes).cpu_s - before
        assert process.stdin is not None
        process.stdin.close()
    return used_s * 1e3 / calls, took


def bare_start(folder: Path) -> float:
    """Return the milliseconds from the start of the program, outside of clew, to its first line."""
    home_folder = folder / "bare"
    env, began = {"HOME": str(home_folder)}, time.monotonic()
    subprocess.run([program(folder), "start"], env=env, stdout=subprocess.DEVNULL, check=True)
    (line_at,) = json.loads((home_folder / ".codex" / "sessions" / "took").read_text())
    return float((line_at - began) * 1e3)


def compared(options: runner.Options, found: Recorder) -> None:
    with home.disk_folder() as folder, home.temporary(config(folder, options.calls)) as place:
        place.start()
        for number in range(options.rounds + 1):
            into = found if number else Recorder()
            into.add(SOCKET, "ms", *by_socket(place, number))
            into.add(MCP, "ms", *taken(place, "act", number))
            cpu_ms, took = asyncio.run(relayed(10 * options.calls))
            into.add(RELAYED, "ms", *took)
            into.add(CPU, "ms", cpu_ms)
            into.add(RESTART, "ms", *taken(place, "restart", number))
            into.add(START, "ms", bare_start(folder))


def at_rest(options: runner.Options, found: Recorder) -> None:
    """Start daemons in turns, and weigh them when they have come to rest."""
    with home.disk_folder() as folder:
        agent = CLI.format(name="coder", program=program(folder), args="[]")
        for _ in range(options.daemons):
            for state, text in ((WITHOUT, ""), (WITH, agent)):
                with home.temporary(text) as place:
                    place.start()
                    time.sleep(SETTLE_S)
                    daemon = psutil.Process(place.pid)
                    found.add(f"{state}: daemon", "MB", pss_mb([daemon]))
                    found.add(f"{state}: all", "MB", pss_mb([daemon, *daemon.children(True)]))


def text(result: Result) -> tuple[str, ...]:
    """Return the page's part."""
    rows = [(one.name, one) for one in result.series.values()]
    return (result.source, page.table(("", "median (5 to 95 %)"), rows))


def measure(options: runner.Options, found: Recorder) -> None:
    compared(options, found)
    at_rest(options, found)


if __name__ == "__main__":
    counts = {"rounds": (10, "rounds"), "calls": (20, "calls a round"), "daemons": (5, "of each")}
    runner.main(measure, **counts)
