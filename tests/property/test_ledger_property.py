"""Whatever is appended, in whatever order, reads back so and verifies."""

import asyncio
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from clew_daemon.ledger.ledger import Ledger
from clew_daemon.ledger.verify import verify
from clew_shared.ledger.errors import NewEvent
from clew_shared.ledger.reader import Reader

GOALS = st.sampled_from(["", "a", "goal-7f3a", "größe"])
ENTRY = st.builds(
    NewEvent, GOALS, st.text(max_size=8), st.binary(max_size=60), st.none() | st.binary(max_size=60)
)
STEP = st.one_of(
    st.lists(ENTRY, max_size=5),
    st.just("await"),
    st.just("reopen"),
    st.tuples(st.just("purge"), GOALS),
)


async def play(path: Path, steps: list) -> list[tuple[int, NewEvent]]:
    """Carry the steps out, and give what the ledger should hold then."""
    ledger = Ledger.open(path)
    kept: list[tuple[int, NewEvent]] = []
    for step in steps:
        if step == "await":
            assert await ledger.sync(30)
        elif step == "reopen":
            await ledger.close(30)
            ledger = Ledger.open(path)
        elif isinstance(step, tuple):
            await ledger.purge(step[1])
            kept = [(seq, entry) for seq, entry in kept if entry.goal != step[1]]
        else:
            kept += zip(ledger.append(step)[0], step, strict=True)
    await ledger.close(30)
    return kept


@settings(max_examples=60, deadline=None)
@given(st.lists(STEP, max_size=25))
def test_any_interleaving_reads_back_in_order_and_verifies(steps):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "ledger.db")
        kept = asyncio.run(play(path, steps))
        report = verify(path)
        with Reader.open(path) as reader:
            rows = list(reader.read_all())
            assert [(row.seq, row.goal, row.kind, row.body) for row in rows] == [
                (seq, entry.goal, entry.kind, entry.body) for seq, entry in kept
            ]
            assert [reader.output(row.seq) for row in rows] == [e.output for _, e in kept]
            for goal in {entry.goal for _, entry in kept}:
                assert list(reader.read(goal)) == [row for row in rows if row.goal == goal]
            assert set(reader.goals()) == {row.goal for row in rows} - {""}

    assert report.fault is None
    assert report.events == len(kept)
