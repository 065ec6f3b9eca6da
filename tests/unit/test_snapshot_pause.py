"""How long a worker does without snapshots after one that failed."""

from clew_daemon.session.snapshots import PAUSE_MAX, SnapshotPause


def passed(pause):
    """How many moments pass without a snapshot."""
    count = 0
    while pause.skips():
        count += 1
    return count


def test_twice_as_many_moments_pass_after_each_failure_up_to_a_bound():
    pause, found = SnapshotPause(), []
    assert passed(pause) == 0
    for _ in range(8):
        pause.failed()
        found.append(passed(pause))
    assert found == [1, 2, 4, 8, 16, PAUSE_MAX, PAUSE_MAX, PAUSE_MAX]


def test_after_a_snapshot_none_passes():
    pause = SnapshotPause()
    pause.failed()
    pause.failed()
    pause.succeeded()
    assert passed(pause) == 0
    assert passed(pause) == 0
    pause.failed()
    assert passed(pause) == 1
