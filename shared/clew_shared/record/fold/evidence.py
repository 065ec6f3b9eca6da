"""The fold of evidence: what reads have returned, which receipts came again, and what failing checks measure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clew_shared.record.consequences import asks_for_more, forms, is_vain, zooms
from clew_shared.record.facts import WORDS, covers, largest_number, read_sketch, united
from clew_shared.record.model import Action, Result
from clew_shared.record.progress import is_at_work
from clew_shared.record.receipts import used
from clew_shared.record.state import EVERYWHERE, Receipt, Restatements, Scope, Series, State

if TYPE_CHECKING:
    from clew_shared.record import events as ev

READINGS_KEPT = 4
FAILED = frozenset({Result.FAILURE, Result.ERROR})
IDS_KEPT = 200
"""Fresh ids that are remembered until they are used; each argument is searched for them."""

RESTATED_MAX = 100
"""Forms of which reads are remembered, with up to some 600 characters each: who asks again asks soon."""


def remember_facts(
    scope: Scope, action: Action, e: ev.ActionFinished, world: str, *, afresh: bool, first: bool
) -> None:
    """Take in what a read returned; `afresh`: the agent has waited, `first`: the action is new in this world."""
    if not e.evidence.facts:
        return
    found, asked = read_sketch(e.evidence.facts), largest_number(action.args)
    for key in forms(action, e, found):
        earlier = scope.restated.pop(key, None)
        if earlier is None or afresh or earlier.world != world:
            scope.restated[key] = Restatements(world, found, asked)
            continue
        scope.restated[key] = earlier
        if first and is_vain(earlier, action, found, key):
            earlier.count += key.startswith(WORDS) or asks_for_more(earlier, action, found)
        elif not covers(earlier.known, found):
            earlier.known, earlier.count = united(earlier.known, found), 1
        if not zooms(earlier, found):
            earlier.asked = max(earlier.asked, asked)
    for key in list(scope.restated)[: max(len(scope.restated) - RESTATED_MAX, 0)]:
        del scope.restated[key]


def remember_receipt(state: State, signature: str, e: ev.ActionFinished, *, repeated: bool) -> None:
    """Count a receipt that came again, and remember its ids."""
    scope = state.scope
    last = scope.receipts.pop(signature, None)
    if not e.evidence.receipt:
        return
    times = last.count + 1 if last and repeated else 1
    scope.receipts[signature] = Receipt(
        e.evidence.receipt, state.world, times, soft=e.soft or is_at_work(e.head)
    )
    for one in e.evidence.ids:
        scope.ids.setdefault(one, signature)  # one that was used does not become fresh again
    for one in list(scope.ids)[: max(len(scope.ids) - IDS_KEPT, 0)]:
        del scope.ids[one]


def use_ids(scope: Scope, args: dict[str, Any]) -> None:
    """Forget the attempts at actions whose ids are used now: what they returned was needed, and more may be."""
    fresh = [one for one, signature in scope.ids.items() if signature]
    for one in used(fresh, args) if fresh else ():
        signature, scope.ids[one] = scope.ids[one], ""
        scope.receipts.pop(signature, None)
        scope.tallies.pop(signature, None)
        if EVERYWHERE not in scope.blocks.get(signature, {}):
            scope.blocks.pop(signature, None)


def measure(
    state: State, signature: str, e: ev.ActionFinished, before: str, *, first: bool
) -> None:
    """Take the answer of a failing check into its series; the first one in each new world counts.

    Another result, such as a success after failures, ends the series.
    """
    series = state.scope.series.pop(signature, None)
    failed = e.result in FAILED
    if e.soft or not (failed or e.evidence.gauge):
        return
    if series is None or series.result != e.result:
        series = Series(e.result, "")
    if first and series.world != before:
        series.world = state.world
        if failed:
            series.outcomes.append(e.outcome)
            del series.outcomes[:-READINGS_KEPT]
        _take_readings(series, e.evidence.gauge, list(e.evidence.readings))
    state.scope.series[signature] = series


def _take_readings(series: Series, gauge: str, readings: list[float]) -> None:
    """Add readings; a new extreme of any number is a trend, and starts the count again."""
    if series.gauge != gauge or not series.last:
        series.gauge, series.last, series.turns = gauge, [], 0
        series.lows, series.highs = readings[:], readings[:]
    last = series.last
    last.append(readings)
    del last[:-READINGS_KEPT]
    lows = list(map(min, series.lows, readings))
    highs = list(map(max, series.highs, readings))
    extreme = lows != series.lows or highs != series.highs
    series.lows, series.highs = lows, highs
    series.count = 0 if extreme else series.count + 1
    series.turns = 0 if extreme else series.turns + _turned(last)


def _turned(last: list[list[float]]) -> bool:
    """Return whether the last readings moved the other way than those before."""
    if len(last) < len(("before", "between", "after")):
        return False
    before, between, after = last[-3:]
    return before < between > after or before > between < after
