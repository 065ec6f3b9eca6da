"""Killed between the end of an attempt and the start of the next: each begins once, where its subtask began."""

import aftermath
import points
import pytest
from chaos_life import Life

from clew_shared.record import events as ev
from clew_shared.record.codec import decode

CONFIG = {"loops.crash_limit": 50}
HITS = (1, 2)

STUCK = """\
---
agent: stuck
attempts: 3
workspace: {workspace}
---
# Get out

- [ ] Find the way
"""

AGENT = """
answer = hello()
n = answer["attempt"]["n"]
if n < 3:
    run(f"printf '%s\\\\n' wall{n} >> map; mkdir -p rooms && mv door rooms/door; rm -f key")
    call("complete_subtask", success=False, failure=f"wall {n}")
    notice("stop")
else:
    run("printf out > way")
    call("complete_subtask", success=True)
    call("advance")
    call("finish", success=True, summary="out")
"""


class StuckLife(Life):
    """A home with one goal, which takes three attempts."""

    def __init__(self, clew, folder, *, namespaces=True):
        self.clew, self.folder = clew, folder
        self.counts = clew.folder / "counts"
        self.deaths = 0
        self.namespaces = namespaces
        folder.mkdir()
        for name in ("map", "door", "key"):
            (folder / name).write_text(f"the {name}\n")
        clew.agent("stuck", AGENT)
        clew.drop(STUCK.format(workspace=folder), "stuck.md")

    def is_over(self, goals):
        [*reports] = (self.clew.home / "outbox").glob("*.md")
        return bool(reports) and all(goal["status"] == "completed" for goal in goals)

    def check(self):
        """Each attempt began once, and the last one found what was there before the first."""
        self.clew.assert_alone()
        [told] = aftermath.record(self.clew).values()
        aftermath.goal_is_whole(self.clew, told)
        events = list(self.events(told.id))
        ends = [(one.kind, one.attempt) for one in events if isinstance(one, ENDS)]
        assert ends == [
            ("attempt_ended", 1),
            ("attempt_started", 2),
            ("attempt_ended", 2),
            ("attempt_started", 3),
        ]
        begun = [one for one in events if isinstance(one, ev.AttemptStarted)]
        assert [(one.restored, one.kept, one.left) for one in begun] == [(4, "", ())] * 2
        undos = [one.kind for one in events if isinstance(one, UNDOS)]
        assert undos == ["undo_started", "undo_finished"] * 2
        files = {path.name: path.read_text() for path in self.folder.iterdir() if path.is_file()}
        assert files == {name: f"the {name}\n" for name in ("map", "door", "key")} | {"way": "out"}
        assert not (self.folder / "rooms").exists()

    def events(self, goal):
        return (decode(row.body) for row in self.clew.rows(goal))


ENDS = (ev.AttemptEnded, ev.AttemptStarted)
UNDOS = (ev.UndoStarted, ev.UndoFinished)
PASSED = ("undo.begin", "undo.restore", "undo.finish")
POINTS = points.names(points.ATTEMPT | {name: points.UNDO[name] for name in PASSED})
TELLING = ("undo.restore.after", "attempt.begin.before")


def sampled(names, *telling):
    """All these points; those that tell most in every run, the others in long ones."""
    return [pytest.param(one, marks=() if one in telling else pytest.mark.long) for one in names]


@pytest.fixture
def life(make_clew, tmp_path):
    return StuckLife(make_clew(CONFIG), tmp_path / "maze")


def test_each_attempt_begins_where_its_subtask_began(life):
    life.live(life.order("", ()))
    life.check()
    counts = points.Counts(life.counts).read()
    assert all(counts[point] for point in POINTS), counts


@pytest.mark.timeout(400)
@pytest.mark.parametrize("point", sampled(POINTS, *TELLING))
def test_the_daemon_killed_between_attempts_at(life, point):
    life.live(life.order(point, HITS))
    life.check()
    assert life.deaths == len(HITS), life.struck(point)


@pytest.mark.timeout(400)
@pytest.mark.parametrize("point", sampled(points.names(points.UNDO_WORKER), "restore.entry.after"))
def test_an_executor_killed_while_it_restores_at(life, point):
    life.live(life.order(point, (1, 2)))
    life.check()
    assert life.deaths == 0
