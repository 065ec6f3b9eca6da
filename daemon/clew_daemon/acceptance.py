"""From a dropped file to a goal: parsed, checked, and durably recorded, each drop exactly once."""

from __future__ import annotations

import asyncio
import secrets
import time
from typing import TYPE_CHECKING

import structlog

from clew_daemon import schedule
from clew_daemon.inbox import Accepted, Already, Dropped, Later, Rejected, Verdict
from clew_shared import events as ev
from clew_shared.goalfile import Fault, GoalFileError, goal_id, parse, workspace_fault
from clew_shared.hidden import names_hidden
from clew_shared.ledger import LedgerState
from clew_shared.places import expanded
from clew_shared.plain import plain
from clew_shared.redact import redact

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from clew_daemon.context import Daemon
    from clew_shared.goalfile_model import GoalFile
    from clew_shared.places import Places

log = structlog.get_logger()

FULL_RETRY_S = 1.0
TOKEN_BYTES = 2
OLD_IDENTITY_PARTS = 5
"""clew 0.1.0 recorded no name; it may have been killed before it removed a file that it had accepted."""


async def accept(daemon: Daemon, dropped: Dropped) -> Verdict:
    """Make a goal of a dropped file, or say why it is none."""
    identity = tuple(_recordable(str(part)) for part in dropped.identity)
    if await _accepted(daemon, identity):
        return Already()
    if daemon.book.ledger.state is LedgerState.FULL:
        return Later(FULL_RETRY_S)
    agents = daemon.settings.agents
    try:
        found, named = await asyncio.to_thread(_understood, daemon, dropped, agents.names)
    except GoalFileError as error:
        return Rejected(redact(str(error)))
    if await _accepted(daemon, identity):  # the same drop was parsed by another call meanwhile
        return Already()
    goal = _free_id(daemon, found.description)
    workspace = named or (daemon.places.workspaces / goal).resolve()
    if fault := key_fault(dropped.raw) or _workspace_fault(workspace, daemon.places):
        return Rejected(f"{dropped.name} cannot be used:\n{fault}")
    event = ev.GoalAccepted(
        at=time.time(),
        goal_id=goal,
        spec=spec(
            found, str(workspace), agent_of(daemon, found), _recordable(dropped.name)
        ).model_copy(update={"depends_on": _bound(daemon, found.depends_on)}),
        tasks=planned(found),
        identity=identity,
    )
    daemon.book.ledger.look()  # what is accepted leaves the inbox: not for a ledger that is gone
    await daemon.book.accept(event, dropped.raw)
    await asyncio.to_thread(_keep_copy, daemon, goal, dropped.raw)
    return Accepted(goal)


def _understood(
    daemon: Daemon, dropped: Dropped, agents: Collection[str]
) -> tuple[GoalFile, Path | None]:
    """Parse a dropped file, and resolve the links of the workspace that it names, on whatever disk that is.

    Raises GoalFileError.
    """
    found = parse(dropped.raw, dropped.name, agents)
    if found.workspace is None:
        return found, None
    try:
        workspace = expanded(found.workspace, daemon.keys.env).resolve()
    except (OSError, RuntimeError) as error:  # a ring of links
        message = (
            f"workspace: {found.workspace} cannot be resolved ({plain(error)}): name another folder"
        )
        raise GoalFileError(dropped.name, [Fault(None, message)]) from None
    return found, workspace


def _recordable(text: str) -> str:
    """Return text as the ledger can keep it: a file name may have bytes that are not UTF-8."""
    return text.encode("utf-8", "backslashreplace").decode()


async def _accepted(daemon: Daemon, identity: tuple[str, ...]) -> bool:
    """Tell whether a drop is a goal already, as this clew or clew 0.1.0 records it."""
    book = daemon.book
    return await book.accepted(identity) or await book.accepted(identity[:OLD_IDENTITY_PARTS])


