"""Worlds: what is known of the files of a workspace, and where an action leads (docs/loops.md, Terms).

A world is named by its digest, by CLAIMED and a digest where a change was only claimed, or by UNKNOWN and a digest
where the files are not known. A measurement is a digest, UNKNOWN where it was cut short by time or size, "" for none.
Pure rules, shared by the fold and the core.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from clew_shared.record.model import Result
from clew_shared.record.signature import digest
from clew_shared.tools import WRITE_ONLY_TOOLS

if TYPE_CHECKING:
    from clew_shared.record import events as ev
    from clew_shared.record.scope import Scope, Tally
    from clew_shared.record.state import State

CLAIMED = "claimed:"
UNKNOWN = "unknown:"  # not measured whole: as a measurement it equals no other, not even an UNKNOWN


def is_measured(world: str) -> bool:
    """Return whether this is an exact digest, which can be compared with others."""
    return bool(world) and not world.startswith((CLAIMED, UNKNOWN))


def comparison_world(state: State, measured: str) -> str:
    """Return the world that a step began in, to compare with the digest `measured` after it.

    Where that world was not measured, the first digest after it names it; it does not mean a change.
    """
    unmeasured = not is_measured(state.loops.world) and bool(state.loops.world)
    names_it = is_measured(measured) and state.loops.measured in ("", measured)
    return measured if unmeasured and names_it else state.loops.world


def world_moved(state: State, measured: str) -> bool | None:
    """Return whether a measurement after a step shows another world than before it, None if one is unknown."""
    if not is_measured(measured) or state.loops.world.startswith(UNKNOWN):
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
        return state.loops.world
    kind = UNKNOWN if e.world else CLAIMED
    return kind + digest(f"{signature}\n{e.outcome}\n{novelty_after(state, signature, e)}")


def novelty_after(state: State, signature: str, e: ev.ActionFinished) -> int:
    """Return how many signatures have changed something by then, without a measurement."""
    too_large = e.changed is None and e.world == UNKNOWN and e.result == Result.SUCCESS
    return state.loops.novelty + (signature not in state.loops.changes or too_large)


def may_have_changed(e: ev.ActionFinished) -> bool:
    """Return whether an unmeasured outcome claims a change, or leaves one possible."""
    return bool(e.changed) or (e.changed is None and e.world == UNKNOWN)


def makes_progress(
    scope: Scope, signature: str, tool: str, before: str, after: str, e: ev.ActionFinished
) -> bool:
    """Return whether a step reaches a world new to its scope, or without changing it, has an outcome new in it.

    What a tool that only writes answers says nothing beyond the world, nor does an action without a report that has
    changed something before. Without a report, the same result says no more in another world.
    """
    if after != before:
        return after not in scope.worlds
    if tool in WRITE_ONLY_TOOLS or (e.plain and signature in scope.writers):
        return False
    worlds = scope.tallies.get(signature, {})
    known = worlds.values() if e.plain else [worlds[after]] if after in worlds else ()
    return not any(e.outcome in tally.counts for tally in known)


def by_itself(tally: Tally | None, e: ev.ActionFinished) -> bool:
    """Return whether an answer may be another one the next time, with nothing done in between.

    It says that something goes on, or has been different before in this world, be it only to the letter. Of a tool
    that only writes, the result alone counts.
    """
    if e.evidence.kind == "going_on" or (tally and tally.kind == "varies"):
        return True
    if tally is None or not tally.outcome or e.result != Result.SUCCESS:
        return False
    answers = not e.outcome.endswith(":")
    return tally.outcome != e.outcome or (answers and tally.raw != e.evidence.raw)
