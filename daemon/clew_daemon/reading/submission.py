"""Goals as they are given to `clew submit` and its like: read, checked with their options, and put into the inbox."""

import os
import re
import secrets
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path

import click
import yaml

from clew_daemon.host.folders import located
from clew_daemon.host.git import top_folder
from clew_daemon.inbox.files import MAX_BYTES, SUFFIXES
from clew_daemon.inbox.goalfile import parse as goalfile
from clew_daemon.inbox.goalfile.keys import GoalFile, GoalFileError, GoalFileFault
from clew_daemon.reading.client import NoDaemon
from clew_daemon.reading.errors import CliError, print_note
from clew_daemon.reading.instance import Instance
from clew_daemon.reading.queries import ledger_if_any
from clew_daemon.reading.sanitize import clean, short
from clew_shared.files import sync
from clew_shared.record.codec import decode
from clew_shared.record.events import GoalAccepted


@dataclass(frozen=True)
class GoalSource:
    """A goal as it was given: its name in messages and in the inbox, and its bytes."""

    shown: str
    name: str
    raw: bytes
    is_text: bool = False


@dataclass(frozen=True)
class SubmitOptions:
    """The options beside the file: `values` by their keys override its front matter; checks are added to its own."""

    values: Mapping[str, str]
    checks: Sequence[str] = ()


@dataclass(frozen=True)
class CheckedGoal:
    """A goal to drop: its bytes with the options in them, and its parse; `is_here`: in the git repository here."""

    source: GoalSource
    raw: bytes
    goal: GoalFile
    is_here: bool
    is_new: bool

    def workspace(self, workspaces: Path, goal: str | None) -> Path | None:
        """Return where it works as goal `goal`; None while that is not known."""
        return self.goal.folder or ((workspaces / goal).resolve() if goal else None)


def check_goals(
    instance: Instance, given: Sequence[str], options: SubmitOptions, *, new: bool = False
) -> list[CheckedGoal]:
    """Read and check all goals, a text in the repository here unless `new`; raises CliError with all errors."""
    if given.count("-") > 1:
        raise click.UsageError("- can be given only once: there is one stdin")
    errors: list[str] = []
    checked: list[CheckedGoal] = []
    here: Path | None = None
    with suppress(OSError):  # the working directory is gone
        here = None if new else top_folder(Path.cwd())
    for one in given:
        try:
            goal = checked_goal(instance, _source(one), options)
            checked.append(_placed(instance, goal, options, here))
            if new and goal.goal.folder:
                errors.append(f"{goal.source.shown}: --new cannot be used: it has a `workspace`")
        except CliError as error:
            errors.append(error.message)
        except FileNotFoundError:
            hint = "" if " " in one.strip() else '; to submit a text, put it in quotes: "…"'
            errors.append(f"no such file: {short(one)}{hint}")
        except OSError as error:
            errors.append(f"{short(one)}: {error.strerror}")
    if errors:
        raise CliError("\n".join(errors))
    for each in checked:
        for key, meant in each.goal.unknown_keys.items():
            hint = f"; did you mean {meant}?" if meant else ""
            said = f"{each.source.shown}: unknown key {key!r} (ignored){hint}"
            print_note(clean(f"clew: note: {said}"))
    return checked


def _source(given: str) -> GoalSource:
    if given == "-":
        return GoalSource("stdin", "stdin.md", sys.stdin.buffer.read(MAX_BYTES + 1))
    path = Path(given)
    if not os.path.lexists(given) and re.search(r"\s", given) and not given.endswith(SUFFIXES):
        return GoalSource("the text", "goal.md", os.fsencode(given), is_text=True)
    if not given:
        raise CliError("the goal is empty: give a file, or a text in quotes")
    with path.open("rb") as stream:
        raw = stream.read(MAX_BYTES + 1)
    # A person chose this very file, so its name need not tell what is in it.
    name = path.name.lstrip(".") or "goal"
    return GoalSource(given, name if path.suffix in SUFFIXES else f"{name}.md", raw)


def _placed(
    instance: Instance, one: CheckedGoal, options: SubmitOptions, here: Path | None
) -> CheckedGoal:
    """Return a goal with its workspace: a text that names none gets the repository `here`. Raises CliError."""
    folder = one.goal.folder
    if folder and not one.is_new and not folder.is_dir():
        raise CliError(f"{one.source.shown}: its workspace {folder} is not a folder")
    if here is None or folder or not one.source.is_text:
        return one
    try:
        located(str(here), instance.places, instance.env)
    except ValueError as error:
        why = f"the git repository here cannot be its workspace: {error}"
        hint = "--workspace DIR names one, --new makes a fresh folder"
        raise CliError(f"{one.source.shown}: {why}; {hint}") from None
    values = {**options.values, "workspace": str(here)}
    placed = checked_goal(instance, one.source, replace(options, values=values))
    return replace(placed, is_here=True)