def _bound(daemon: Daemon, names: tuple[str, ...]) -> tuple[str, ...]:
    """Write out the ids that names mean now, so that a goal that comes later makes none of them ambiguous."""
    book = daemon.book
    found = [schedule.dependency(name, "", book.states(), book.gone) for name in names]
    return tuple(dict.fromkeys(one.goal or one.name for one in found))


def _workspace_fault(workspace: Path, places: Places) -> str:
    if str(workspace) != _recordable(str(workspace)):  # by HOME, or by a link
        return f"workspace: {_recordable(str(workspace))} has bytes that are not UTF-8: name another folder"
    fault = workspace_fault(workspace, places)
    return f"workspace: {fault}" if fault else ""


def key_fault(raw: bytes) -> str:
    """Say where a goal file holds a key that clew uses, "" where it holds none: what is accepted is recorded."""
    lines = raw.decode("utf-8", "replace").splitlines()
    found = next((n for n, line in enumerate(lines, start=1) if names_hidden(line)), None)
    if found is None:
        return ""
    return (
        f"line {found}: here stands a key of one of the agents, and a goal file is kept on record as it came; "
        "take the key out, and give commands what they need of the environment by `[sandbox] env`"
    )


def _keep_copy(daemon: Daemon, goal: str, raw: bytes) -> None:
    """Put the file as it came where a person finds it; the ledger has it too, and is the truth."""
    folder = daemon.places.state / "goals" / goal
    try:
        for one in (folder.parent, folder):  # a state folder that is gone is not made again
            one.mkdir(exist_ok=True)
        (folder / "goal.md").write_bytes(raw)
    except OSError as error:
        log.warning("goal.copy_unwritable", goal=goal, error=plain(error))


def agent_of(daemon: Daemon, found: GoalFile) -> str:
    """Name the agent: the file's, else the runbook where every open subtask has blocks, else the default."""
    if found.agent is None and found.runnable_without_llm:
        return "runbook"
    return daemon.settings.agents.resolve(found.agent)


def spec(found: GoalFile, workspace: str, agent: str, file_name: str) -> ev.Spec:
    """Give what a goal file asks for, as the ledger keeps it."""
    hints = found.suggestions
    return ev.Spec(
        description=found.description,
        notes=_notes(found),
        done_when=found.done_when,
        workspace=workspace,
        agent=agent,
        checks=found.checks,
        priority=found.priority,
        max_iterations=found.max_iterations,
        budget_tokens=found.budget.tokens,
        budget_wall_s=found.budget.wall_s,
        not_before=found.not_before.timestamp() if found.not_before else None,
        depends_on=found.depends_on,
        on_interrupt=found.on_interrupt,
        unknown_keys=tuple(
            f"{key} (did you mean {hints[key]}?)" if key in hints else key
            for key in found.unknown_keys
        ),
        file_name=file_name,
    )


def planned(found: GoalFile) -> tuple[ev.PlannedTask, ...]:
    """Give the tree of a goal file."""
    return tuple(
        ev.PlannedTask(
            description=task.description,
            subtasks=tuple(
                ev.PlannedSubtask(
                    description=sub.description,
                    done=sub.done,
                    steps=tuple(ev.Step(tool=s.tool, args=s.args) for s in sub.steps),
                )
                for sub in task.subtasks
            ),
        )
        for task in found.tasks
    )


def _notes(found: GoalFile) -> str:
    """Join the prose of the goal, its tasks and its items: all of it is for the agent."""
    parts = [found.notes]
    for task in found.tasks:
        if task.notes:
            parts.append(f"{task.description}: {task.notes}")
        parts += [f"{sub.description}: {sub.notes}" for sub in task.subtasks if sub.notes]
    return "\n\n".join(part for part in parts if part)


def _free_id(daemon: Daemon, description: str) -> str:
    taken = daemon.book.cores.keys() | daemon.book.gone
    while (goal := goal_id(description, secrets.token_hex(TOKEN_BYTES))) in taken:
        pass
    return goal
