"""`clew demo`: sample goals in a temporary home, with a real daemon and real workers; `--chaos` kills these."""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from string import Template

import click
import psutil

from clew_daemon.cli import parameters
from clew_daemon.cli.commands import stubborn_agent
from clew_daemon.cli.commands.verify import check_ledger
from clew_daemon.cli.commands.watch import unwinding_on_sigterm, watch
from clew_daemon.reading import submission
from clew_daemon.reading.client import ask
from clew_daemon.reading.errors import CliError
from clew_daemon.reading.instance import Instance
from clew_daemon.reading.sanitize import clean
from clew_daemon.record.goal_view import GoalDetail
from clew_shared.exit_codes import ExitCode

REPORT_S, DEMO_S, ACCEPT_S = 30.0, 180.0, 20.0
START_S, STOP_S = 30.0, 20.0
POLL_S = 0.05
KILLS_MIN = 3
LOG_LINES_SHOWN = 5
PAUSE_S = 0.4  # the length of each step, so that there is something to see, and to kill
FILES = Path(__file__).parents[1] / "demo_files"


@parameters.command(parameters.flag("--chaos", "Kill the workers several times on the way."))
def demo(_: Instance, chaos: bool) -> None:
    """Show clew at work on a sample goal; needs no LLM, and leaves nothing behind."""
    with unwinding_on_sigterm():  # a daemon in it must be stopped, and its home removed
        home = Path(tempfile.mkdtemp(prefix="clew-demo-"))
        try:
            raise click.exceptions.Exit(0 if _played(home, chaos=chaos) else ExitCode.FAILED)
        finally:
            shutil.rmtree(home, ignore_errors=True)


def _played(home: Path, *, chaos: bool) -> bool:
    """Play the demo in `home`; return whether all goals were completed and the ledger verifies."""
    instance = Instance(home, {"HOME": os.environ.get("HOME", str(home))})
    killer = WorkerKiller()
    deadline = time.monotonic() + DEMO_S

    def each(details: Sequence[GoalDetail]) -> None:
        if time.monotonic() > deadline:
            raise CliError(f"the goals did not end within {DEMO_S:g} s")
        if chaos:
            killer.kill(details)

    files = furnish(home, sys.executable)
    with own_daemon(instance, home) as pid:
        print(f"daemon: pid {pid}, in a temporary home: {home}", flush=True)
        given = submission.drop_all(instance, files.items())
        submission.await_decisions(instance, given, ACCEPT_S)
        for one in given:
            if one.goal is None:
                raise CliError(one.error or f"{one.path.name} was not accepted in {ACCEPT_S:g} s")
        goals = [one.goal for one in given if one.goal]
        passed = watch(instance, goals, each)
        for report in [instance.places.outbox / f"{goal}.md" for goal in goals]:
            if not _reached(report.exists, REPORT_S):
                raise CliError(f"there is no report {report}")
            text = clean(report.read_text(encoding="utf-8"), lines=True)
            print(f"\n---- outbox/{report.name}\n{text}")
    found = check_ledger(instance.ledger)
    print(f"ledger: {f'ok, {found.events} events' if found.ok else f'error: {found.fault}'}")
    if chaos:
        print(f"workers killed: {killer.kills}")
    passed = passed and found.ok and (not chaos or killer.kills >= KILLS_MIN)
    print("demo passed" if passed else "demo failed")
    return passed


class WorkerKiller:
    """Kills each goal's worker while it runs an action, once per subtask."""

    def __init__(self) -> None:
        self.kills = 0
        self._done: set[tuple[str, int, int]] = set()

    def kill(self, details: Sequence[GoalDetail]) -> None:
        for detail in details:
            at = (detail["id"], detail["current_task_idx"], detail["current_subtask_idx"])
            # The looping agent is killed after a refusal, which must outlive it.
            is_due = detail["blocked_actions"] or detail["agent"] != "stubborn"
            pid = detail["pid"]
            if at in self._done or not is_due or not detail["in_flight"] or not pid:
                continue
            with suppress(OSError, psutil.NoSuchProcess):  # it may just have ended
                if psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
                    os.kill(pid, signal.SIGKILL)
                    self._done.add(at)
                    self.kills += 1
                    print(f"{detail['id']}: sent SIGKILL to its worker, process {pid}", flush=True)


def _reached(condition: Callable[[], bool], within_s: float) -> bool:
    deadline = time.monotonic() + within_s
    while not (found := condition()) and time.monotonic() < deadline:
        time.sleep(POLL_S)
    return found


@contextmanager
def own_daemon(instance: Instance, home: Path) -> Iterator[int]:
    """Run a daemon on `home`, that of `instance`, and yield its pid once it is ready."""
    # without this shell's config, and without the service manager
    env = {name: value for name, value in os.environ.items() if not name.startswith("CLEW_")}
    env.pop("NOTIFY_SOCKET", None)
    command = [sys.executable, "-P", "-m", "clew_daemon", "--home", str(home), "run"]
    log = home / "daemon.out"
    with log.open("wb") as out:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            env=env,
            start_new_session=True,  # Ctrl-C must not reach the daemon: it is stopped below
        )

    def is_ready() -> bool:
        return bool((ask(instance.socket, "ping") or {}).get("ready"))

    try:
        _reached(lambda: process.poll() is not None or is_ready(), START_S)
        if not is_ready():
            output = log.read_text(errors="replace").splitlines()[-LOG_LINES_SHOWN:]
            raise CliError("\n".join(["the daemon did not start; its last output:", *output]))
        yield process.pid
    finally:
        process.terminate()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()  # its workers end as well
            process.wait()


def furnish(home: Path, python: str) -> dict[str, bytes]:
    """Write the demo's config, and what its looping goal begins with, into its home; return the goal files by name."""
    agent, quoted = str(Path(stubborn_agent.__file__).resolve()), shlex.quote(python)
    given = {
        "command": [python, "-I", agent],
        "check": f"{quoted} -m unittest -q test_mathx",
        "workspace": str(home / "shop"),
        "pause_s": PAUSE_S,
    }
    # as TOML and YAML write them
    values = {name: json.dumps(value, ensure_ascii=False) for name, value in given.items()}
    goals = {}
    for file in sorted(filter(Path.is_file, FILES.rglob("*")), reverse=True):
        text = Template(file.read_text(encoding="utf-8")).substitute(values, python=quoted)
        if file.suffix == ".md":
            goals[file.name] = text.encode()
        else:
            made = home / file.relative_to(FILES).with_suffix("")
            made.parent.mkdir(exist_ok=True)
            made.write_text(text, encoding="utf-8")
    return goals
