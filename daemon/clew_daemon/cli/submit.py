"""Submitting goals: `submit`.

The files are read here first, so that all their errors are shown at once; the daemon still decides.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from clew_daemon.cli import arguments
from clew_daemon.cli.errors import CliError, tell
from clew_daemon.cli.printable import clean, short
from clew_shared.exit_codes import ExitCode
from clew_shared.files.durable import sync

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from clew_daemon.cli.front_options import Options
    from clew_daemon.cli.where import Where
    from clew_daemon.inbox.goalfile.model import GoalFile
    from clew_shared.config.settings import AgentSettings

ACCEPTED_WITHIN_S = 5.0
WAITED_FOR_S = 60.0
"""How long `--wait` waits until a goal is accepted."""
LAST = 100
"""Of the goals that are over: ours may be by the time that we ask."""
POLL_S = 0.1
GOAL_BYTES_MAX = 1 << 20
SUFFIXES = (".md", ".txt")


@click.command()
@click.argument(
    "goals",
    metavar="FILE|-|TEXT...",
    nargs=-1,
    required=True,
    type=click.Path(allow_dash=True, readable=False),  # reading it says why not
    help="Goal files, - for stdin, or the text of a goal in quotes.",
)
@click.option("--wait", is_flag=True, help="Show progress; exit 0 if all goals were completed.")
@click.option("--name", metavar="NAME", help="The goal's name, for `depends_on` and commands.")
@click.option("--agent", metavar="AGENT", help="The agent that works on the goals.")
@click.option("--workspace", metavar="DIR", help="Where the agent works.")
@click.option("--check", "checks", metavar="CMD", multiple=True, help="A check; may be repeated.")
@arguments.as_json
@click.pass_obj
def submit(
    where: Where,
    goals: tuple[str, ...],
    wait: bool,
    name: str | None,
    agent: str | None,
    workspace: str | None,
    checks: tuple[str, ...],
    as_json: bool,
) -> None:
    """Add goals to the inbox: files, or the text of a goal.

    An argument with white space that names no file and does not end in .md or .txt is text.
    Options take precedence over the front matter of each file, and checks are added to its own.
    """
    from clew_daemon.cli.client import ask, call
    from clew_daemon.cli.front_options import Options

    if wait and as_json:
        raise click.UsageError("--json cannot be used with --wait")
    if name is not None and len(goals) > 1:
        raise click.UsageError("--name can only be used with one goal")
    options = Options(name, agent, _absolute(workspace), checks)
    drops = _prepared(where, goals, options)
    if wait:
        call(where.socket, "ping")  # NoDaemon: there is nothing to wait for
    running = ask(where.socket, "ping") is not None
    if running:
        _refuse_names_in_use(where, drops)
    known = _ids(where) if running else set[str]()
    paths = drop_all(where.places.inbox, [(each.source.name, each.raw) for each in drops])
    within_s = (WAITED_FOR_S if wait else ACCEPTED_WITHIN_S) if running else None
    taken = [_Taken(path) for path in paths]
    ended = _waited(where, taken, known, within_s) if within_s is not None else 0
    if as_json:
        _print_ids(taken)
    else:
        _print_taken(where, taken, running=running and ended != ExitCode.NO_DAEMON)
    if ended == ExitCode.INTERRUPTED or (wait and ended):
        raise click.exceptions.Exit(ended)
    raise click.exceptions.Exit(0 if _done(where, taken, wait=wait) else ExitCode.FAILED)


def _waited(where: Where, taken: Sequence[_Taken], known: set[str], within_s: float) -> int:
    """Wait as `_decide` does; 0, or the exit code of what ended it early: the dropped files are there all the same."""
    try:
        _decide(where, taken, known, within_s)
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except CliError:
        return ExitCode.NO_DAEMON
    return 0


def _done(where: Where, taken: Sequence[_Taken], *, wait: bool) -> bool:
    """Tell whether nothing was rejected; with `wait` whether all goals were completed, which is watched."""
    if not wait:
        return not any(one.error for one in taken)
    found = [one.goal for one in taken if one.goal]
    if not found:
        return False
    from clew_daemon.cli.watch.command import watch

    return watch(where, found) and len(found) == len(taken)


def drop(inbox: Path, name: str, raw: bytes) -> Path:
    """Put a file into the inbox in one piece and under a name of its own; its path. See `drop_all`."""
    return drop_all(inbox, [(name, raw)])[0]


def drop_all(inbox: Path, files: Iterable[tuple[str, bytes]]) -> list[Path]:
    """Put files into the inbox, each in one piece and under a name of its own; their paths.

    All are written under hidden names first, so that none is there where one cannot be written; they are durable
    when this returns.
    """
    from clew_daemon.inbox.files import rename_new

    inbox.mkdir(parents=True, exist_ok=True)
    with ExitStack() as cleaning:
        written: list[tuple[Path, Path]] = []
        for name, raw in files:
            # by this name the goal is found again
            given = Path(name.encode("utf-8", "replace").decode())
            token = secrets.token_hex(3)
            partial = inbox / f".clew-submit-{token}.tmp"
            cleaning.callback(partial.unlink, missing_ok=True)
            with partial.open("xb") as stream:
                stream.write(raw)
                stream.flush()
                os.fsync(stream.fileno())
            written.append((partial, inbox / f"{given.stem[:100]}-{token}{given.suffix}"))
        for partial, target in written:
            rename_new(partial, target)
    sync(inbox)
    return [target for _, target in written]


def accepted(
    where: Where, dropped: Path, known: set[str], within_s: float = ACCEPTED_WITHIN_S
) -> str | None:
    """Wait until the daemon has accepted the dropped file; the goal's id, None when it takes longer.

    `known` are the goals that were there before. CliError with the daemon's words if it rejects it.
    """
    taken = _Taken(dropped)
    _decide(where, [taken], known, within_s)
    if taken.error:
        raise CliError(taken.error)
    return taken.goal


@dataclass(frozen=True)
class _Source:
    """A goal as it was given: how messages call it, its name in the inbox, its bytes, the file's true size."""

    shown: str
    name: str
    raw: bytes
    size: int | None = None


