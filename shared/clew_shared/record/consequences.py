"""What follows from an action: the world that it leads to, and whether it makes progress (docs/loops.md, Terms).

Pure rules, shared by the fold and the core.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from clew_shared.record.model import Result
from clew_shared.record.places import place_of
from clew_shared.record.signature import digest
from clew_shared.record.worlds import CLAIMED, UNKNOWN, is_measured
from clew_shared.tools import WRITE_ONLY_TOOLS

if TYPE_CHECKING:
    from clew_shared.record import events as ev
    from clew_shared.record.model import Action
    from clew_shared.record.state import Scope, State


def comparison_world(state: State, measured: str) -> str:
    """Return the world that a step began in, to compare with the digest `measured` after it.

    Where that world was not measured, the first digest after it names it; it does not mean a change.
    """
    unmeasured = not is_measured(state.world) and bool(state.world)
    names_it = is_measured(measured) and state.measured in ("", measured)
    return measured if unmeasured and names_it else state.world


def world_moved(state: State, measured: str) -> bool | None:
    """Return whether a measurement after a step shows another world than before it, None if one is unknown."""
    if not is_measured(measured) or state.world.startswith(UNKNOWN):
        return None
    return measured != comparison_world(state, measured)


def world_after(state: State, signature: str, e: ev.ActionFinished) -> str:
    """Return the name of the world that an outcome leads to.

    A measured digest names itself. A change that was not measured leads to a new world. The exception is a signature
    seen before with the same outcome and no new changing signature since: it leads to the same world as then
    (docs/loops.md). A success that may have changed a workspace too large to measure always leads to a new world.
    """
    if is_measured(e.world):
        return e.world
    if not may_have_changed(e):
        return state.world
    known = state.changes.get(signature, {}).get(e.outcome)
    if known and known.novelty == state.novelty and not counts_as_work(e):
        return known.world
    kind = UNKNOWN if e.world else CLAIMED
    return kind + digest(f"{state.world}\n{signature}\n{e.outcome}\n{state.novelty}")


def may_have_changed(e: ev.ActionFinished) -> bool:
    """Return whether an unmeasured outcome claims a change, or leaves one possible."""
    return bool(e.changed) or (e.changed is None and e.world == UNKNOWN)


def counts_as_work(e: ev.ActionFinished) -> bool:
    """Return whether a success counts as a change because the workspace is too large to measure."""
    return e.changed is None and e.world == UNKNOWN and e.result == Result.SUCCESS


def makes_progress(scope: Scope, before: str, after: str, information: str) -> bool:
    """Return whether a step reaches a world new to this scope or, without writing, an outcome new to that world."""
    if after != before:
        return after not in scope.worlds
    return bool(information) and information not in scope.outcomes


def information_key(
    state: State, action: Action, signature: str, world: str, e: ev.ActionFinished
) -> str:
    """Return the key of what a step has revealed: an outcome of its tool in a world, and of a command in a place.

    Where no outcome was reported, the key is the signature and the result: only the very same action repeats it, and
    in another world it says no more. "" for a tool that only writes, and for an action without a report that has
    changed something before: the world says it all.
    """
    if e.plain:
        return "" if signature in state.scope.writers else f"{signature}\n{e.outcome}"
    if action.name in WRITE_ONLY_TOOLS:
        return ""
    place = (
        place_of(action.args, e.head, state.spec.workspace) if e.result == Result.SUCCESS else ""
    )
    subject = f"{action.name} in {place}" if place else action.name
    return f"{subject}\n{world}\n{e.outcome}"
