"""`clew demo`: the main job on sample goals in a temporary home, with a real daemon and real workers.

With `--chaos` it kills the workers several times.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from clew_daemon.reading.errors import CliError
from clew_daemon.reading.instance import Instance
from clew_daemon.reading.sanitize import clean, counted
from clew_shared.exit_codes import ExitCode
from clew_shared.record import events as ev
from clew_shared.record.codec import decode
from clew_shared.record.fold import apply
from clew_shared.record.state import State

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clew_shared.ledger import Reader


Place = tuple[int, int]
"""The indices of a task and a subtask."""


@dataclass(frozen=True)
class Resumption:
    """One crash: the epoch that died, its subtask and that of the next epoch, and the blocked actions of both."""

    epoch: int
    died_at: Place
    resumed_at: Place
    blocks_before: tuple[str, ...]
    blocks_after: tuple[str, ...]

    @property
    def is_exact(self) -> bool:
        """Whether the next worker resumed at the same subtask, with every block still in force."""
        is_blocked = set(self.blocks_before) <= set(self.blocks_after)
        return self.died_at == self.resumed_at and is_blocked

    def __str__(self) -> str:
        blocks = counted(len(self.blocks_after), "blocked action")
        blocked = f", {blocks} still blocked" if self.blocks_after else ""
        died, resumed = (f"{t + 1}.{s + 1}" for t, s in (self.died_at, self.resumed_at))
        after = f"epoch {self.epoch + 1} resumed at {resumed}"
        return f"epoch {self.epoch} died in {died}, {after}{blocked}"


def resumptions(reader: Reader, goal: str) -> list[Resumption]:
    """Return a goal's crashes that were followed by another worker, oldest first."""
    found: list[Resumption] = []
    state = State(goal_id=goal)
    died: tuple[int, Place, tuple[str, ...]] | None = None
    for row in reader.read(goal):
        event = decode(row.body)
        if isinstance(event, ev.WorkerExited) and event.crash:
            died = (event.epoch, _place(state), tuple(state.blocked_actions))
        apply(state, event, row.seq)
        if isinstance(event, ev.WorkerReady) and died is not None:
            epoch, place, blocks = died
            blocks_now = tuple(state.blocked_actions)
            found.append(Resumption(epoch, place, _place(state), blocks, blocks_now))
            died = None
    return found


def _place(state: State) -> Place:
    return state.current_task_idx, state.current_subtask_idx


REPORT_S = 30.0
DEMO_S = 180.0
ACCEPT_S = 20.0
KILLS_MIN = 3
POLL_S = 0.05
WATCH_S = 0.03
NEXT = """
What to try next:
  {clew} doctor                 check the setup of this machine
  {clew} run                    start the daemon in this terminal
  {clew} submit FILE --wait     submit a goal, and watch it
  {clew} watch                  watch all goals
The README has a first goal file to copy."""


def _program() -> str:
    """Return the command for clew in this shell: its path if it is not on PATH."""
    program = Path(sys.argv[0])
    if shutil.which("clew") or program.name != "clew":
        return "clew"
    return os.path.relpath(program)


@click.command()
@click.option("--chaos", is_flag=True, help="Kill the workers several times on the way.")
@click.option("--keep", is_flag=True, help="Keep the temporary home.")
def demo(chaos: bool, keep: bool) -> None:
    """Show clew at work on a sample goal; needs no LLM, and leaves nothing behind."""
    from clew_daemon.cli.own_daemon import unwinding_on_sigterm

    with unwinding_on_sigterm():
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
    from clew_daemon.cli.commands.demo.sample import furnish
    from clew_daemon.cli.own_daemon import own_daemon

    instance = Instance(home, {"HOME": os.environ.get("HOME", str(home))})
    killer = WorkerKiller()
    furnish(home, sys.executable)
    with own_daemon(instance, _environment()) as pid:
        print(f"daemon: pid {pid}, in a temporary home: {home}", flush=True)
        goals = _submitted(instance)
        completed = _watched(instance, goals, killer if chaos else None)
        for goal in goals:
            _show_report(instance, goal)
    sound = _verified(instance)
    resumed = not chaos or _resumed(instance, goals, killer.kills)
    passed = completed and sound and resumed
    print("demo passed" if passed else "demo failed")
    if passed:
        print(NEXT.format(clew=_program()))
    return passed


