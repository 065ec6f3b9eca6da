"""A long run: goals without end to a real daemon, and deaths without end, both drawn from one seed.

The first part of the run kills the daemon too; the second is one long life of it, which is measured.
"""

import os
import random
import signal
import time
from contextlib import suppress

import of_proc
import soak_goals
from soak_watch import sample

OUTSTANDING = 24
DAEMON_DEATHS = 6
DAEMON_DEATHS_UNTIL = 0.3  # of the goals; from there on one daemon lives to the end
KILL_EVERY = (15, 70)  # actions
SAMPLE_EVERY_S = 0.5
TELL_EVERY_S = 5.0
QUIET_S = 120.0  # without a new line in the log
VICTIMS = {"agent": 12, "executor": 5, "nursery": 2, "daemon": 2}
CONFIG = {
    "daemon.max_workers": 4,
    "restart.max_restarts": 10_000,
    "restart.backoff_initial_s": 0.005,
    "restart.backoff_max_s": 0.02,
    "loops.crash_limit": 1_000,  # it is deaths of ours, not of the actions, that are tried here
    "log.max_bytes": 1_000_000,
    "log.backups": 2,
}


class Soak:
    """One run: `run` it, then look at `samples`, `deaths` and `ended`."""

    def __init__(self, clew, *, seed: int, actions: int, goals: int, kill_every=KILL_EVERY) -> None:
        self.clew = clew
        self.chance = random.Random(seed)
        self.goals = goals
        self.kill_every = kill_every
        self.each = actions / goals
        self.samples = []
        self.deaths = dict.fromkeys(VICTIMS, 0)
        self.ended: dict[str, str] = {}
        self.actions = 0
        self.life = 0
        self._accepted: list[str] = []
        self._dropped = 0
        self._working: dict[str, int] = {}
        self._read = 0
        self._heard_at = self._began = time.monotonic()
        self._kill_at = self._told_at = self._sampled_at = 0.0
        soak_goals.agents(clew, self.each)

    def run(self) -> None:
        """Live until all goals have ended."""
        self._start()
        while len(self.ended) < self.goals:
            self._hear()
            self._drop()
            self._look()
            if self.actions >= self._kill_at and self._kill():
                self._kill_at = self.actions + self.chance.randint(*self.kill_every)
            time.sleep(0.02)

    def _start(self) -> None:
        self.clew.start()
        self.life += 1

    def _drop(self) -> None:
        while self._dropped < self.goals and self._dropped - len(self.ended) < OUTSTANDING:
            name, text = soak_goals.goal_file(self._dropped, self.each)
            self.clew.drop(text, name)
            self._dropped += 1

    def _hear(self) -> None:
        reached = self.clew.now()
        for event in self.clew.events[self._read : reached]:
            self._take(event)
        if reached > self._read:
            self._heard_at = time.monotonic()
        self._read = reached
        silent = time.monotonic() - self._heard_at
        assert silent < QUIET_S, f"nothing happens any more: {self._waiting()}\n{self.clew._tail()}"

    def _take(self, event: dict) -> None:
        goal = event.get("goal", "")
        match event["event"]:
            case "goal.accepted":
                self._accepted.append(goal)
            case "action.allowed":
                self.actions += 1
            case "worker.started":
                self._working[goal] = event["pid"]
            case "daemon.ready":
                self._note_unsaid_ends()
            case "worker.exited":
                self._working.pop(goal, None)
            case "goal.completed":
                self.ended[goal] = "completed"
            case "goal.failed" | "goal.blocked" | "goal.cancelled" | "daemon.bug":
                raise AssertionError(event)

    def _note_unsaid_ends(self) -> None:
        """Note goals that are completed on record, but whose daemon was killed before it had said so in its log."""
        shown = self.clew.goals()
        ended = [g for g in self._waiting() if g in shown and shown[g]["status"] == "completed"]
        self.ended |= dict.fromkeys(ended, "completed")

    def _waiting(self) -> list:
        return [g for g in self._accepted if g not in self.ended]

    # -- deaths

    def _kill(self) -> bool:
        victim = self.chance.choices(list(VICTIMS), VICTIMS.values())[0]
        if victim == "daemon":
            early = len(self.ended) < self.goals * DAEMON_DEATHS_UNTIL
            if not early or self.deaths["daemon"] >= DAEMON_DEATHS:
                victim = "agent"
        hit = bool(getattr(self, f"_kill_{victim}")())
        self.deaths[victim] += hit
        return hit

    def _kill_daemon(self) -> bool:
        self.clew.kill()
        self._working.clear()
        self._start()
        return True

    def _kill_agent(self) -> bool:
        if not self._working:
            return False
        goal = self.chance.choice(sorted(self._working))
        with suppress(ProcessLookupError):
            os.kill(self._working[goal], signal.SIGKILL)
            return True
        return False

    def _kill_executor(self) -> bool:
        """Kill a payload of a cell that is no agent."""
        agents = set(self._working.values())
        with suppress(OSError):
            guards = of_proc.children(self.clew.daemon.pid)
            payloads = [pid for guard in guards for pid in of_proc.children(guard)]
            others = sorted(set(payloads) - agents)
            if others:
                os.kill(self.chance.choice(others), signal.SIGKILL)
                return True
        return False

    def _kill_nursery(self) -> bool:
        with suppress(OSError):
            if pid := of_proc.nursery(self.clew.daemon.pid):
                os.kill(pid, signal.SIGKILL)
                return True
        return False

    # -- samples

    def _look(self) -> None:
        at_s = time.monotonic() - self._began
        if at_s - self._sampled_at >= SAMPLE_EVERY_S:
            self._sampled_at = at_s
            found = sample(
                self.clew, life=self.life, at_s=at_s, actions=self.actions, ended=len(self.ended)
            )
            self.samples += [found] if found else []
        if self.samples and at_s - self._told_at >= TELL_EVERY_S:
            self._told_at = at_s
            print(self._line(), flush=True)  # noqa: T201 - who waits for minutes wants to see them pass

    def _line(self) -> str:
        s, mb = self.samples[-1], 1 << 20
        deaths = ", ".join(f"{n} {who}" for who, n in self.deaths.items())
        return (
            f"{s.at_s:5.0f} s: {s.ended}/{self.goals} goals, {s.actions} actions; killed {deaths}; "
            f"{s.memory / mb:.1f} MB, {s.descriptors} fds, {s.threads} threads, "
            f"ledger {s.ledger / mb:.1f} MB, WAL {s.wal / mb:.1f} MB, {s.cpu_s:.1f} s CPU"
        )
