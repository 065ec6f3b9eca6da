"""`clew logs`: the last lines of the daemon's log file, and new lines as they are written."""

import json
import select
import sys
from contextlib import closing, suppress

import click

from clew_daemon.cli import parameters
from clew_daemon.reading.errors import CliError
from clew_daemon.reading.instance import Instance
from clew_daemon.reading.log_tail import LINES_MAX, LogEntry, LogTail, entries_of, rotated
from clew_daemon.reading.output import on_terminal, print_json, print_lines

POLL_S = 0.2


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
    if not follow and not (instance.log_file.exists() or rotated(instance.log_file).exists()):
        raise CliError(
            f"there is no log at {instance.log_file}: no daemon has run here, `[log] file` names another, or it was "
            "removed\nunder systemd, see also: journalctl --user -u clew -o cat"
        )
    with closing(LogTail(instance.log_file)) as tail:
        last = list(entries_of(tail.last(), goal))
        entries = last[-lines:] if lines else []
        if as_json:
            print_json({"log": entries})
            return
        _print(entries)
        while follow:
            entries = list(entries_of(tail.added(), goal))
            _print(entries)
            if not entries:
                _wait()


def _wait() -> None:
    """Wait for `POLL_S`; raise BrokenPipeError as soon as the reader of our output has ended."""
    sys.stdout.flush()
    reader = select.poll()
    with suppress(ValueError, OSError):  # no file descriptor: nothing to poll
        reader.register(sys.stdout.fileno(), 0)  # errors and hang-ups are always reported
    if reader.poll(POLL_S * 1000):
        raise BrokenPipeError


def _print(entries: list[LogEntry]) -> None:
    from clew_daemon.logs.look import pieces

    if on_terminal():
        print_lines(pieces(entry) for entry in entries)
    else:
        for entry in entries:
            print(json.dumps(entry), flush=True)
