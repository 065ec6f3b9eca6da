"""`clew demo`: the main job in a temporary home, with a real daemon and real workers.

With `--chaos` the workers are killed on the way. It is the first thing that a person sees of clew,
so it says what it does.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from clew_daemon.cli.errors import CliError
from clew_shared.exit_codes import ExitCode

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from clew_daemon.cli.where import Where

START_S = 30.0
STOP_S = 20.0
DEMO_S = 180.0
ACCEPT_S = 20.0
KILLS_MIN = 3
POLL_S = 0.05
WATCH_S = 0.03
LOG_LINES_SHOWN = 5
NEXT = """
What to try next:
  {clew} doctor                 check the setup of this machine
  {clew} run                    start the daemon in this terminal
  {clew} submit FILE --wait     submit a goal, and watch it
  {clew} watch                  watch all goals
The README has a first goal file to copy."""


def _called() -> str:
    """Return how to call clew in this shell: by its path where it is not on PATH."""
    program = Path(sys.argv[0])
    if shutil.which("clew") or program.name != "clew":
        return "clew"
    return os.path.relpath(program)


@click.command()
@click.option("--chaos", is_flag=True, help="Kill the workers several times on the way.")
@click.option("--keep", is_flag=True, help="Keep the temporary home.")
def demo(chaos: bool, keep: bool) -> None:
    """Show clew at work on a sample goal; needs no LLM, and leaves nothing behind."""
    signal.signal(
        signal.SIGTERM, lambda *_: sys.exit(ExitCode.TERMINATED)
    )  # the daemon is ours to stop
    home = Path(tempfile.mkdtemp(prefix="clew-demo-"))
    try:
        raise click.exceptions.Exit(0 if _played(home, chaos=chaos) else ExitCode.FAILED)
    finally:
        if keep:
            print(f"kept: {home} (look at it with `clew --home {home} status`)")
        else:
            shutil.rmtree(home, ignore_errors=True)


def _played(home: Path, *, chaos: bool) -> bool:
    """Play the demo in `home`; true if all goals were completed and the ledger verifies."""
    from clew_daemon.cli.where import Where

    where = Where(home, {"HOME": os.environ.get("HOME", str(home))})
    killer = Killer()
    with _daemon(where):
        goals = _dropped(where)
        completed = _watched(where, goals, killer if chaos else None)
        for goal in goals:
            _show_report(where, goal)
    sound = _verified(where)
    resumed = not chaos or _resumed(where, goals, killer.kills)
    well = completed and sound and resumed
    print("demo passed" if well else "demo failed")
    if well:
        print(NEXT.format(clew=_called()))
    return well


class Killer:
    """Kills each goal's worker in the middle of its work, once per subtask."""

    def __init__(self) -> None:
        self.kills = 0
        self._done: set[tuple[str, int, int]] = set()

    def __call__(self, details: Sequence[dict[str, Any]]) -> None:
        for detail in details:
            at = (detail["id"], detail["current_task_idx"], detail["current_subtask_idx"])
            # The one that loops is killed when it has been refused: the refusal must outlive it.
            due = detail["blocked_actions"] or detail["agent"] != "stubborn"
            if at in self._done or not due or not detail["in_flight"] or not detail["pid"]:
                continue
            if _killed(detail["pid"]):
                self._done.add(at)
                self.kills += 1
                print(
                    f"{detail['id']}: sent SIGKILL to its worker, process {detail['pid']}",
                    flush=True,
                )


def _killed(pid: int) -> bool:
    """Kill a live process; false where it had already ended."""
    try:
        if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX":
            return False
        os.kill(pid, signal.SIGKILL)
    except (OSError, IndexError):
        return False
    return True


def _watched(where: Where, goals: list[str], killer: Killer | None) -> bool:
    from clew_daemon.cli.watch.command import watch

    deadline = time.monotonic() + DEMO_S

    def each(details: Sequence[dict[str, Any]]) -> None:
        if time.monotonic() > deadline:
            raise CliError(f"the goals did not end within {DEMO_S:g} s")
        if killer is not None:
            killer(details)

    return watch(where, goals, each, stays=False, poll_s=WATCH_S)


def _dropped(where: Where) -> list[str]:
    from clew_daemon.cli.demo.home import goal_files
    from clew_daemon.cli.submit import accepted, drop

    files = goal_files(sys.executable).items()
    dropped = [drop(where.places.inbox, name, raw) for name, raw in files]
    goals: list[str] = []
    for path in dropped:
        goal = accepted(where, path, set(goals), ACCEPT_S)
        if goal is None:
            raise CliError(f"the daemon did not accept {path.name} within {ACCEPT_S:g} s")
        goals.append(goal)
    return goals


def _show_report(where: Where, goal: str) -> None:
    from clew_daemon.cli.printable import clean

    report = where.places.outbox / f"{goal}.md"
    deadline = time.monotonic() + START_S
    while not report.exists() and time.monotonic() < deadline:
        time.sleep(POLL_S)
    if not report.exists():
        raise CliError(f"there is no report {report}")
    print(f"\n---- outbox/{report.name}\n{clean(report.read_text(encoding='utf-8'), lines=True)}")


def _resumed(where: Where, goals: list[str], kills: int) -> bool:
    """Show where each killed worker was resumed; true if nothing was lost or forgotten."""
    from clew_daemon.cli.demo.evidence import resumptions
    from clew_daemon.cli.record import opened

    all_found = []
    with opened(where) as reader:
        for goal in goals:
            found = [] if reader is None else resumptions(reader, goal)
            all_found += found
            for resumption in found:
                print(f"{goal}: {resumption}")
    print(f"workers killed: {kills}")
    exact = all(resumption.exact for resumption in all_found)
    return exact and len(all_found) >= KILLS_MIN


def _verified(where: Where) -> bool:
    from clew_daemon.cli.replay import checked

    report = checked(where.ledger)
    if report["ok"]:
        print(f"ledger: ok, {report['events']} events of {report['goals']} goals")
    else:
        print(f"ledger: error: {report['fault']}")
    return bool(report["ok"])


@contextmanager
def _daemon(where: Where) -> Iterator[None]:
    """Run a daemon on the home of `where` while the block lasts."""
    from clew_daemon.cli.demo.home import furnish

    home = where.places.config.parent
    furnish(home, sys.executable)
    log = home / "daemon.out"
    env = {
        k: v for k, v in os.environ.items() if not k.startswith("CLEW_") and k != "NOTIFY_SOCKET"
    }
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "clew_daemon", "--home", str(home), "run"],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            env=env,
            start_new_session=True,  # Ctrl-C is ours; the daemon is stopped in order
        )
    try:
        _wait_ready(where, process, log)
        print(f"daemon: pid {process.pid}, in a temporary home: {home}", flush=True)
        yield
    finally:
        _stop(process)


def _wait_ready(where: Where, process: subprocess.Popen[bytes], log: Path) -> None:
    from clew_daemon.cli.client import ask

    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        answer = ask(where.socket, "ping")
        if answer is not None and answer["ready"]:
            return
        if process.poll() is not None:
            break
        time.sleep(POLL_S)
    said = log.read_text(errors="replace").splitlines()[-LOG_LINES_SHOWN:]
    raise CliError("\n".join(["the daemon did not start; its last output:", *said]))


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Stop the daemon by SIGTERM; one that does not listen is killed, and its workers with it."""
    with suppress(ProcessLookupError):
        process.terminate()
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
