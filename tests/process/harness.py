"""A clew home and the real daemons that live on it, one after the other, for tests.

It waits for lines of the log, always with a deadline, and sees to it that nothing is left over: this
process is made a subreaper, so that whatever outlives a daemon becomes its child and is found.
"""

import contextlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, TextIO

from forge import Forge, Process
from of_proc import become_subreaper, children, title

from clew_daemon import cli
from clew_daemon.reading.client import NoDaemon, RequestRefused, call
from clew_shared.ledger.reader import Reader

DEADLINE_S = 60.0
POLL_S = 0.01
PLAYER = Path(__file__).parent / "agents" / "player.py"

PATCHED = """
import sys
{patch}
from clew_daemon.cli import main
sys.argv = ["clew", *sys.argv[4:]]
main()
"""

CONFIG = {
    "daemon": {"settle_s": 0.02, "sweep_s": 0.5},
    "heartbeat": {"interval_s": 0.2, "timeout_s": 20.0},
    "restart": {"backoff_initial_s": 0.01, "backoff_max_s": 0.05}
    | {"max_restarts": 30, "stop_grace_s": 1.0},
    "sandbox": {"mode": "best_effort"},
}


class Clew:
    """One home; `start` and `kill` as often as one likes."""

    def __init__(
        self, folder: Path, config: dict | None = None, forge: Forge | None = None
    ) -> None:
        self.folder = folder
        self.forge = forge
        self.home = folder / "home"
        self.home.mkdir(parents=True, exist_ok=True)
        self.ledger = self.home / "state" / "ledger.db"
        self.log = folder / "log.jsonl"
        self.out = self.log  # what the daemon prints: its log
        self.daemon: subprocess.Popen | Process | None = None
        self.options = ["--home", str(self.home)]
        self.tmp = folder / "tmp"  # what a killed process leaves there goes with the test
        self.tmp.mkdir(exist_ok=True)
        self.env: dict[str, str | None] = {"TMPDIR": str(self.tmp)}  # None: unset
        self.events: list[dict] = []
        self._read = 0
        self._before = set(children())
        self.config = {table: dict(keys) for table, keys in CONFIG.items()}
        self.configure(config or {})

    def configure(self, tables: dict) -> None:
        """Change keys of the config: {"table.key": value}."""
        for name, value in tables.items():
            table, key = name.rsplit(".", 1)
            self.config.setdefault(table, {})[key] = value
        lines = []
        for table, keys in self.config.items():
            lines.append(f"[{table}]")
            lines += [f"{key} = {toml(value)}" for key, value in keys.items()]
        (self.home / "config.toml").write_text("\n".join(lines) + "\n")

    def agent(self, name: str, body: str, **keys: object) -> str:
        """Make a worker command of a few lines of Python; what they may use stands in player.py."""
        folder = self.folder / "agents"
        folder.mkdir(exist_ok=True)
        script = folder / f"{name}.py"
        script.write_text(textwrap.dedent(body))
        command = [sys.executable, "-I", "-B", str(PLAYER), str(script)]
        table = {"kind": "command", "command": command, **keys}
        self.configure({f"agents.{name}.{key}": value for key, value in table.items()})
        return name

    def model(self, server: Any, name: str = "scripted", **keys: object) -> None:
        """Make an llm agent of that name whose endpoint is a scripted server."""
        table = {"kind": "llm", "base_url": server.base_url, "model": name, "mode": "tools", **keys}
        self.configure({f"agents.{name}.{key}": value for key, value in table.items()})

    def drop(self, text: str | bytes, name: str = "goal.md") -> None:
        """Put a file into the inbox, at once."""
        inbox = self.home / "inbox"
        inbox.mkdir(exist_ok=True)
        part = inbox / f".{name}.part"
        part.write_bytes(text if isinstance(text, bytes) else text.encode())
        part.rename(inbox / name)

    def submit(self, text: str, name: str = "goal.md") -> str:
        """Drop a goal and wait until it is accepted; its id."""
        since = self.now()
        self.drop(textwrap.dedent(text), name)
        return self.wait("goal.accepted", since=since, file=name)["goal"]

    def completed(self, text: str, name: str = "goal.md") -> str:
        """Submit a goal and wait until it is completed; its id."""
        goal = self.submit(text, name)
        self.wait("goal.completed", goal=goal)
        return goal

    def over(self, text: str, name: str = "goal.md") -> str:
        """Submit a goal and wait until it is completed and its worker has ended; its id."""
        goal = self.completed(text, name)
        self.no_worker(goal)
        return goal

    def no_worker(self, goal: str) -> None:
        self.until(lambda: not self.goal(goal)["pid"], "the end of the worker")

    def start(self, *, ready: bool = True, under: tuple = (), **env: str) -> "Clew":
        """Start a daemon, by the program and arguments `under` where it is to be run by another one."""
        since = self.now()
        with self.out.open("ab") as out:
            self.daemon = self.launch([*under, *self.command("run")], out, **env)
        if ready:
            self.wait("daemon.ready", since=since)
        return self

    def start_patched(self, patch: str, **env: str) -> "Clew":
        """Start a daemon in whose process some lines of Python are carried out first."""
        return self.start(under=(sys.executable, "-c", PATCHED.format(patch=patch)), **env)

    def launch(
        self, command: list[str], out: Any, given: str = "", **more: str
    ) -> subprocess.Popen | Process:
        """Start a command that prints into a file, forked where that is the same, with more variables."""
        env = self.environment() | more
        with tempfile.TemporaryFile() as text:
            text.write(given.encode())
            text.seek(0)
            if self.forge and self.forge.can(command, env):
                return self.forge.start(command, env, [text.fileno(), out.fileno(), out.fileno()])
            return subprocess.Popen(command, stdin=text, stdout=out, stderr=out, env=env)

    def beside(self, command: list[str], given: str = "", **more: str) -> tuple[Any, TextIO]:
        """Launch a command that lives on when the daemon ends; the process, and what reads its words."""
        read, write = os.pipe()
        with os.fdopen(write, "wb") as out:
            process = self.launch(command, out, given, **more)
        self._before.add(process.pid)  # no leftover of the daemon
        return process, os.fdopen(read)

    def command(self, *args: str) -> list[str]:
        return [sys.executable, "-m", "clew_daemon", *self.options, *args]

    def environment(self) -> dict[str, str]:
        usual = {k: v for k, v in os.environ.items() if not k.startswith(("CLEW_", "NOTIFY_"))}
        return {k: v for k, v in (usual | self.env).items() if v is not None}

    def kill(self) -> None:
        """SIGKILL the daemon, and wait until nothing of it is left."""
        assert self.daemon is not None
        self.daemon.kill()
        self.daemon.wait(DEADLINE_S)
        self.assert_alone()

    def stop(self, signum: int = signal.SIGTERM) -> int:
        """Stop the daemon by a signal, and wait until nothing of it is left; its exit code."""
        assert self.daemon is not None
        self.daemon.send_signal(signum)
        code = self.daemon.wait(DEADLINE_S)
        self.assert_alone()
        return code

    def assert_alone(self) -> None:
        """All processes of the tree are gone; what just dies is given a moment."""

        def left() -> str:
            return f"left over: {[(pid, title(pid)) for pid in self._left()]}"

        until(lambda: not self._left(), "the end of all processes", left)

    def _left(self) -> list[int]:
        left = []
        others = {self.daemon.pid if self.daemon else 0, Forge.pid}
        for pid in set(children()) - self._before - others:
            with contextlib.suppress(ChildProcessError):
                if os.waitpid(pid, os.WNOHANG)[0] == 0:
                    left.append(pid)
        return left

    def close(self) -> None:
        """End what runs, whatever became of the test: a daemon that is left over is killed, and takes all along."""
        if self.daemon and self.daemon.poll() is None:
            self.daemon.kill()
            self.daemon.wait()
        for pid in self._left():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)

    def now(self) -> int:
        """The place in the log that has been reached."""
        with contextlib.suppress(FileNotFoundError), self.log.open("rb") as file:
            file.seek(self._read)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                self._read += len(line)
                with contextlib.suppress(ValueError):
                    # a daemon killed while it wrote leaves half a line, and the next one's follows
                    self.events.append(json.loads(line[max(line.rfind(b'{"timestamp"'), 0) :]))
        return len(self.events)

    def seen(self, event: str, *, since: int = 0, **fields: object) -> list[dict]:
        """The lines of that event and with those fields."""
        self.now()
        wanted = {"event": event, **fields}
        return [e for e in self.events[since:] if all(e.get(k) == v for k, v in wanted.items())]

    def wait(self, event: str, *, since: int = 0, count: int = 1, **fields: object) -> dict:
        """Wait until a line of that event was logged `count` times; gives the last of these."""
        deadline = time.monotonic() + DEADLINE_S
        while len(found := self.seen(event, since=since, **fields)) < count:
            dead = self.daemon is None or self.daemon.poll() is not None
            late = time.monotonic() > deadline
            if (dead or late) and len(self.seen(event, since=since, **fields)) < count:
                raise AssertionError(
                    f"no {event} {fields} ({'the daemon is dead' if dead else 'in time'}):\n"
                    + self._tail()
                )
            time.sleep(POLL_S)
        return found[count - 1]

    def _tail(self) -> str:
        return self.log.read_text(errors="replace")[-6000:]

    def said(self, goal: str, *, count: int = 1) -> list:
        """Wait until the goal's agents have said so many things by `say`; gives them all."""
        return self.until(lambda: len(said := self._said(goal)) >= count and said, "what is said")

    def _said(self, goal: str) -> list:
        lines = [e["line"] for e in self.seen("worker.output", goal=goal)]
        return [json.loads(line[4:]) for line in lines if line.startswith("say ")]

    def until(self, condition, what: str = "the condition") -> Any:
        """Wait until a function gives something true; that."""
        return until(condition, what, self._tail)

    def ask(self, method: str, **params: object) -> dict:
        return call(self.home / "run" / "control.sock", method, **params)

    def rows(self, goal: str | None = None) -> list[Any]:
        """The rows of the ledger, of a goal or all, as far as they are durable."""
        with Reader.open(self.ledger) as reader:
            return [*(reader.read_all() if goal is None else reader.read(goal))]

    def goals(self) -> dict[str, dict]:
        return {goal["id"]: goal for goal in self.ask("status")["goals"]}

    def goal(self, goal: str) -> dict:
        return self.goals()[goal]

    def answers(self) -> bool:
        try:
            return bool(self.ask("ping")["ready"])
        except (NoDaemon, RequestRefused):  # it cannot tell who asks without a descriptor
            return False

    def clew(self, *args: str, code: int | None = 0, given: str = "", under: tuple = ()) -> str:
        """Run the command line; its standard output (and errors, where it fails)."""
        command, env = [*under, *self.command(*args)], self.environment()
        if self.forge and self.forge.can(command, env):
            done = self.forge.run(command, env, given, DEADLINE_S)
        else:
            piped = {"input": given, "capture_output": True, "text": True, "env": env}
            done = subprocess.run(command, timeout=DEADLINE_S, check=False, **piped)
        assert code in (done.returncode, None), done.stdout + done.stderr
        return done.stdout if code == 0 else done.stdout + done.stderr

    def cli(self, *args: str, code: int = 0) -> str:
        """Run the command line within this process, which saves a start of Python; all it printed."""
        said = io.StringIO()
        said.reconfigure = lambda **_: None
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            assert cli.run(["--home", str(self.home), *args]) == code, said.getvalue()
        return said.getvalue()

    def verified(self) -> bool:
        return bool(json.loads(self.cli("verify", "--json"))["ok"])

    def agent_pid(self, goal: str) -> int:
        """The agent of the goal's latest epoch."""
        self.wait("worker.started", goal=goal)
        return int(self.seen("worker.started", goal=goal)[-1]["pid"])

    def kill_agent(self, goal: str, signum: int = signal.SIGKILL) -> None:
        os.kill(self.agent_pid(goal), signum)

    def executor_pid(self, goal: str) -> int:
        """The goal's executor, the payload of a cell, by its title: what it works in shows root alone."""

        def found() -> list[int]:  # the kernel's lists of children may leave one out
            cells = [child for guard in children(self.daemon.pid) for child in children(guard)]
            names = (f"clew: executor {goal} ", f"clew: view {goal} ")
            return [pid for pid in cells if title(pid).startswith(names)]

        return self.until(found, "its executor")[0]

    def workspace(self, goal: str) -> Path:
        return self.home / "workspaces" / goal

    def lines(self, goal: str, name: str) -> list[str]:
        path = self.workspace(goal) / name
        return path.read_text().splitlines() if path.exists() else []

    def state(self, goal: str) -> dict:
        return json.loads((self.workspace(goal) / ".agent_context" / "state.json").read_text())

    def history(self, goal: str) -> list[dict]:
        """history.jsonl as it stands."""
        return [json.loads(line) for line in self.lines(goal, ".agent_context/history.jsonl")]

    def report(self, goal: str) -> str:
        path = self.home / "outbox" / f"{goal}.md"
        self.until(path.exists, f"the report {path}")
        return path.read_text()


