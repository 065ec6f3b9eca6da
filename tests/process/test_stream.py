"""The stream of events with real daemons that end, are restored and reloaded: nothing is missed or seen twice."""

import contextlib
import json
import threading

from harness import DEADLINE_S

from clew_daemon.reading.follow import (
    EventSource,
    StreamBatch,
    StreamBegin,
    StreamGone,
)
from clew_daemon.reading.instance import Instance
from clew_shared.ledger import Reader

MANY = 40
STEPS = "---\non_interrupt: retry\n---\n# Count\n## Do\n" + "".join(
    f"- [ ] Step {n}\n  ```sh\n  echo number {n}\n  ```\n" for n in range(MANY)
)
SHORT = "# Short\n## Do\n- [ ] One\n  ```sh\n  echo one\n  ```\n"


class Follower:
    """Reads the events of a home in a thread, as a live view would, across the ends of its daemons."""

    def __init__(self, clew, after=None):
        instance = Instance(clew.home, clew.environment())
        self.source = EventSource(lambda: instance.socket, instance.ledger, after)
        self.events, self.news = [], []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        while not self._ended.is_set():
            for news in self.source.poll(0.05):
                self.news.append(news)
                if isinstance(news, StreamBatch):
                    self.events += news.events

    def seqs(self):
        return [event.seq for event in self.events]

    def catch_up(self, clew):
        """Stop the daemon, and wait for its last event."""
        clew.stop()
        last = ledger(clew)[-1].seq
        clew.until(lambda: self.events and self.events[-1].seq == last, "the last event")

    def close(self):
        self._ended.set()
        self._thread.join(DEADLINE_S)
        self.source.close()


@contextlib.contextmanager
def following(clew, after=None):
    one = Follower(clew, after)
    try:
        yield one
    finally:
        one.close()


def ledger(clew):
    """The rows of the ledger, as far as they are durable."""
    with Reader.open(clew.home / "state" / "ledger.db") as reader:
        return list(reader.read_all())


def test_every_event_arrives_once_and_in_order_across_five_ends_of_the_daemon(clew):
    clew.start()
    with following(clew) as one:
        clew.until(lambda: one.news, "the beginning")
        began = int(one.news[0].after.split("-")[0])
        goal = clew.submit(STEPS)
        for n in range(5):
            clew.until(lambda n=n: len(one.events) > 8 * (n + 1), "more events")
            clew.until(lambda: one.source.is_streaming, "the stream")
            clew.kill()
            clew.start()
        clew.wait("goal.completed", goal=goal)
        one.catch_up(clew)
        rows = [row for row in ledger(clew) if row.seq > began]
        assert one.seqs() == [row.seq for row in rows]
        assert [json.loads(event.body) for event in one.events] == [
            json.loads(row.body) for row in rows
        ]
        gone = [news for news in one.news if isinstance(news, StreamGone)]
        assert len(gone) in (5, 6)  # the last one when the daemon stopped
        assert not any(news.reset for news in one.news if isinstance(news, StreamBegin))


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
    with following(clew, one.source.after) as two:
        clew.until(lambda: two.news, "the beginning")
        assert two.news[0].reset
        assert [goal["id"] for goal in two.news[0].goals] == [first]
        clew.wait("goal.completed", goal=clew.submit(SHORT, "three.md"))
        clew.until(lambda: "goal_ended" in [event.kind for event in two.events], "the end")
