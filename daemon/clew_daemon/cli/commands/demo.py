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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from string import Template

import click
import psutil

from clew_daemon.cli import parameters
from clew_daemon.cli.commands import stubborn_agent
from clew_daemon.cli.commands.watch import unwinding_on_sigterm, watch
from clew_daemon.control.requests import PingRequest
from clew_daemon.reading.client import ask
from clew_daemon.reading.errors import CliError
from clew_daemon.reading.goal_list import GoalView
from clew_daemon.reading.instance import Instance
from clew_daemon.reading.sanitize import clean
from clew_shared.exit_codes import ExitCode

REPORT_S, DEMO_S, ACCEPT_S = 30.0, 180.0, 20.0
START_S, STOP_S = 30.0, 20.0
POLL_S, WATCH_S = 0.05, 0.03
KILLS_MIN = 3
LOG_LINES_SHOWN = 5
PAUSE_S = 0.4
"""The length of each step, so that there is something to see, and to kill."""
FILES = Path(__file__).parents[1] / "demo_files"
NEXT = """
What to try next:
  {clew} doctor                 check the setup of this machine
  {clew} run                    start the daemon in this terminal
  {clew} submit FILE --wait     submit a goal, and watch it
  {clew} watch                  watch all goals
The README has a first goal file to copy."""


@parameters.command(
    parameters.flag("--chaos", "Kill the workers several times on the way."),
    parameters.flag("--keep", "Keep the temporary home."),
)
def demo(_: Instance, chaos: bool, keep: bool) -> None:
    """Show clew at work on a sample goal; needs no LLM, and leaves nothing behind."""
    with unwinding_on_sigterm():  # a daemon in it must be stopped, and its home removed
        home = Path(tempfile.mkdtemp(prefix="clew-demo-"))
        try:
            raise click.exceptions.Exit(0 if _played(home, chaos=chaos) else ExitCode.FAILED)
        finally:
            if keep:
                print(f"kept: {home} (look at it with `clew --home {home} status`)")
            else:
                shutil.rmtree(home, ignore_errors=True)


def _played(home: Path, *, chaos: bool) -> bool:
    """Play the demo in `home`; return whether all goals were completed and the ledger verifies."""
    from clew_daemon.cli.commands.verify import check_ledger

    instance = Instance(home, {"HOME": os.environ.get("HOME", str(home))})
    killer = WorkerKiller()
    deadline = time.monotonic() + DEMO_S

    def each(details: Sequence[GoalView]) -> None:
        if time.monotonic() > deadline:
            raise CliError(f"the goals did not end within {DEMO_S:g} s")
        if chaos:
            killer.kill(details)

    furnish(home, sys.executable)
    with own_daemon(instance) as pid:
        print(f"daemon: pid {pid}, in a temporary home: {home}", flush=True)
        goals = _submitted(instance)
        passed = watch(instance, goals, each, stays=False, poll_s=WATCH_S)
        for goal in goals:
            _show_report(instance, goal)
    found = check_ledger(instance.ledger)
    print(f"ledger: {f'ok, {found.events} events' if found.ok else f'error: {found.fault}'}")
    if chaos:
        print(f"workers killed: {killer.kills}")
    passed = passed and found.ok and (not chaos or killer.kills >= KILLS_MIN)
    print("demo passed" if passed else "demo failed")
    if passed:
        is_found = shutil.which("clew") or Path(sys.argv[0]).name != "clew"
        print(NEXT.format(clew="clew" if is_found else os.path.relpath(sys.argv[0])))
    return passed


class WorkerKiller:
    """Kills each goal's worker while it runs an action, once per subtask."""

    def __init__(self) -> None:
        self.kills = 0
        self._done: set[tuple[str, int, int]] = set()

    def kill(self, details: Sequence[GoalView]) -> None:
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


def _submitted(instance: Instance) -> list[str]:
    from clew_daemon.reading.submission import Submission, await_decisions, drop_all

    files = goal_files(instance.places.inbox.parent, sys.executable)
    submissions = [Submission(path) for path in drop_all(instance.places.inbox, files.items())]
    await_decisions(instance, submissions, 0, ACCEPT_S)
    for one in submissions:
        if one.goal is None:
            raise CliError(one.error or f"{one.path.name} was not accepted in {ACCEPT_S:g} s")
    return [one.goal for one in submissions if one.goal]


def _show_report(instance: Instance, goal: str) -> None:
    report = instance.places.outbox / f"{goal}.md"
    deadline = time.monotonic() + REPORT_S
    while not report.exists():
        if time.monotonic() > deadline:
            raise CliError(f"there is no report {report}")
        time.sleep(POLL_S)
    print(f"\n---- outbox/{report.name}\n{clean(report.read_text(encoding='utf-8'), lines=True)}")


@contextmanager
def own_daemon(instance: Instance) -> Iterator[int]:
    """Run a daemon on the home of `instance`, and yield its pid once it is ready."""
    home = instance.places.config.parent
    log = home / "daemon.out"
    # without this shell's config, and without the service manager
    env = {name: value for name, value in os.environ.items() if not name.startswith("CLEW_")}
    env.pop("NOTIFY_SOCKET", None)
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "clew_daemon", "--home", str(home), "run"],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            env=env,
            start_new_session=True,  # Ctrl-C must not reach the daemon: it is stopped below
        )
    try:
        _wait_ready(instance, process, log)
        yield process.pid
    finally:
        process.terminate()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()  # its workers end as well
            process.wait()


def _wait_ready(instance: Instance, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and process.poll() is None:
        answer = ask(instance.socket, PingRequest())
        if answer is not None and answer["ready"]:
            return
        time.sleep(POLL_S)
    output = log.read_text(errors="replace").splitlines()[-LOG_LINES_SHOWN:]
    raise CliError("\n".join(["the daemon did not start; its last output:", *output]))


def furnish(home: Path, python: str) -> None:
    """Write the config of the demo, and the files that the looping goal begins with, into its home."""
    command = [python, "-I", str(Path(stubborn_agent.__file__).resolve())]
    config = _filled("config.toml.in", command=_quoted(command))
    (home / "config.toml").write_text(config, encoding="utf-8")
    (home / "shop").mkdir()
    for file in (FILES / "shop").iterdir():
        text = _filled(f"shop/{file.name}", python=shlex.quote(python))
        (home / "shop" / file.stem).write_text(text, encoding="utf-8")


def goal_files(home: Path, python: str) -> dict[str, bytes]:
    """Return the goal files by name."""
    command = shlex.quote(python)
    check = _quoted(f"{command} -m unittest -q test_mathx")
    workspace = _quoted(str(home / "shop"))
    return {
        "mathx.md": _filled("mathx.md", python=command, check=check, pause_s=PAUSE_S).encode(),
        "change.md": _filled("change.md", workspace=workspace).encode(),
    }


def _filled(name: str, **values: object) -> str:
    return Template((FILES / name).read_text(encoding="utf-8")).substitute(values)


def _quoted(value: object) -> str:
    """Return a value as TOML and YAML write it."""
    return json.dumps(value, ensure_ascii=False)