def checked_goal(instance: Instance, source: GoalSource, options: SubmitOptions) -> CheckedGoal:
    """Parse a goal with the options in it; CliError with all its errors, by the lines of the given file."""
    place = partial(located, places=instance.places, env=instance.env)
    agents = instance.settings_in_force.agents.names
    try:
        raw = merged(source, options)
        goal = goalfile.parse(raw, source.shown, agents, located=place)
        is_new = goal.folder is None or not os.path.lexists(goal.folder)
        return CheckedGoal(source, raw, goal, is_here=False, is_new=is_new)
    except GoalFileError as error:
        here: dict[str, GoalFileFault] = {}
        try:  # the lines are those of the file as it was given; its other faults are those of the options
            goalfile.parse(source.raw, source.shown, agents, located=place)
        except GoalFileError as of_file:
            here = {fault.message: fault for fault in of_file.faults}
        said = [fault.message for fault in error.faults]
        faults = [here.get(one) or GoalFileFault(None, f"options: {one}") for one in said]
        raise CliError(str(GoalFileError(source.shown, faults))) from None


def merged(source: GoalSource, options: SubmitOptions) -> bytes:
    """Return a goal file with the options in its front matter; one that cannot be read stays as it is."""
    if not (options.values or options.checks):
        return source.raw
    try:
        front, body, first_line = goalfile.split(goalfile.decoded(source.raw))
        root = goalfile.composed(front or "")
    except ValueError:
        return source.raw
    if goalfile.lookalike(body, first_line):
        return source.raw
    root = root or goalfile.mapping({})
    values = {str(key.value): value for key, value in root.value}
    added = goalfile.mapping(dict(options.values)).value
    if options.checks:
        (name,) = goalfile.mapping({"checks": ""}).value
        added.append((name[0], _with_checks(values.get("checks"), options.checks)))
    given = {key.value for key, _ in added}
    kept = [(key, value) for key, value in root.value if str(key.value) not in given]
    root.value, root.flow_style = [*kept, *added], False
    return f"---\n{yaml.serialize(root, allow_unicode=True)}---\n{body}".encode()


def _with_checks(node: yaml.Node | None, checks: Sequence[str]) -> yaml.MappingNode:
    """Return the checks of the file, by name, and those of the options behind them."""
    own, items = [], list[yaml.Node]()
    if isinstance(node, yaml.MappingNode):
        own = list(node.value)
    elif isinstance(node, yaml.SequenceNode):
        items = list(node.value)
    elif node is not None and node.tag != goalfile.NULL:
        items = [node]
    items += [value for check in checks for _, value in goalfile.mapping({0: check}).value]
    taken = {str(key.value) for key, _ in own}
    names = (name for number in count(1) if (name := f"check_{number}") not in taken)
    keys = (goalfile.mapping({name: ""}).value[0][0] for name in names)
    found = goalfile.mapping({})
    found.value, found.flow_style = [*own, *zip(keys, items, strict=False)], False
    return found


POLL_S = 0.1


@dataclass
class Submission:
    """A file in the inbox, dropped after event `after`, and the decision: the goal's id, or why it was rejected."""

    path: Path
    after: int
    goal: str | None = None
    error: str = ""

    @property
    def is_decided(self) -> bool:
        """Whether the daemon has accepted or rejected the file."""
        return bool(self.goal or self.error)


def drop_all(instance: Instance, files: Iterable[tuple[str, bytes]]) -> list[Submission]:
    """Put files into the inbox under names of their own, durably, each atomically; none if one cannot be written."""
    inbox, after = instance.places.inbox, 0
    with suppress(CliError), ledger_if_any(instance) as reader:
        after = reader.last_seq() if reader else 0
    inbox.mkdir(parents=True, exist_ok=True)
    with ExitStack() as cleaning:
        written: list[tuple[Path, Path]] = []
        for name, raw in files:
            # the goal is found again by this name
            given = Path(name.encode("utf-8", "replace").decode())
            token = secrets.token_hex(3)
            partial = inbox / f".clew-submit-{token}.tmp"
            cleaning.callback(partial.unlink, missing_ok=True)
            partial.write_bytes(raw)
            sync(partial)
            written.append((partial, inbox / f"{given.stem[:100]}-{token}{given.suffix}"))
        for partial, target in written:
            partial.rename(target)  # no other file has this token
    sync(inbox)
    return [Submission(target, after) for _, target in written]


def await_decisions(instance: Instance, submissions: Sequence[Submission], within_s: float) -> None:
    """Fill in the daemon's decisions as they come, for at most `within_s`; raises CliError if the daemon ends."""
    after = min((one.after for one in submissions), default=0)
    deadline = time.monotonic() + within_s
    while True:
        is_last, is_gone = time.monotonic() > deadline, instance.holder is None
        for one in submissions:
            one.error = one.error or _rejection(instance.places.inbox / "rejected" / one.path.name)
        with ledger_if_any(instance) as reader:
            for row in reader.read_all(after) if reader else ():
                after = row.seq
                event = decode(row.body) if row.kind == "goal_accepted" else None
                if isinstance(event, GoalAccepted):
                    for one in submissions:
                        one.goal = row.goal if one.path.name == event.spec.file_name else one.goal
        if is_last or all(one.is_decided for one in submissions):
            return
        if is_gone:
            raise NoDaemon(instance.socket)
        time.sleep(POLL_S)


def _rejection(path: Path) -> str:
    error = path.with_name(path.name + ".error.txt")
    if not (path.exists() and error.exists()):
        return ""
    return f"the daemon rejected it ({path}):\n{error.read_text(errors='replace').rstrip()}"