@contextlib.contextmanager
def left_alone(made: list) -> Iterator[None]:
    """Close the homes that are `made` meanwhile, and see that none had an unexpected error or left a process."""
    become_subreaper()
    try:
        yield
    finally:
        for one in made:
            one.close()
        become_subreaper(on=False)
    for one in made:
        bugs = one.seen("daemon.bug") + one.seen("goal.run_failed")
        assert not bugs, bugs
        one.assert_alone()


def runbook(*commands: str, title: str = "Take steps", **front: object) -> str:
    """Write a goal whose steps are shell commands, with keys of front matter."""
    keys = "".join(f"{key}: {value}\n" for key, value in front.items())
    items = "".join(
        f"- [ ] Step {n}\n  ```sh\n{textwrap.indent(one, '  ')}\n  ```\n"
        for n, one in enumerate(commands)
    )
    return f"---\n{keys}---\n# {title}\n\n## Steps\n{items}"


def until(condition, what: str = "the condition", seen=lambda: "") -> Any:
    """Wait until a function gives something true; that."""
    pause, deadline = POLL_S, time.monotonic() + DEADLINE_S
    while not (found := condition()):
        assert time.monotonic() < deadline, f"{what} did not come about:\n{seen()}"
        time.sleep(pause)
        # a look may cost the daemon more than what is waited for
        pause = min(pause * 1.3, 10 * POLL_S)
    return found


def toml(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {toml(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False)  # the same for what else stands in these configs


def remove_at_once(folder: Path) -> None:
    """Remove a folder in which something may still be writing, which keeps `rmtree` alone from ending."""
    aside = folder.with_name(f".{folder.name}.removed")
    folder.rename(aside)
    shutil.rmtree(aside, ignore_errors=True)


forge = cache(Forge)  # The process that forks daemons for all tests of this process
