"""What is kept beside the events can be made anew from them: snapshots of the playbook, outlines of ended goals."""

from clew_daemon.cli.commands.verify import check_ledger
from clew_daemon.record.goals import GoalStore
from clew_daemon.record.store import load_state
from clew_shared.config.tables import Settings
from clew_shared.record import events as ev
from clew_shared.record.snapshot import OUTLINE_VERSION, compressed, dump, load, outline
from clew_shared.record.spec import Spec

AT = 1_790_000_000.0


def opened(ledger):
    book = GoalStore(ledger, Settings())
    book.listeners.clear()
    return book


async def settled(book):
    await book.snapshots.drain()


def corrupted(ledger, sql, *values):
    with ledger._writer._con as con:
        con.execute(sql, values)


async def over(book, goal="a"):
    spec = Spec(description="Do", workspace=f"/w/{goal}")
    await book.accept(ev.GoalAccepted(at=AT, goal_id=goal, spec=spec, identity=(goal,)), b"file")
    core = book.cores[goal]
    with book.entering(core):
        core.emit(ev.GoalEnded(at=AT, status="cancelled"))
        core.emit(ev.Reported(at=AT))
        core.emit(ev.Reviewed(at=AT, of=core.state.rested_seq))
    await book.commit(core)
    book.evict(goal)
    await settled(book)
    return core


async def test_an_outline_that_was_changed_or_is_not_of_its_events_is_a_fault(ledger):
    book = opened(ledger)
    core = await over(book)
    state = load(dump(core.state))
    state.reason = "another"
    await ledger.snapshot("a", state.seq, OUTLINE_VERSION, compressed(dump(state)))
    assert "snapshot is not what its events give: reason" in check_ledger(ledger.path).fault.message
    kept = compressed(dump(outline(load_state(ledger, "a"))))
    await ledger.snapshot("a", state.seq, OUTLINE_VERSION, kept)
    assert check_ledger(ledger.path).ok
    corrupted(ledger, "UPDATE snapshots SET state = x'00' WHERE goal = ?", "a")
    assert "its snapshot was changed" in check_ledger(ledger.path).fault.message