@dataclass(frozen=True)
class _Drop:
    """What is to be dropped: the bytes with the options in them, and the goal that they are."""

    source: _Source
    raw: bytes
    goal: GoalFile


@dataclass
class _Taken:
    """What became of a dropped file: its goal's id, or why it was rejected."""

    path: Path
    goal: str | None = None
    error: str = ""


# -- reading


def _prepared(where: Where, given: Sequence[str], options: Options) -> list[_Drop]:
    """Read and validate all that was given, in the order in which it is to be dropped; CliError with all errors."""
    if given.count("-") > 1:
        raise click.UsageError("- can be given only once: there is one stdin")
    sources, errors = _sources(given)
    agents = where.in_force.agents
    if wrong := _faults(where, options, agents):
        errors += wrong
        options = type(options)()
    drops: list[_Drop] = []
    for source in sources:
        try:
            drops.append(_understood(where, source, options, agents))
        except CliError as error:
            errors.append(error.message)
    if not errors:
        drops, errors = _in_order(drops)
    if errors:
        raise CliError("\n".join(errors))
    for each in drops:
        _tell_notes(each, agents, several=len(drops) > 1)
    return drops


def _sources(given: Sequence[str]) -> tuple[list[_Source], list[str]]:
    sources: list[_Source] = []
    errors: list[str] = []
    for one in given:
        try:
            sources.append(_source(one))
        except CliError as error:
            errors.append(error.message)
        except FileNotFoundError:
            is_text = " " in one.strip()  # a goal that happens to end in the name of a file
            hint = "; if this is the text of a goal, end it with a full stop" if is_text else ""
            errors.append(f"no such file: {short(one)}{hint}")
        except OSError as error:
            errors.append(f"{short(one)}: {error.strerror}")
    if len(given) > 1 and not sources and not any(re.search(r"\s|/", one) for one in given):
        errors.append('to submit a text, put it in quotes: clew submit "…"')
    return sources, errors


