"""Dropping a goal: `submit`.

The file is read here first, so that its faults are told at once; the daemon is still the judge.
"""

from __future__ import annotations

import os
import secrets
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from clew_daemon.cli.errors import EXIT_FAILED, CliError
from clew_daemon.cli.printable import clean, short
from clew_shared.durable import sync

if TYPE_CHECKING:
    from clew_daemon.cli.where import Where

ACCEPTED_WITHIN_S = 5.0
LAST = 100  # of the goals that are over: ours may be by the time that we ask
POLL_S = 0.1
GOAL_BYTES_MAX = 1 << 20
SUFFIXES = (".md", ".txt")


@click.command()
@click.argument(
    "file",
    metavar="FILE|-",
    type=click.Path(allow_dash=True, readable=False),  # reading it says why not
    help="A goal file; - reads it from stdin.",
)
@click.option("--wait", is_flag=True, help="Show progress; exit 0 or 1 with the goal.")
@click.pass_obj
def submit(where: Where, file: str, wait: bool) -> None:
    """Drop a goal into the inbox, in one piece."""
    from clew_daemon.cli.client import ask, call

    name, raw = _source(file)
    _validate(where, name, raw)
    if wait:
        call(where.socket, "ping")  # NoDaemon: there is nothing to wait for
    running = ask(where.socket, "ping") is not None
    known = _ids(where) if running else set[str]()
    dropped = drop(where.places.inbox, name, raw)
    if not running:
        print(f"dropped as {dropped}\n{_taken_later(where)}")
        return
    goal = accepted(where, dropped, known)
    if goal is None:
        print(f"dropped as {dropped}\nit waits in the inbox: see `clew status` and `clew logs`")
        raise click.exceptions.Exit(EXIT_FAILED if wait else 0)
    print(goal, flush=True)
    if wait:
        from clew_daemon.cli.watching import watch

        raise click.exceptions.Exit(0 if watch(where, [goal]) else EXIT_FAILED)


def drop(inbox: Path, name: str, raw: bytes) -> Path:
    """Put a file into the inbox in one piece and under a name of its own; its path.

    It is written under a hidden name first, and is durable when this returns.
    """
    from clew_daemon.inbox_files import rename_new

    inbox.mkdir(parents=True, exist_ok=True)
    given = Path(name.encode("utf-8", "replace").decode())  # by this name the goal is found again
    token = secrets.token_hex(3)
    target = inbox / f"{given.stem[:100]}-{token}{given.suffix}"
    partial = inbox / f".clew-submit-{token}.tmp"
    try:
        with partial.open("xb") as stream:
            stream.write(raw)
            stream.flush()
            os.fsync(stream.fileno())
        rename_new(partial, target)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    sync(inbox)
    return target


def accepted(
    where: Where, dropped: Path, known: set[str], within_s: float = ACCEPTED_WITHIN_S
) -> str | None:
    """Wait until the daemon has taken the dropped file; the goal's id, None when it takes longer.

    `known` are the goals that were there before. CliError with the daemon's words if it refuses it.
    """
    from clew_daemon.cli.record import file_name

    refusals = _Refusals(where.places.inbox / "rejected" / dropped.name)
    looked_at = set(known)
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        refusals.look()
        for goal in sorted(_ids(where) - looked_at):
            if file_name(where, goal) == dropped.name:
                return goal
            looked_at.add(goal)
        time.sleep(POLL_S)
    refusals.look()
    return None


def _taken_later(where: Where) -> str:
    if found := where.holder:
        return clean(f"{found.running} but does not answer now: it is taken later")
    return "no daemon is running: it is taken when one starts (clew run)"


@dataclass(frozen=True)
class _Refusals:
    """Where the daemon puts this file if it cannot use it."""

    path: Path

    def look(self) -> None:
        error = self.path.with_name(self.path.name + ".error.txt")
        if self.path.exists() and error.exists():
            raise CliError(
                f"the daemon refused it ({self.path}):\n{error.read_text(errors='replace')}"
            )


def _ids(where: Where) -> set[str]:
    from clew_daemon.cli.client import call

    return {goal["id"] for goal in call(where.socket, "status", limit=LAST)["goals"]}


def _source(file: str) -> tuple[str, bytes]:
    """Read the file: the name it shall bear in the inbox, and its bytes."""
    if file == "-":
        return "stdin.md", sys.stdin.buffer.read(GOAL_BYTES_MAX + 1)
    path = Path(file)
    if path.is_dir():
        raise CliError(f"{short(file)} is a folder; give a goal file")
    with path.open("rb") as stream:
        raw = stream.read(GOAL_BYTES_MAX + 1)
    # The name says nothing about the content here: a person chose this very file.
    name = path.name.lstrip(".") or "goal"
    return (name if path.suffix in SUFFIXES else f"{name}.md"), raw


def _validate(where: Where, name: str, raw: bytes) -> None:
    """Raise CliError with all faults of the goal file, judged by the agents of the config."""
    from clew_shared.goalfile import GoalFileError, parse

    agents = where.in_force.agents
    try:
        goal = parse(raw, name, agents.names)
    except GoalFileError as error:
        raise CliError(str(error)) from None
    for key in goal.unknown_keys:
        meant = f"; did you mean {goal.suggestions[key]}?" if key in goal.suggestions else ""
        _note(f"the key {key!r} means nothing to clew{meant}")
    if goal.agent is None and goal.runnable_without_llm:
        return
    if fault := agents.fault(goal.agent):
        _note(fault)


def _note(text: str) -> None:
    """Say something that is worth knowing but no error."""
    print(f"clew: note: {clean(text)}", file=sys.stderr)
