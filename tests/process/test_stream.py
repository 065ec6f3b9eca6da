"""The stream of events with real daemons that end, are restored and reloaded: nothing is missed or seen twice."""

import contextlib
import json
import threading

from harness import DEADLINE_S

from clew_daemon.reading.client import connected
from clew_daemon.reading.errors import CliError
from clew_daemon.reading.instance import Instance
from clew_shared.ledger import Reader

MANY = 40
STEPS = "---\non_interrupt: retry\n---\n# Count\n## Do\n" + "".join(
    f"- [ ] Step {n}\n  ```sh\n  echo number {n}\n  ```\n" for n in range(MANY)
)
SHORT = "# Short\n## Do\n- [ ] One\n  ```sh\n  echo one\n  ```\n"


def follow_line(after):
    params = {"after": after} if after else {}
    request = {"jsonrpc": "2.0", "id": 1, "method": "follow", "params": params}
    return json.dumps(request).encode() + b"\n"


class Follower:
    """Reads the stream of a home in a thread, across the ends of its daemons, with the cursor of the last line."""

    def __init__(self, clew, after=None):
        self.instance, self.after = Instance(clew.home, clew.environment()), after
        self.begins, self.events = [], []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        while not self._ended.wait(0.05):
            with contextlib.suppress(CliError, OSError), connected(self.instance.socket) as channel:
                channel.settimeout(0.05)
                channel.sendall(follow_line(self.after))
                self._read(channel)

    def _read(self, channel):
        rest = b""
        while not self._ended.is_set():
            with contextlib.suppress(TimeoutError):
                part = channel.recv(1 << 16)
                if not part:
                    return
                *lines, rest = (rest + part).split(b"\n")
                for message in map(json.loads, lines):
                    found = message.get("result") or message["params"]
                    self.after = found["after"]
                    self.begins += [found] if "result" in message else []
                    self.events += found.get("events", ())

    def seqs(self):
        return [event["seq"] for event in self.events]

    def kinds(self):
        return [event["event"]["kind"] for event in self.events]

    def catch_up(self, clew):
        """Wait for the last event that is on record now."""
        last = ledger(clew)[-1].seq
        clew.until(lambda: self.events and self.events[-1]["seq"] >= last, "the last event")

    def close(self):
        self._ended.set()
        self._thread.join(DEADLINE_S)


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
        clew.until(lambda: one.begins, "the beginning")
        began = int(one.begins[0]["after"].split("-")[0])
        goal = clew.submit(STEPS)
        for n in range(5):
            clew.until(lambda n=n: len(one.events) > 8 * (n + 1), "more events")
            clew.kill()
            clew.start()
        clew.wait("goal.completed", goal=goal)
        one.catch_up(clew)
        rows = [row for row in ledger(clew) if row.seq > began][: len(one.events)]
        assert one.seqs() == [row.seq for row in rows]
        assert [event["event"] for event in one.events] == [json.loads(row.body) for row in rows]
        assert len(one.begins) == 6
        assert not any(begin["reset"] for begin in one.begins)


def test_after_a_restore_the_stream_says_reset_and_begins_with_the_restored_state(clew):
    first = clew.start().completed(SHORT)
    clew.cli("backup", str(clew.folder / "copy.db"))
    with following(clew) as one:
        clew.until(lambda: one.begins, "the beginning")
        clew.wait("goal.completed", goal=clew.submit(SHORT, "two.md"))
        clew.until(lambda: "goal_ended" in one.kinds(), "the end")
    clew.stop()
    clew.cli("restore", "--yes", str(clew.folder / "copy.db"))
    clew.start()
    with following(clew, one.after) as two:
        clew.until(lambda: two.begins, "the beginning")
        assert two.begins[0]["reset"]
        assert [goal["id"] for goal in two.begins[0]["goals"]] == [first]
        clew.wait("goal.completed", goal=clew.submit(SHORT, "three.md"))
        clew.until(lambda: "goal_ended" in two.kinds(), "the end")