def _environment() -> dict[str, str]:
    """Return this environment for the daemon: without the config in it, and without the service manager."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("CLEW_")}
    env.pop("NOTIFY_SOCKET", None)
    return env


class WorkerKiller:
    """Kills each goal's worker while it runs an action, once per subtask."""

    def __init__(self) -> None:
        self.kills = 0
        self._done: set[tuple[str, int, int]] = set()

    def __call__(self, details: Sequence[dict[str, Any]]) -> None:
        for detail in details:
            at = (detail["id"], detail["current_task_idx"], detail["current_subtask_idx"])
            # The looping agent is killed after a refusal, which must outlive it.
            is_due = detail["blocked_actions"] or detail["agent"] != "stubborn"
            if at in self._done or not is_due or not detail["in_flight"] or not detail["pid"]:
                continue
            if _killed(detail["pid"]):
                self._done.add(at)
                self.kills += 1
                killed = f"sent SIGKILL to its worker, process {detail['pid']}"
                print(f"{detail['id']}: {killed}", flush=True)


def _killed(pid: int) -> bool:
    """Kill a live process; return False if it had already ended."""
    try:
        if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX":
            return False
        os.kill(pid, signal.SIGKILL)
    except (OSError, IndexError):
        return False
    return True


def _watched(instance: Instance, goals: list[str], killer: WorkerKiller | None) -> bool:
    from clew_daemon.cli.commands.watch.command import watch

    deadline = time.monotonic() + DEMO_S

    def each(details: Sequence[dict[str, Any]]) -> None:
        if time.monotonic() > deadline:
            raise CliError(f"the goals did not end within {DEMO_S:g} s")
        if killer is not None:
            killer(details)

    return watch(instance, goals, each, stays=False, poll_s=WATCH_S)


def _submitted(instance: Instance) -> list[str]:
    """Put the sample goals into the inbox; return their ids once they are accepted."""
    from clew_daemon.cli.commands.demo.sample import goal_files
    from clew_daemon.cli.commands.submit.inbox import Submission, await_decisions, drop_all

    files = goal_files(instance.places.inbox.parent, sys.executable)
    paths = drop_all(instance.places.inbox, files.items())
    submissions = [Submission(path) for path in paths]
    await_decisions(instance, submissions, set(), ACCEPT_S)
    for one in submissions:
        if one.goal is None:
            late = f"the daemon did not accept {one.path.name} within {ACCEPT_S:g} s"
            raise CliError(one.error or late)
    return [one.goal for one in submissions if one.goal]


def _show_report(instance: Instance, goal: str) -> None:
    report = instance.places.outbox / f"{goal}.md"
    deadline = time.monotonic() + REPORT_S
    while not report.exists() and time.monotonic() < deadline:
        time.sleep(POLL_S)
    if not report.exists():
        raise CliError(f"there is no report {report}")
    print(f"\n---- outbox/{report.name}\n{clean(report.read_text(encoding='utf-8'), lines=True)}")


def _resumed(instance: Instance, goals: list[str], kills: int) -> bool:
    """Print where each killed worker was resumed; return whether nothing was lost."""
    from clew_daemon.reading.queries import open_ledger

    with open_ledger(instance) as reader:
        found = [(goal, one) for goal in goals for one in resumptions(reader, goal)]
    for goal, resumption in found:
        print(f"{goal}: {resumption}")
    print(f"workers killed: {kills}")
    return len(found) >= KILLS_MIN and all(resumption.is_exact for _, resumption in found)


def _verified(instance: Instance) -> bool:
    from clew_daemon.cli.ledger_check import check_ledger

    report = check_ledger(instance.ledger)
    if report["ok"]:
        print(f"ledger: ok, {report['events']} events of {report['goals']} goals")
    else:
        print(f"ledger: error: {report['fault']}")
    return bool(report["ok"])
