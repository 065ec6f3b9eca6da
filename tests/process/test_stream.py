"""The stream of events with real daemons that end, are restored and reloaded: nothing is missed or seen twice."""

import contextlib
import json

from harness import runbook

from clew_daemon.reading import follow
from clew_daemon.reading.client import connected
from clew_daemon.reading.instance import Instance

MANY = 40
STEPS = runbook(*(f"echo number {n}" for n in range(MANY)), on_interrupt="retry")
SHORT = runbook("echo one")


class Follower:
    """Reads the events of a home in a thread, as a live view would, across the ends of its daemons."""

    def __init__(self, clew, after=None):
        self.instance = Instance(clew.home, clew.environment())
        self.events, self.news = [], []
        self._ended = follow.following(self.instance, self._heard, after)

    @property
    def after(self):
        return self.news[-1].after

    def _heard(self, news):
        self.news.append(news)
        self.events += news.events

    def seqs(self):
        return [event.seq for event in self.events]

    def begins(self):
        return [news for news in self.news if news.begins]

    def catch_up(self, clew):
        """Stop the daemon, and wait for its last event."""
        clew.stop()
        last = clew.rows()[-1].seq
        clew.until(lambda: self.events and self.events[-1].seq == last, "the last event")

    def close(self):
        self._ended.set()


@contextlib.contextmanager
def following(clew, after=None):
    one = Follower(clew, after)
    try:
        yield one
    finally:
        one.close()


def test_every_event_arrives_once_and_in_order_across_five_ends_of_the_daemon(clew):
    clew.start()
    with following(clew) as one:
        clew.until(lambda: one.news, "the beginning")
        began = int(one.news[0].after.split("-")[0])
        goal = clew.submit(STEPS)
        for n in range(5):
            clew.until(lambda n=n: len(one.events) > 8 * (n + 1), "more events")
            clew.until(lambda n=n: len(one.begins()) == n + 1, "the stream")
            clew.kill()
            clew.start()
        clew.wait("goal.completed", goal=goal)
        one.catch_up(clew)
        rows = [row for row in clew.rows() if row.seq > began]
        assert one.seqs() == [row.seq for row in rows]
        assert [json.loads(event.body) for event in one.events] == [
            json.loads(row.body) for row in rows
        ]
        gone = [news for news in one.news if news.gone]
        assert len(gone) in (5, 6)  # the last one when the daemon stopped
        assert not any(news.reset for news in one.news)


def test_after_a_restore_the_stream_says_reset_and_begins_with_the_restored_state(clew):
    first = clew.start().completed(SHORT)
    clew.cli("backup", str(clew.folder / "copy.db"))
    with following(clew) as one:
        clew.until(lambda: one.news, "the beginning")
        clew.wait("goal.completed", goal=clew.submit(SHORT, "two.md"))
        clew.until(lambda: "goal_ended" in [event.kind for event in one.events], "the end")
    clew.stop()
    clew.cli("restore", "--yes", str(clew.folder / "copy.db"))
    clew.start()
    with connected(one.instance.socket) as channel, channel.makefile("rb") as lines:
        channel.sendall(follow.follow_line(one.after))
        begins = json.loads(lines.readline())["result"]
    assert begins["reset"]
    assert [goal["id"] for goal in begins["goals"]] == [first]
    with following(clew, one.after) as two:
        clew.until(two.begins, "the beginning")
        assert two.begins()[0].reset
        clew.wait("goal.completed", goal=clew.submit(SHORT, "three.md"))
        clew.until(lambda: "goal_ended" in [event.kind for event in two.events], "the end")
