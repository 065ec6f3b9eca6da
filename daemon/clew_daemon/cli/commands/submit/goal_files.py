"""Goals as they are given to `clew submit`: read, merged with its options, parsed, and put in order."""

from __future__ import annotations

import os
import re
import stat
import sys
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING

import click

from clew_daemon.cli.commands.submit.front_options import SubmitOptions, merge
from clew_daemon.host.git import top_folder
from clew_daemon.inbox.goalfile.front_yaml import GoalFileError, GoalFileFault
from clew_daemon.inbox.goalfile.parse import parse
from clew_daemon.inbox.locating import locator
from clew_daemon.reading.errors import CliError, print_note
from clew_daemon.reading.sanitize import clean, short

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clew_daemon.inbox.goalfile.keys import GoalFile
    from clew_daemon.reading.instance import Instance
    from clew_shared.config.settings import AgentSettings

GOAL_BYTES_MAX = 1 << 20
SUFFIXES = (".md", ".txt")


@dataclass(frozen=True)
class GoalSource:
    """A goal as it was given: its name in messages and in the inbox, its bytes, and the true size of its file."""

    shown: str
    name: str
    raw: bytes
    size: int | None = None
    is_text: bool = False


@dataclass(frozen=True)
class CheckedGoal:
    """A goal to drop: its bytes with the options in them, and the goal that they parse to.

    `is_new`: its workspace will be made. `is_here`: a text that works in the repository that it was submitted in.
    """

    source: GoalSource
    raw: bytes
    goal: GoalFile
    is_new: bool = True
    is_here: bool = False

    def workspace(self, workspaces: Path, goal: str | None) -> Path | None:
        """Return where it works as goal `goal`; None while that is not known."""
        if self.goal.folder:
            return self.goal.folder
        return (workspaces / goal).resolve() if goal else None


def check_goals(
    instance: Instance,
    given: Sequence[str],
    options: SubmitOptions,
    *,
    new: bool = False,
    wait: bool = False,
) -> list[CheckedGoal]:
    """Read and check all goals; return them in the order in which to drop them, or raise CliError with all errors.

    A text without a workspace works in the git repository of the working directory, if there is one and not `new`.
    With `wait` the goal itself says which agent cannot work.
    """
    if given.count("-") > 1:
        raise click.UsageError("- can be given only once: there is one stdin")
    sources, errors = _sources(given)
    agents = instance.settings_in_force.agents
    if faults := _option_faults(instance, options, agents):
        errors += faults
        options = SubmitOptions()
    checked: list[CheckedGoal] = []
    here = None if new else _repository_here()
    for source in sources:
        try:
            one = _parsed(instance, source, options, agents)
            checked.append(_placed(instance, one, options, agents, here))
            if new and one.goal.folder:
                errors.append(f"{source.shown}: --new cannot be used: it has a `workspace`")
        except CliError as error:
            errors.append(error.message)
    if not errors:
        checked, errors = _in_order(checked)
    if errors:
        raise CliError("\n".join(errors))
    for each in checked:
        _print_notes(instance, each, None if wait else agents, several=len(checked) > 1)
    return checked


def checked_goal(instance: Instance, source: GoalSource, options: SubmitOptions) -> CheckedGoal:
    """Check one goal with its options; return it, or raise CliError with all errors."""
    agents = instance.settings_in_force.agents
    if faults := _option_faults(instance, options, agents):
        raise CliError("\n".join(faults))
    return _parsed(instance, source, options, agents)


def _sources(given: Sequence[str]) -> tuple[list[GoalSource], list[str]]:
    """Read all arguments; return the goals and the errors."""
    sources: list[GoalSource] = []
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


def _source(given: str) -> GoalSource:
    """Read an argument: stdin, a file, or the text of a goal."""
    if given == "-":
        raw = sys.stdin.buffer.read(GOAL_BYTES_MAX + 1)
        return GoalSource("stdin", "stdin.md", raw)
    path = Path(given)
    if not os.path.lexists(given) and re.search(r"\s", given) and not given.endswith(SUFFIXES):
        return GoalSource("the text", "goal.md", os.fsencode(given), is_text=True)
    if not given:
        raise CliError("the goal is empty: give a file, or a text in quotes")
    if path.is_dir():
        raise CliError(f"{short(given)} is a folder: give a goal file")
    with path.open("rb") as stream:
        status = os.fstat(stream.fileno())
        raw = stream.read(GOAL_BYTES_MAX + 1)
    size = status.st_size if stat.S_ISREG(status.st_mode) else None
    # A person chose this very file, so its name need not tell what is in it.
    name = path.name.lstrip(".") or "goal"
    return GoalSource(given, name if path.suffix in SUFFIXES else f"{name}.md", raw, size)


