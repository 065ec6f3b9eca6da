"""`clew logs`: the last lines of the daemon's log file, and new lines as they are written, across rotation.

It does not use the stream of events: much of what a log is read for (warnings, what an agent prints, the config) is no
event, and an event's line would come from elsewhere than the lines around it.
"""

from __future__ import annotations

import json
import os
import select
import sys
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any

import click

from clew_daemon.cli import parameters
from clew_daemon.reading.errors import CliError
from clew_daemon.reading.output import on_terminal, print_json, print_lines
from clew_daemon.reading.queries import goal_id

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from clew_daemon.reading.instance import Instance

POLL_S = 0.2
LINES_MAX = 100_000


@click.command()
@parameters.optional_goal
@click.option("-f", "--follow", is_flag=True, help="Follow new lines, until Ctrl-C.")
@click.option(
    "-n",
    "--lines",
    type=click.IntRange(0, LINES_MAX),
    default=100,
    show_default=True,
    help="Number of lines.",
)
@parameters.as_json
@click.pass_obj
def logs(instance: Instance, goal: str | None, follow: bool, lines: int, as_json: bool) -> None:
    """Show the log: readable on a terminal, JSON lines otherwise; one document with --json."""
    if as_json and follow:
        raise click.UsageError("--json cannot be used with --follow")
    name = None if goal is None else goal_id(instance, goal)
    if not follow and not (instance.log_file.exists() or _earlier(instance.log_file).exists()):
        raise CliError(_missing(instance))
    with closing(LogTail(instance.log_file)) as tail:
        last = entries_of(tail.last(), name)
        entries = last[-lines:] if lines else []
        if as_json:
            print_json({"log": entries})
        else:
            _show(entries)
        while follow:
            if not _show(entries_of(tail.added(), name)):
                _wait()


def _wait() -> None:
    """Wait for `POLL_S`; raise BrokenPipeError as soon as the reader of our output has ended."""
    sys.stdout.flush()
    reader = select.poll()
    with suppress(ValueError, OSError):  # no file descriptor: nothing to poll
        reader.register(sys.stdout.fileno(), 0)  # errors and hang-ups are always reported
    if reader.poll(POLL_S * 1000):
        raise BrokenPipeError


class LogTail:
    """A log file that is read from the end of the last read, and from its start after a rotation."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = _opened(path)
        self._rest = b""

    def last(self) -> list[bytes]:
        """Return the whole lines of the rotated file and of this one, oldest first."""
        earlier = _earlier(self._path)
        before = earlier.read_bytes().splitlines() if earlier.exists() else []
        return [*before, *self.added()][-LINES_MAX:]

    def added(self) -> list[bytes]:
        """Return the whole lines that were added since the last call."""
        lines = self._read()
        if self._rotated():
            lines += self._read()  # lines that were written before the renaming
            self.close()
            self._file, self._rest = _opened(self._path), b""
            lines += self._read()
        return lines

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()

    def _read(self) -> list[bytes]:
        if self._file is None:
            return []
        lines: list[bytes]
        *lines, self._rest = (self._rest + self._file.read()).split(b"\n")
        return lines

    def _rotated(self) -> bool:
        try:
            now = os.stat(self._path)  # noqa: PTH116 - compared with fstat
        except FileNotFoundError:
            return False
        if self._file is None:
            return True
        mine = os.fstat(self._file.fileno())
        return not os.path.samestat(mine, now) or mine.st_size < self._file.tell()


def _earlier(path: Path) -> Path:
    """Return the path of the last rotated file."""
    return path.with_name(path.name + ".1")


def _missing(instance: Instance) -> str:
    """Return why there may be no log."""
    from clew_shared.ledger.lock import beside

    if instance.ledger.exists() or beside(instance.ledger).exists():
        why = (
            "a daemon has run here, so the log was moved or removed, or `[log] file` names another; "
            "a running daemon starts a new one with its next line"
        )
    else:
        why = "no daemon has run here, or `[log] file` names another"
    return f"there is no log at {instance.log_file}: {why}\nunder systemd, see also: journalctl --user -u clew -o cat"


def _opened(path: Path) -> Any:
    try:
        return path.open("rb")
    except FileNotFoundError:
        return None


def entries_of(lines: Iterable[bytes], goal: str | None) -> list[dict[str, Any]]:
    """Return the entries of lines, all or those of a goal."""
    return [entry for entry in _parsed(lines) if goal is None or entry.get("goal") == goal]


def _parsed(lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """Yield the entries of lines; a line that cannot be read is an entry of its own."""
    for line in lines:
        try:
            entry = json.loads(line)
        except ValueError:  # a torn line, after a full disk or a power cut
            entry = {"level": "warning", "event": line.decode("utf-8", "replace")}
        if isinstance(entry, dict):
            yield entry


def _show(entries: list[dict[str, Any]]) -> bool:
    from clew_daemon.logs.look import pieces

    if on_terminal():
        print_lines(pieces(entry) for entry in entries)
    else:
        for entry in entries:
            print(json.dumps(entry), flush=True)
    return bool(entries)
