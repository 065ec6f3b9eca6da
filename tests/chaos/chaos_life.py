"""A life of a home that is struck at labelled points: its goals, its daemons one after the other, its end.

There is a runbook, a thinker that runs into a loop and must replan, and a file that is no goal. However
often and wherever the daemon dies, the next one goes on; in the end both goals are completed.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import time
from pathlib import Path

import aftermath
import pointed
import points
from harness import DEADLINE_S, POLL_S, Clew

from clew_daemon.reading.errors import CliError

STARTER = Path(pointed.__file__)

RUNBOOK = """\
---
on_interrupt: retry
retries: 2
checks: {there: test -s trace, last: grep -q r5 trace}
---
# Take steps

## Steps
- [ ] One
  ```sh
  echo r1 >> trace
  ```
- [ ] Two
  ```txt file=notes/two.txt
  two
  ```
  ```sh
  echo r2 >> trace
  ```
  ```sh
  echo r3 >> trace
  ```
- [ ] Three
  ```sh
  echo r4 >> trace
  ```
- [ ] Four
  ```sh
  echo r5 >> trace
  ```
"""

THINKER = """\
---
agent: thinker
checks: {all: grep -q t3 trace}
---
# Find a way

## First try
- [ ] t1
- [ ] loop
- [ ] never
"""

AGENT = """
hello()
while True:
    state = call("hello", protocol=1, agent="player/1")["state"]
    if state["replan_required"]:
        other = {"description": "Another way", "subtasks": [{"description": d} for d in ("t2", "t3")]}
        call("plan", replan=state["replan_required"], tasks=[other])
        call("learn", deltas=[{"op": "add", "section": "testing", "content": "Try another way"}])
        continue
    subtask = state["goal"]["tasks"][state["current_task_idx"]]["subtasks"][state["current_subtask_idx"]]
    if subtask["status"] != "in_progress":
        if call("advance")["subtask"] is None:
            break
        continue
    if subtask["description"] == "loop":
        while run("cat nothing")["verdict"] == "allowed":
            pass
        try:
            call("complete_subtask", success=False, failure="there is nothing")
        except RefusedError:
            pass  # blocked meanwhile
        continue
    step = f"echo {subtask['description']} >> trace"
    if not any(a["args"].get("cmd") == step and a["result"] == "success" for a in subtask["actions"]):
        while run(step)["outcome"]["result"] != "success":
            pass
    call("complete_subtask", success=True)