def _source(given: str) -> _Source:
    """Read what an argument means: stdin, a file, or itself."""
    if given == "-":
        raw = sys.stdin.buffer.read(GOAL_BYTES_MAX + 1)
        return _Source("stdin", "stdin.md", raw)
    path = Path(given)
    if not os.path.lexists(given) and re.search(r"\s", given) and not given.endswith(SUFFIXES):
        return _Source("the text", "goal.md", os.fsencode(given))
    if not given:
        raise CliError("the goal is empty: give a file, or a text in quotes")
    if path.is_dir():
        raise CliError(f"{short(given)} is a folder: give a goal file")
    with path.open("rb") as stream:
        status = os.fstat(stream.fileno())
        raw = stream.read(GOAL_BYTES_MAX + 1)
    size = status.st_size if stat.S_ISREG(status.st_mode) else None
    # The name says nothing about the content here: a person chose this very file.
    name = path.name.lstrip(".") or "goal"
    return _Source(given, name if path.suffix in SUFFIXES else f"{name}.md", raw, size)


def _absolute(workspace: str | None) -> str | None:
    """Make the folder absolute, as only the caller's working directory can; `~` is left for the daemon."""
    if not workspace or workspace == "~" or workspace.startswith("~/"):
        return workspace
    return os.path.abspath(workspace)  # noqa: PTH100 - links stay


def _faults(where: Where, options: Options, agents: AgentSettings) -> list[str]:
    """Return what is wrong with the options, each by its option."""
    from clew_daemon.inbox.locating import locator

    faults = options.faults(agents.names)
    if options.workspace is not None and not any("--workspace" in fault for fault in faults):
        try:
            locator(where.places, where.env)(options.workspace)
        except ValueError as error:
            faults.append(f"--workspace: {error}")
    return faults


def _understood(where: Where, source: _Source, options: Options, agents: AgentSettings) -> _Drop:
    """Parse a goal with the options in it; CliError with all its errors, by the lines of the file as it was given."""
    from clew_daemon.cli.front_options import merge
    from clew_daemon.inbox.goalfile.faults import GoalFileError, GoalFileFault
    from clew_daemon.inbox.goalfile.parse import parse
    from clew_daemon.inbox.locating import locator

    merged = merge(_text(source.raw), options) if options and _is_text(source.raw) else None
    raw = merged.text.encode() if merged else source.raw
    located = locator(where.places, where.env)
    try:
        goal = parse(raw, source.shown, agents.names, located=located, size=source.size)
    except GoalFileError as error:
        if merged is None:
            raise CliError(str(error)) from None
        faults = [GoalFileFault(merged.line(fault.line), fault.message) for fault in error.faults]
        raise CliError(str(GoalFileError(source.shown, faults))) from None
    kept = all(getattr(goal, key) == value for key, value in options.single.items())
    if not kept or not {check.strip() for check in options.checks} <= {*goal.checks.values()}:
        raise CliError(
            f"{source.shown}: the options cannot be added to its front matter; write them there"
        )
    return _Drop(source, raw, goal)


def _is_text(raw: bytes) -> bool:
    try:
        raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        return False
    return len(raw) <= GOAL_BYTES_MAX


def _text(raw: bytes) -> str:
    return re.sub(r"\r\n?", "\n", raw.decode("utf-8-sig"))


def _in_order(drops: list[_Drop]) -> tuple[list[_Drop], list[str]]:
    """Put goals behind those of the batch that they depend on; else what is wrong with the batch."""
    from graphlib import CycleError, TopologicalSorter

    names = [each.goal.name for each in drops if each.goal.name]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        return drops, [f"`name` {name} is used by several of these goals" for name in twice]
    by_name = {each.goal.name: n for n, each in enumerate(drops) if each.goal.name}
    awaited = {
        n: [by_name[name] for name in each.goal.depends_on if name in by_name]
        for n, each in enumerate(drops)
    }
    try:
        return [drops[n] for n in TopologicalSorter(awaited).static_order()], []
    except CycleError as error:
        way = " → ".join(drops[n].goal.name for n in reversed(error.args[1]))
        return drops, [f"`depends_on` makes a cycle: {way}; remove one of these dependencies"]