def _option_faults(instance: Instance, options: SubmitOptions, agents: AgentSettings) -> list[str]:
    """Return the errors of the options, each with the name of its option."""
    faults = options.faults(agents.names)
    if options.workspace is not None and not any("--workspace" in fault for fault in faults):
        try:
            locator(instance.places, instance.env)(options.workspace)
        except ValueError as error:
            faults.append(f"--workspace: {error}")
    return faults


def _repository_here() -> Path | None:
    try:
        return top_folder(Path.cwd())
    except OSError:  # the working directory is gone
        return None


def _placed(
    instance: Instance,
    one: CheckedGoal,
    options: SubmitOptions,
    agents: AgentSettings,
    here: Path | None,
) -> CheckedGoal:
    """Return a goal with its workspace: a text that names none gets the repository `here`. Raises CliError."""
    folder = one.goal.folder
    if folder and not one.is_new and not folder.is_dir():
        raise CliError(f"{one.source.shown}: its workspace {folder} is not a folder")
    if here is None or folder or not one.source.is_text:
        return one
    try:
        locator(instance.places, instance.env)(str(here))
    except ValueError as error:
        raise CliError(
            f"{one.source.shown}: the git repository here cannot be its workspace: {error}; "
            "--workspace DIR names one, --new makes a fresh folder"
        ) from None
    placed = _parsed(instance, one.source, replace(options, workspace=str(here)), agents)
    return replace(placed, is_here=True)


def _parsed(
    instance: Instance, source: GoalSource, options: SubmitOptions, agents: AgentSettings
) -> CheckedGoal:
    """Parse a goal with the options in it; CliError with all its errors, by the lines of the given file."""
    merged = merge(_text(source.raw), options) if options and _is_text(source.raw) else None
    raw = merged.text.encode() if merged else source.raw
    located = locator(instance.places, instance.env)
    try:
        goal = parse(raw, source.shown, agents.names, located=located, size=source.size)
    except GoalFileError as error:
        if merged is None:
            raise CliError(str(error)) from None
        faults = [GoalFileFault(merged.line(fault.line), fault.message) for fault in error.faults]
        raise CliError(str(GoalFileError(source.shown, faults))) from None
    has_options = all(getattr(goal, key) == value for key, value in options.single.items())
    if not has_options or not {check.strip() for check in options.checks} <= {
        *goal.checks.values()
    }:
        how = "the options cannot be added to its front matter; write them there"
        raise CliError(f"{source.shown}: {how}")
    return CheckedGoal(source, raw, goal, not (goal.folder and os.path.lexists(goal.folder)))


def _is_text(raw: bytes) -> bool:
    try:
        raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        return False
    return len(raw) <= GOAL_BYTES_MAX


def _text(raw: bytes) -> str:
    return re.sub(r"\r\n?", "\n", raw.decode("utf-8-sig"))


def _in_order(checked: list[CheckedGoal]) -> tuple[list[CheckedGoal], list[str]]:
    """Return the goals, each behind those of the batch that it depends on, and the errors of the batch."""
    names = [each.goal.name for each in checked if each.goal.name]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        return checked, [f"`name` {name} is used by several of these goals" for name in twice]
    by_name = {each.goal.name: n for n, each in enumerate(checked) if each.goal.name}
    predecessors = {
        n: [by_name[name] for name in each.goal.depends_on if name in by_name]
        for n, each in enumerate(checked)
    }
    try:
        return [checked[n] for n in TopologicalSorter(predecessors).static_order()], []
    except CycleError as error:
        way = " → ".join(checked[n].goal.name for n in reversed(error.args[1]))
        return checked, [f"`depends_on` makes a cycle: {way}; remove one of these dependencies"]


def _print_notes(
    instance: Instance, checked: CheckedGoal, agents: AgentSettings | None, *, several: bool
) -> None:
    """Print notes on a goal: its unknown keys, and one of the `agents` that could not work now."""
    goal, of = checked.goal, f"{checked.source.shown}: " if several else ""
    for key in goal.unknown_keys:
        meant = f"; did you mean {goal.suggestions[key]}?" if key in goal.suggestions else ""
        print_note(clean(f"clew: note: {of}unknown key {key!r} (ignored){meant}"))
    if agents is None or (goal.agent is None and goal.runnable_without_llm):
        return
    if fault := agents.fault(goal.agent, instance.config):
        if _is_fixed(instance, goal.agent):
            fault = "the daemon does not have your last changes of the config: run `clew reload`"
        print_note(clean(f"clew: note: {of}{fault}"))


def _is_fixed(instance: Instance, agent: str | None) -> bool:
    """Return whether an agent that cannot be used now can be with the config file as it is on disk."""
    try:
        return not instance.settings.agents.fault(agent)
    except CliError:
        return False
