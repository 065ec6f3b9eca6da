"""The real daemon, nursery, agent and executor, killed at every labelled point: nothing lost, nothing done twice."""

import aftermath
import points
import pytest
from chaos_life import Life

CONFIG = {"daemon.max_workers": 2, "loops.crash_limit": 50}
HITS = (1, 4, 15, 40)
WORKER_HITS = (1, 4, 11)
TELLING = (
    ("ledger.commit.after", 17),  # recorded, and nobody has heard of it
    pytest.param("review.before", 1, marks=pytest.mark.long),  # ended, and no file says so
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
@pytest.mark.parametrize("namespaces", [True, False])
@pytest.mark.parametrize("point", points.names(points.WORKER))
def test_a_process_of_a_worker_killed_at(make_clew, point, namespaces):
    life = Life(make_clew(CONFIG), namespaces=namespaces)
    life.live(life.order(point, WORKER_HITS))
    life.check()
    assert life.deaths == 0
    assert life.struck(point) >= 1


@pytest.mark.long
@pytest.mark.parametrize("point", points.names(points.RETENTION))
def test_the_daemon_killed_while_it_lets_a_goal_go_at(make_clew, point):
    life = Life(make_clew(CONFIG))
    clew = life.clew
    life.live(life.order("", ()))
    old = life.check()
    clew.configure({"ledger.keep_days": 1e-9})
    life.counts = clew.folder / "counts of letting go"
    for _ in range(3):
        since = clew.now()
        life.start(life.order(point, (1, 2)))
        clew.until(lambda since=since: life.dead or clew.seen("daemon.ready", since=since))
        clew.until(lambda: life.dead or not (life.goals() or life.folders()), "all let go")
        if not life.dead and clew.stop() == 0:
            break
        life.deaths += 1
        life.survey()
    assert life.deaths >= 1, life.struck(point)
    assert aftermath.record(clew) == {}
    for goal in old:
        assert "completed" in clew.report(goal)
        assert clew.lines(goal, "trace")