def _refuse_names_in_use(where: Where, drops: Sequence[_Drop]) -> None:
    """Raise CliError where a living goal has one of the names: before anything is dropped."""
    from clew_daemon.cli.client import call

    wanted = {each.goal.name for each in drops if each.goal.name}
    if not wanted:
        return
    errors = [
        f"`name` {goal['name']} is in use by {goal['id']}, which has not ended: choose another name, "
        f"or end that goal (`clew cancel {goal['id']}`)"
        for goal in call(where.socket, "status", limit=0)["goals"]
        if goal.get("name") in wanted and goal["status"] not in ("completed", "failed", "cancelled")
    ]
    if errors:
        raise CliError("\n".join(errors))


def _tell_notes(drop: _Drop, agents: AgentSettings, *, several: bool) -> None:
    goal, of = drop.goal, f"{drop.source.shown}: " if several else ""
    for key in goal.unknown_keys:
        meant = f"; did you mean {goal.suggestions[key]}?" if key in goal.suggestions else ""
        _note(f"{of}unknown key {key!r} (ignored){meant}")
    if goal.agent is None and goal.runnable_without_llm:
        return
    if fault := agents.fault(goal.agent):
        _note(f"{of}{fault}")


def _note(text: str) -> None:
    """Say something that is worth knowing but not an error."""
    print(f"clew: note: {clean(text)}", file=sys.stderr)


# -- what becomes of them


def _decide(where: Where, dropped: Sequence[_Taken], known: set[str], within_s: float) -> None:
    """Wait until the daemon has decided on all dropped files, at most that long; what it decided is put into them.

    Raises CliError where the daemon does not answer any more; what was decided until then is kept.
    """
    taken = {one.path.name: one for one in dropped}
    looked_at, deadline = set(known), time.monotonic() + within_s
    while True:
        last = time.monotonic() > deadline
        for one in taken.values():
            one.error = one.error or _rejection(where.places.inbox / "rejected" / one.path.name)
        if any(not (one.goal or one.error) for one in taken.values()):
            _find_goals(where, taken, looked_at)
        if last or all(one.goal or one.error for one in taken.values()):
            return
        time.sleep(POLL_S)


def _find_goals(where: Where, taken: dict[str, _Taken], looked_at: set[str]) -> None:
    """Look among the goals that are new for those of the dropped files."""
    from clew_daemon.cli.record import file_name

    for goal in sorted(_ids(where) - looked_at):
        looked_at.add(goal)
        if one := taken.get(file_name(where, goal)):
            one.goal = goal


def _rejection(path: Path) -> str:
    """Return why the daemon has rejected a file, "" where it has not."""
    error = path.with_name(path.name + ".error.txt")
    if not (path.exists() and error.exists()):
        return ""
    return f"the daemon rejected it ({path}):\n{error.read_text(errors='replace').rstrip()}"


def _ids(where: Where) -> set[str]:
    from clew_daemon.cli.client import call

    return {goal["id"] for goal in call(where.socket, "status", limit=LAST)["goals"]}


def _print_taken(where: Where, taken: Sequence[_Taken], *, running: bool) -> None:
    for one in taken:
        if one.goal:
            print(one.goal, flush=True)
        elif not one.error:
            print(f"added to the inbox as {clean(str(one.path))}")
    _tell_errors(taken)
    undecided = sum(not (one.goal or one.error) for one in taken)
    if undecided and not running:
        print(_later(where, undecided))
    elif undecided:
        print("not accepted yet: see `clew status` and `clew logs`")


def _tell_errors(taken: Sequence[_Taken]) -> None:
    for one in taken:
        if one.error:
            tell(one.error)


def _print_ids(taken: Sequence[_Taken]) -> None:
    from clew_daemon.cli.output import print_json

    goals: list[dict[str, Any]] = [
        {"id": one.goal, "file": str(one.path), "error": one.error or None} for one in taken
    ]
    print_json({"goals": goals})


def _later(where: Where, count: int) -> str:
    it = "it starts" if count == 1 else "they start"
    if found := where.holder:
        return clean(f"{found.running} but does not answer now: {it} later")
    return f"no daemon is running: {it} once one runs (clew start, or clew run)"
