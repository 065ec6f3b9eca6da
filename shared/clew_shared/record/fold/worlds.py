"""Which world an action begins in and leads to, and whether it makes progress: shared by the fold and the core."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clew_shared.record.progress import WRITE_ONLY_TOOLS
from clew_shared.record.signature import digest

if TYPE_CHECKING:
    from clew_shared.record import events as ev
    from clew_shared.record.state import Scope, State

CLAIMED = "claimed:"
"""Begins the name of a world that an agent claimed to have changed and that was never measured."""


def comparison_world(state: State, measured: str) -> str:
    """Return the world that a step began in, to compare with the digest `measured` after it.

    Where a change was only claimed, the first digest after it names that world; it does not mean another change.
    """
    claimed = state.world.startswith(CLAIMED)
    return measured if measured and claimed and state.measured in ("", measured) else state.world


def world_after(state: State, signature: str, e: ev.ActionFinished) -> str:
    """Return the name of the world that an outcome leads to.

    A measured digest names itself. A claimed change (not measured) leads to a new world. The exception is a signature
    seen before with the same outcome and no new changing signature since: it leads to the same world as then.
    """
    if e.world:
        return e.world
    if not e.changed:
        return state.world
    known = state.changes.get(signature, {}).get(e.outcome)
    if known and known.novelty == state.novelty:
        return known.world
    return CLAIMED + digest(f"{state.world}\n{signature}\n{e.outcome}\n{state.novelty}")


def makes_progress(scope: Scope, before: str, after: str, information: str) -> bool:
    """Return whether a step reaches a world new to this scope or, without writing, an outcome new to that world."""
    if after != before:
        return after not in scope.worlds
    return bool(information) and information not in scope.outcomes


def information_key(tool: str, signature: str, world: str, e: ev.ActionFinished) -> str:
    """Return the key of what a step has revealed: an outcome of its tool in a world.

    Where no outcome was reported, the key has the signature in place of the tool: only the very same action repeats
    it. "" for a tool that only writes: the world says it all.
    """
    if tool in WRITE_ONLY_TOOLS and not e.plain:
        return ""
    return f"{signature if e.plain else tool}\n{world}\n{e.outcome}"
