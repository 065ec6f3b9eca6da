"""Entries to restore go to the executor in requests of bounded size."""

from clew_daemon.undo.visit import BATCH_CHARS, batches
from clew_shared.snapshots.plan import Restored
from clew_shared.wire.executor import (
    LINE_BYTES_MAX,
    RESTORE_MAX,
    RestoreEntry,
    RestoreRequest,
    to_line,
)


def entries(names):
    return [Restored(name, (0o100644, "0" * 40), (0o100755, "1" * 40)) for name in names]


def test_every_entry_is_in_one_request_in_order():
    wanted = entries([f"folder/{n}" for n in range(3 * RESTORE_MAX + 1)])
    found = list(batches(wanted))
    assert [one for part in found for one in part] == wanted
    assert max(map(len, found)) == RESTORE_MAX
    assert list(batches([])) == []


def test_long_names_make_short_requests_that_fit_on_a_line():
    wanted = entries(["\\377" * 4096 + str(n) for n in range(100)])
    found = list(batches(wanted))
    assert [one for part in found for one in part] == wanted
    for part in found:
        assert sum(len(one.name) for one in part) <= BATCH_CHARS
        request = RestoreRequest(
            id=1,
            entries=tuple(
                RestoreEntry(name=one.name, present=one.present, wanted=one.wanted) for one in part
            ),
        )
        assert len(to_line(request)) < LINE_BYTES_MAX
