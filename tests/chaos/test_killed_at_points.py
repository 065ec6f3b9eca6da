"""The real daemon, nursery, agent and executor, killed at every labelled point: nothing lost, nothing done twice."""

import points
import pytest
from chaos_life import Life

CONFIG = {"daemon.max_workers": 2, "loops.crash_limit": 50}
HITS = (1, 4, 15, 40)
WORKER_HITS = (1, 4, 11)
TELLING = (
    ("ledger.commit.after", 17),  # recorded, and nobody has heard of it
    ("review.before", 1),  # the goal has ended, and no file says so
)
TELLING_OF_WORKERS = (("executor.effect.after", 3),)  # done, and nobody has heard of it


@pytest.fixture
def life(make_clew):
    return Life(make_clew(CONFIG))


def test_every_labelled_point_is_passed_in_a_life_without_faults(life):
    life.live(life.order("", ()))
    life.check()
    counts = points.Counts(life.counts).read()
    assert life.deaths == 0
    never = [point for point in points.names(points.DAEMON | points.WORKER) if not counts[point]]
    assert not never, never


@pytest.mark.parametrize(("point", "hit"), TELLING)
def test_the_daemon_killed_once_at(life, point, hit):
    life.live(life.order(point, (hit,)))
    life.check()
    assert life.deaths == 1, life.struck(point)


@pytest.mark.long
@pytest.mark.timeout(400)
@pytest.mark.parametrize("point", points.names(points.DAEMON))
def test_the_daemon_killed_at(life, point):
    life.live(life.order(point, HITS))
    life.check()
    assert life.deaths >= 1, life.struck(point)


@pytest.mark.parametrize(("point", "hit"), TELLING_OF_WORKERS)
def test_a_process_of_a_worker_killed_once_at(life, point, hit):
    life.live(life.order(point, (hit,)))
    life.check()
    assert life.struck(point) >= hit


@pytest.mark.long
@pytest.mark.timeout(400)
@pytest.mark.parametrize("point", points.names(points.WORKER))
def test_a_process_of_a_worker_killed_at(life, point):
    life.live(life.order(point, WORKER_HITS))
    life.check()
    assert life.deaths == 0
    assert life.struck(point) >= 1