call("finish", success=True, summary="found one")
"""

BROKEN = "---\nagent: nobody\n---\n# This is no goal\n"

CONSTANTS = {
    "clew_daemon.record.goal_events:STORED_EVERY": 20,
    "clew_daemon.ledger.ledger:IDLE_S": 0.05,  # so that the WAL is moved often
}


class Life:
    """One home from its first daemon to its last; `deaths` tells when which daemon died."""

    def __init__(self, clew: Clew, *, namespaces: bool = True, pause_s: float = 0.0) -> None:
        self.clew = clew
        self.counts = clew.folder / "counts"
        self.deaths = 0
        self.namespaces = namespaces
        slowly = f"sleep {pause_s}; echo " if pause_s else "echo "
        clew.agent("thinker", AGENT.replace("echo ", slowly))
        clew.drop(RUNBOOK.replace("echo ", slowly), "runbook.md")
        clew.drop(THINKER, "thinker.md")
        clew.drop(BROKEN, "broken.md")

    def start(self, order: points.Order | None = None) -> None:
        """Start a daemon: an ordinary one, or one that will be struck."""
        if order is None:
            self.clew.start(ready=False)
            return
        env = {pointed.ORDER: pointed.encoded(order)}
        self.clew.start(ready=False, under=(sys.executable, str(STARTER)), **env)

    def order(
        self,
        point: str,
        hits: tuple[int, ...],
        signum: int = signal.SIGKILL,
        constants: dict[str, float] | None = None,
    ) -> points.Order:
        numbers = CONSTANTS | (constants or {})
        return points.Order(self.counts, point, hits, signum, numbers, self.namespaces)

    def live(self, order: points.Order) -> None:
        """Let daemons live one after the other, struck as ordered, until all is done and the last has stopped."""
        for _ in range(len(order.hits) + 1):
            self.start(order)
            if self.finish():
                return
            self.deaths += 1
            self.survey()
        raise AssertionError(f"died {self.deaths} times, of {len(order.hits)} strikes")

    def finish(self) -> bool:
        """Wait until all is done, and stop the daemon; False where it died before it had stopped."""
        return self._until_over() and self.clew.stop() == 0

    def survey(self) -> None:
        """Look at what a dead daemon has left."""
        assert self.clew.daemon is not None
        code = self.clew.daemon.wait(DEADLINE_S)
        assert code in (-signal.SIGKILL, 137), f"the daemon ended with {code}"
        self.clew.assert_alone()
        for told in aftermath.record(self.clew).values():
            aftermath.effects_happened_at_most_once(told)

    def _until_over(self) -> bool:
        """Wait until all goals rest and are reported; False where the daemon died before."""
        deadline = time.monotonic() + 2 * DEADLINE_S
        disturbed = False
        while not self.dead:
            goals = self.goals()
            if self.is_over(goals):
                return True
            if goals and not disturbed:
                disturbed = True
                self.disturb()
            assert time.monotonic() < deadline, f"not over in time:\n{self.clew._tail()}"
            time.sleep(5 * POLL_S)
        return False

    @property
    def dead(self) -> bool:
        return self.clew.daemon is None or self.clew.daemon.poll() is not None

    def disturb(self) -> None:
        """Let the daemon read its config anew."""
        self.clew.configure({"loops.theme_window": 4})
        if self.clew.daemon:
            self.clew.daemon.send_signal(signal.SIGHUP)

    def goals(self) -> list[dict]:
        with contextlib.suppress(CliError):
            goals = self.clew.ask("status")["goals"]
            aftermath.one_writer_per_ledger(self.clew)
            return goals
        return []

    def is_over(self, goals: list[dict]) -> bool:
        """Both goals rest, and a person can read so."""
        outbox, inbox = self.clew.home / "outbox", self.clew.home / "inbox"
        return (
            len(goals) == 2
            and all(goal["status"] in ("completed", "failed", "blocked") for goal in goals)
            and all((outbox / f"{goal['id']}.md").exists() for goal in goals)
            and not list(inbox.glob("*.md"))
        )

    def folders(self) -> list[Path]:
        """What clew keeps of its own beside the ledger, one folder a goal."""
        return list((self.clew.home / "state" / "goals").iterdir())

    def struck(self, point: str) -> int:
        return points.Counts(self.counts).read()[point]

    def check(self) -> dict[str, aftermath.Told]:
        """Hold what is left in the end against all that was promised; the daemon has stopped."""
        clew = self.clew
        clew.assert_alone()
        told = aftermath.record(clew)
        assert clew.verified()
        for one in told.values():
            assert one.state.snapshots.first
            aftermath.goal_is_whole(clew, one)
            assert one.state.goal.status == "completed", (one.id, one.state.reason)
        aftermath.each_drop_was_taken_once(clew, told, "runbook.md", "thinker.md")
        rejected = {path.name for path in (clew.home / "inbox" / "rejected").iterdir()}
        assert rejected == {"broken.md", "broken.md.error.txt"}, rejected
        by_file = {one.state.spec.file_name: one for one in told.values()}
        thinker = by_file["thinker.md"]
        assert thinker.blocked == {'run_cmd::{"cmd":"cat nothing"}'}
        assert sum(deed.cmd == "cat nothing" for deed in thinker.deeds.values()) >= 2
        trace = set(clew.lines(thinker.id, "trace"))
        assert trace == {"t1", "t2", "t3"}
        assert set(clew.lines(by_file["runbook.md"].id, "trace")) == {f"r{n}" for n in range(1, 6)}
        return told
