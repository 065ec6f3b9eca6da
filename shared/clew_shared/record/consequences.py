"""What follows from an action: the world that it leads to, and whether it makes progress (docs/loops.md, Terms).

Pure rules, shared by the fold and the core.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from clew_shared.record.facts import WORDS, covers, largest_number, read_sketch, resized, reworded
from clew_shared.record.model import Result
from clew_shared.record.places import place_of
from clew_shared.record.signature import digest
from clew_shared.record.worlds import CLAIMED, UNKNOWN, is_measured
from clew_shared.tools import WRITE_ONLY_TOOLS

if TYPE_CHECKING:
    from clew_shared.record import events as ev
    from clew_shared.record.model import Action
    from clew_shared.record.state import Restatements, Scope, Sketch, State

SHORT_PIECES = 3
LONG_PIECES = 8
"""Answers of fewer pieces than the first ("yes", "free") are equal by chance; of as many as the second hardly ever."""

LARGER = 1.2
LIMIT_MIN = 10
"""A limit grows by such a factor at least, to such a number; those of things that are looked up in turn do not."""

ZOOM_SHARE = 0.5
"""A read that is smaller than this share of what was seen looks closer at a part of it, which has a purpose."""


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
    known = state.changes.get(signature, {}).get(claim_key(e))
    if known and known.novelty == state.novelty and not counts_as_work(e):
        return known.world
    kind = UNKNOWN if e.world else CLAIMED
    return kind + digest(f"{state.world}\n{signature}\n{claim_key(e)}\n{state.novelty}")


def claim_key(e: ev.ActionFinished) -> str:
    """Return what two outcomes of an unmeasured change have in common if they are the same: all but fresh ids."""
    return e.evidence.receipt or e.outcome


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


def repeats_receipt(scope: Scope, signature: str, e: ev.ActionFinished, before: str) -> bool:
    """Return whether an answer is that of the same action before but for fresh ids, of which none was used."""
    last = scope.receipts.get(signature)
    return bool(last and e.evidence.receipt == last.digest and before == last.world)


def asks_again(scope: Scope, action: Action, e: ev.ActionFinished, world: str) -> str:
    """Return the key of what an action asks for again in another form, without learning anything; "" if it does not.

    Other limits or another order of words may be worth a try; what is judged is that the answer held nothing new.
    """
    if not e.evidence.facts:
        return ""
    found = read_sketch(e.evidence.facts)
    for key in forms(action, e, found):
        earlier = scope.restated.get(key)
        if earlier and earlier.world == world and is_vain(earlier, action, found, key):
            return key
    return ""


def forms(action: Action, e: ev.ActionFinished, found: Sketch) -> list[str]:
    """Return the keys under which an action is compared with others that ask for the same."""
    by_size = e.result == Result.SUCCESS and found.size >= SHORT_PIECES
    keys = (
        resized(action.name, action.args) if by_size else "",
        reworded(action.name, action.args),
    )
    return [key for key in keys if key]


def is_vain(earlier: Restatements, action: Action, found: Sketch, key: str) -> bool:
    """Return whether an answer holds nothing that the earlier ones did not, nor looks closer at a part of them.

    Numbers may also name things (orders by their numbers), whose short answers are equal by chance.
    """
    if not covers(earlier.known, found) or zooms(earlier, found):
        return False
    by_words = key.startswith(WORDS)
    return by_words or found.size >= LONG_PIECES or asks_for_more(earlier, action, found)


def asks_for_more(earlier: Restatements, action: Action, found: Sketch) -> bool:
    """Return whether an action asks for clearly more than the earlier ones, and for more than there is."""
    asked = largest_number(action.args)
    return asked >= max(earlier.asked * LARGER, found.size, LIMIT_MIN)


def zooms(earlier: Restatements, found: Sketch) -> bool:
    """Return whether an answer shows a small part of the earlier ones."""
    return found.size < earlier.known.size * ZOOM_SHARE
