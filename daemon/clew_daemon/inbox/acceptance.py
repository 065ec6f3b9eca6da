"""From a dropped file to a goal: parsed, checked, and durably recorded, each drop exactly once."""

import asyncio
import secrets
import time
from collections.abc import Collection
from functools import partial

import structlog

from clew_daemon.inbox.files import Dropped
from clew_daemon.inbox.goalfile.keys import GoalFile, GoalFileError, GoalFileFault
from clew_daemon.inbox.goalfile.parse import goal_id, located, parse
from clew_daemon.parts import DaemonParts
from clew_daemon.record import dependencies
from clew_shared.core.core import Core
from clew_shared.record import events as ev
from clew_shared.record.fold import fold
from clew_shared.record.spec import Spec
from clew_shared.text.plain import plain, recordable
from clew_shared.text.redact import has_hidden, redact

log = structlog.get_logger()

TOKEN_BYTES = 2
KEY_IN_FILE = (
    "this is the API key of one of the agents, and a goal file is kept on record as it came: take the key out, "
    "and pass what commands need through the environment (`[sandbox] env`)"
)

_TRANSLATED = {"agent", "depends_on", "not_before", "unknown_keys", "workspace"}
_AS_THEY_ARE = set(GoalFile.model_fields) & set(Spec.model_fields) - _TRANSLATED


async def accept(daemon: DaemonParts, dropped: Dropped) -> str | None:
    """Make a goal of a dropped file, once, and wait until that is durable; return why it cannot be one."""
    identity = tuple(recordable(str(part)) for part in dropped.identity)
    if await daemon.goals.accepted(identity):
        return None
    try:
        with daemon.goals.accepting.place() as turn:
            agents = daemon.settings.agents.names
            found = await asyncio.to_thread(understood, daemon, dropped.raw, dropped.name, agents)
            await turn()  # in the order of the drops: a later one may name an earlier one
            core = _entered(daemon, dropped, found, identity)
    except GoalFileError as error:
        return redact(str(error))
    if core is None:  # the same drop was taken by another call meanwhile
        await daemon.goals.accepted(identity)
    else:
        await daemon.goals.commit(core)
        await asyncio.to_thread(_write_copy, daemon, core.state.goal_id, dropped.raw)
    return None


def _entered(
    daemon: DaemonParts, dropped: Dropped, found: GoalFile, identity: tuple[str, ...]
) -> Core | None:
    """Enter the goal of a dropped file, to be committed; None where it was entered meanwhile.

    Raises GoalFileError.
    """
    if identity in daemon.goals.identities:
        return None
    goal, goals = "", daemon.goals
    while not goal or goal in goals.cores or goal in goals.gone or goal in goals.names:
        goal = goal_id(found.description, secrets.token_hex(TOKEN_BYTES), found.name)
    own, env = str(daemon.places.workspaces / goal), daemon.keys.env
    try:
        workspace = str(found.folder or located(own, daemon.places, env))
    except ValueError as error:
        fault = GoalFileFault(None, f"its workspace: {error}")
        raise GoalFileError(dropped.name, [fault]) from None
    spec = bound_spec(daemon, found, workspace, recordable(dropped.name))
    event = ev.GoalAccepted(
        at=time.time(), goal_id=goal, spec=spec, tasks=found.tasks, identity=identity
    )
    if faults := misplaced(daemon, found, event):
        raise GoalFileError(dropped.name, faults)
    goals.ledger.look()  # what is accepted leaves the inbox: not for a ledger that is gone
    return goals.enter(event, dropped.raw)


def understood(daemon: DaemonParts, raw: bytes, name: str, agents: Collection[str]) -> GoalFile:
    """Parse a goal file, and resolve the workspace that it names. Raises GoalFileError."""
    place = partial(located, places=daemon.places, env=daemon.keys.env)
    found = parse(raw, name, agents, located=place)
    for line, text in enumerate(raw.decode("utf-8", "replace").splitlines(), start=1):
        if has_hidden(text):  # the ledger keeps the file as it is
            raise GoalFileError(name, [GoalFileFault(line, KEY_IN_FILE)])
    return found


def misplaced(daemon: DaemonParts, found: GoalFile, event: ev.GoalAccepted) -> list[GoalFileFault]:
    """Return why the goal cannot be taken beside the others: its name is in use, or it would wait for itself."""
    goals, faults, name = daemon.goals, [], found.name
    in_use = name and (name in goals.names or name in goals.cores)
    if in_use and (other := dependencies.holder(name, goals.states(), event.goal_id)):
        why = f"in use by {other}, which has not ended: choose another name, or end that goal (`clew cancel {other}`)"
        if name == other:
            why = "the id of another goal: choose another name"
        faults.append(GoalFileFault(found.lines.get("name"), f"`name` {name} is {why}"))
    if event.spec.depends_on:
        known = dependencies.KnownGoals(goals.states(), goals.gone)
        if way := dependencies.cycle(fold([(0, event)]), known):
            cycle = " → ".join(way)
            fault = f"`depends_on` makes a cycle: {cycle}; remove one of these dependencies"
            faults.append(GoalFileFault(found.lines.get("depends_on"), fault))
    return faults


def _write_copy(daemon: DaemonParts, goal: str, raw: bytes) -> None:
    """Write the file as it came to where a person finds it; the copy in the ledger is the one that counts."""
    folder = daemon.places.state / "goals" / goal
    try:
        for one in (folder.parent, folder):  # a state folder that is gone is not made again
            one.mkdir(exist_ok=True)
        (folder / "goal.md").write_bytes(raw)
    except OSError as error:
        log.warning("goal.copy_unwritable", goal=goal, error=plain(error))


def bound_spec(daemon: DaemonParts, found: GoalFile, workspace: str, file_name: str) -> Spec:
    """Return what a goal file asks for, as the ledger keeps it, with what it depends on as that is called now.

    The agent is the file's, else the runbook where every open subtask has blocks, else the default.
    """
    agent = "runbook"
    if found.agent or not found.runnable_without_llm:
        agent = daemon.settings.agents.resolve(found.agent)
    known = dependencies.KnownGoals(daemon.goals.states(), daemon.goals.gone)
    return Spec(
        **found.model_dump(include=_AS_THEY_ARE),
        workspace=workspace,
        agent=agent,
        budget_tokens=found.budget.tokens,
        budget_wall_s=found.budget.wall_s,
        not_before=found.not_before.timestamp() if found.not_before else None,
        depends_on=dependencies.bound(found.depends_on, known) if found.depends_on else (),
        timeout_s=found.timeout,
        unknown_keys=tuple(
            f"{key} (did you mean {meant}?)" if meant else key
            for key, meant in found.unknown_keys.items()
        ),
        file_name=file_name,
    )
