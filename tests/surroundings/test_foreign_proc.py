"""A daemon whose /proc numbers other processes than it does itself."""

from environments import tried
from main_job import Ways


def test_workers_are_not_ended_for_the_memory_of_others_and_it_is_said_that_theirs_is_not_measured(
    place,
):
    clew = place(
        Ways(daemon=tried("unshare", "-pf", "--kill-child"), config={"limits.memory_mb": 256})
    )
    clew.start()
    busy = [f"for n in $(seq 300); do true | true; done; echo {n} >> trace" for n in range(4)]
    goal = clew.hand_in(busy)
    clew.wait("goal.completed", goal=goal)
    assert clew.trace() == ["0", "1", "2", "3"]
    assert not clew.seen("worker.killed")
    assert clew.stop() == 0
