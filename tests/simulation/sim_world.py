"""Everything around the daemon that outlives it: the disk, the files, the clocks, chance, and what is to come.

All chance comes from one generator, seeded with the number of the life, and all that happens stands in one trace.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sim_agent import CHARACTERS
from sim_cells import Files
from sim_ledger import Disk
from sim_loop import Clock
from sim_watch import Watch

from clew_shared.config.settings import load
from clew_shared.config.tables import Settings
from clew_shared.record import events as ev
from clew_shared.record.spec import PlannedSubtask, PlannedTask, Spec

AGENTS = """
[agents]
default = "llm"
[agents.llm]
kind = "llm"
model = "simulated"
[agents.own]
command = ["simulated"]
own_tools = true
[agents.plain]
command = ["simulated"]
"""
VERSIONS_KEPT = 8
KINDS = ("llm", "llm", "own", "plain", "runbook")
HAPPENINGS = ("requests", "reloads", "jumps", "edits", "rivals", "swaps")
"""What a world counts down: how often each is still to come."""


@dataclass(slots=True)
class Chaos:
    """How often what goes wrong."""

    executor_dies: float = 0.0
    digest_fails: float = 0.0
    disk_fails: float = 0.0
    disk_full: float = 0.0
    disk_slow: float = 0.0
    spawn_fails: float = 0.0
    mute: float = 0.0
    memory: float = 0.0
    unmakable: float = 0.0
    partial: float = 0.0


@dataclass(slots=True)
class Limits:
    """The loosest limits of a life, over all its reloads."""

    workers: int = 0
    actions: int = 0
    iterations: int = 0
    attempts: int = 1
    restarts: int = 0
    window_s: float = 1e9
    healthy_s: float = 1e9


class World:
    """One life's surroundings; `rng` is the only source of chance, `folder` a real one for the locks."""

    folder: Path

    def __init__(self, seed: int, cast: tuple[str, ...] = ()) -> None:
        self.seed = seed
        self._cast = cast or tuple(CHARACTERS)
        self.rng = random.Random(seed)
        self.clock = Clock()
        self.disk = Disk()
        self.limits = Limits()
        self.lines: list[str] = []
        self.calm = False
        self.watch = Watch(self)
        self.folders: list[Files] = []
        """Every folder that there ever was; its number is its place here."""
        self._at: dict[str, Files] = {}
        self._away: dict[str, list[Files]] = {}
        self.made: set[int] = set()
        """The folders that the daemon has made."""
        self._versions: dict[str, dict[str, dict[str, str]]] = {}
        self._pids = 1 << 23  # no process of this machine has such a one
        self.trees: dict[str, dict[str, str]] = {}
        """The contents of each snapshot."""
        self.notes: dict[str, dict[int, set[str]]] = {}
        """What executors of a goal have noted: what someone else had changed before an action."""
        self._attempts = random.Random(f"attempts of {seed}")
        rng = self.rng
        self.chaos = Chaos(*(rng.choice([0.0, 0.0, p]) for p in (
            0.05, 0.05, 0.01, 0.01, 0.05, 0.1, 0.1, 0.002, 0.02, 0.2,
        )))  # fmt: skip
        self.settings = self.configure()
        self.goals = [self._goal(n) for n in range(rng.choice([1, 1, 2, 3, 4]))]
        self._characters = {g.goal_id: rng.choice(self._cast) for g in self.goals}
        self.deaths = [self._death() for _ in range(rng.choice([0, 1, 1, 2, 4]))]
        self.requests = rng.choice([0, 2, 4, 8])
        self.reloads = rng.choice([0, 0, 1, 3])
        self.jumps = rng.choice([0, 0, 1, 3])
        self.edits = rng.choice([0, 0, 4, 12])
        self.rivals = rng.choice([0, 0, 1, 4])
        self.snapshot_every = rng.choice([1, 5, 20, 500])
        self.swaps = rng.choice([0, 0, 2, 6])
        for goal in self.goals:
            if rng.random() < 0.3 and goal.spec.workspace not in self._at:
                self._at[goal.spec.workspace] = self._folder({})

    def trace(self, who: str, what: str) -> None:
        """Write a line of the trace."""
        self.lines.append(f"{self.clock.now - 1_000:10.3f} {who}: {what}")

    # -- what is to come -----------------------------------------------------------------------------

    def _death(self) -> tuple[str, float]:
        """How a daemon ends: killed after so many callbacks, or told to stop after so many seconds."""
        if self.rng.random() < 0.75:
            return "killed", self.rng.expovariate(1 / self.rng.choice([20, 200, 1500]))
        return "stopped", self.rng.expovariate(1 / 10)

    def configure(self) -> Settings:
        """Make a config with other thresholds."""
        settings = load(self.config(), {}, "config.toml").settings
        self.note(settings)
        return settings

    def note(self, settings: Settings) -> None:
        """Remember the loosest limits that were ever in force."""
        limits, now = self.limits, settings.restart
        limits.workers = max(limits.workers, settings.daemon.max_workers)
        limits.actions = max(limits.actions, settings.limits.max_actions)
        limits.iterations = max(limits.iterations, settings.context.max_iterations)
        limits.attempts = max(limits.attempts, settings.attempts.limit)
        limits.restarts = max(limits.restarts, now.max_restarts)
        limits.window_s = min(limits.window_s, now.window_s)
        limits.healthy_s = min(limits.healthy_s, now.healthy_after_s)

    def config(self) -> str:
        """Write a config."""
        rng = self.rng
        tables = {
            "daemon": {"max_workers": rng.choice([1, 2, 4])},
            "heartbeat": {"interval_s": 1.0, "timeout_s": rng.choice([3.0, 8.0]), "stall_timeout_s": 15.0},
            "restart": {
                "max_restarts": rng.choice([1, 3, 5]),
                "window_s": rng.choice([10.0, 60.0]),
                "healthy_after_s": rng.choice([5.0, 20.0, 60.0]),
                "stop_grace_s": rng.choice([0.5, 2.0]),
                "backoff_max_s": rng.choice([1.0, 10.0]),
            },
            "limits": {"max_actions": rng.choice([10, 40, 80]), "action_timeout_s": 10.0},
            "loops": {
                "progress_aware": rng.random() < 0.9,
                "scope": rng.choice(["subtask", "subtask", "task", "goal"]),
                "repeat_limit": rng.choice([2, 3, 4]),
                "crash_limit": rng.choice([1, 2]),
                "failure_limit": rng.choice([1, 2, 3]),
                "blocked_limit": rng.choice([1, 3]),
                "replan_limit": rng.choice([1, 2]),
            },
            "attempts": {
                "limit": self._attempts.choice([1, 2, 3]),
                "iterations": self._attempts.choice([2, 5, 10]),
                "restore": self._attempts.choice(["subtask", "subtask", "keep"]),
            },
            "context": {"max_iterations": rng.choice([8, 30]), "max_tokens": rng.choice([256, 8000])},
        }  # fmt: skip
        lines = []
        for table, keys in tables.items():
            lines.append(f"[{table}]")
            lines += [f"{key} = {_toml(value)}" for key, value in keys.items()]
        return "\n".join(lines) + AGENTS

    def _goal(self, n: int) -> ev.GoalAccepted:
        rng, goal = self.rng, f"goal-{n}"
        checks = {"ok": "./test f0"} if rng.random() < 0.3 else {}
        spec = Spec(
            description=f"the goal {n}",
            workspace=f"/ws/{rng.choice([n, n, 0])}",
            agent=rng.choice(KINDS),
            checks=checks,
            priority=rng.choice([0, 0, 5]),
            max_iterations=rng.choice([None, None, 6]),
            attempts=self._attempts.choice([None, None, 2, 3]),
            budget_tokens=rng.choice([None, None, 2_000]),
            budget_wall_s=rng.choice([None, None, 20.0]),
            not_before=self.clock.time() + rng.choice([30, 3_000]) if rng.random() < 0.15 else None,
            depends_on=(f"goal-{rng.randrange(n)}",) if n and rng.random() < 0.3 else (),
        )
        tasks = tuple(
            PlannedTask(
                description=f"task {t}",
                subtasks=tuple(
                    PlannedSubtask(description=f"subtask {t}.{s}", done=rng.random() < 0.1)
                    for s in range(rng.randint(1, 2))
                ),
            )
            for t in range(rng.choice([0, 1, 2]))
        )
        return ev.GoalAccepted(
            at=self.clock.time(), goal_id=goal, spec=spec, tasks=tasks, identity=(goal,)
        )

    def character(self, goal: str) -> str:
        """Give the character of a goal's next agent; most stay as they were."""
        if self.rng.random() < 0.2:
            return self.rng.choice(self._cast)
        return self._characters[goal]

    # -- chance --------------------------------------------------------------------------------------

    def thread_s(self) -> float:
        return self.rng.uniform(0.0, 0.01)

    def wire_s(self) -> float:
        return self.rng.expovariate(1 / 0.01)

    def notice_s(self) -> float:
        """How long a death stays unnoticed."""
        return self.rng.choice([0.0, 0.001, 0.3])

    def commit_s(self) -> float:
        slow = not self.calm and self.rng.random() < self.chaos.disk_slow
        return self.rng.uniform(0.5, 8.0) if slow else self.rng.uniform(0.0005, 0.02)

    def disk_fate(self) -> str:
        luck = self.rng.random()
        if self.calm:
            return "well"
        if luck < self.chaos.disk_fails:
            return self.rng.choice(["lost", "kept"])
        return "full" if luck < self.chaos.disk_fails + self.chaos.disk_full else "well"

    def spawn_fault(self) -> tuple[str, str] | None:
        if self.calm or self.rng.random() >= self.chaos.spawn_fails:
            return None
        return self.rng.choice(
            [("spawn", "no process"), ("spawn", "no process"), ("sandbox", "no Landlock")]
        )

    def next_pid(self) -> int:
        self._pids += 1
        return self._pids

    # -- the files -----------------------------------------------------------------------------------

    def workspace(self, goal: str) -> str:
        return next(g.spec.workspace for g in self.goals if g.goal_id == goal)

    def kind(self, goal: str) -> str:
        return next(g.spec.agent for g in self.goals if g.goal_id == goal)

    def there(self, workspace: str) -> Files | None:
        """Give the folder that stands at a path, None where nothing does."""
        return self._at.get(workspace)

    def files(self, goal: str) -> Files:
        """Give the folder that a goal works in by its record, else what stands there."""
        number = self.watch.places.get(goal)
        if number is not None:
            return self.folders[number]
        return self.there(self.workspace(goal)) or Files()

    def _folder(self, contents: dict[str, str]) -> Files:
        self.folders.append(Files(len(self.folders), contents))
        return self.folders[-1]

    def swap(self) -> None:
        """Somebody takes a workspace away, puts another folder there, or puts one back that was there before."""
        path = self.workspace(self.rng.choice(self.goals).goal_id)
        away, before = self._away.setdefault(path, []), self._at.pop(path, None)
        what = self.rng.choice(["another", "another", "a copy", "back", "back", "nothing"])
        if what == "back" and away:
            self._at[path] = away.pop(self.rng.randrange(len(away)))
        elif what in ("another", "a copy"):
            kept = dict(before.contents) if before and what == "a copy" else {}
            self._at[path] = self._folder(kept)
        if before:
            away.append(before)
        now = self._at.get(path)
        self.trace("somebody", f"puts folder {now.number if now else 'none'} at {path}")

    def edit(self) -> None:
        """Somebody else changes a file, or brings back all files as they once were."""
        goal = self.rng.choice(self.goals).goal_id
        files, versions = self.files(goal), self._versions.get(self.workspace(goal))
        if versions and self.rng.random() < 0.6:
            digest = self.rng.choice(list(versions))
            brought = versions[digest]
            before, files.contents = files.contents, dict(brought)
            names = brought.keys() | before.keys()
            changed = {name for name in names if brought.get(name) != before.get(name)}
            self._by_someone(files, changed)
            self.trace("somebody", f"brings back {digest[:8]}")
            return
        name = self.rng.choice(["f0", "f1", "t0"])
        files.contents[name] = self.rng.choice(["good", "on"])
        self._by_someone(files, {name})
        self.trace("somebody", "edits a file")

    def _by_someone(self, files: Files, names: set[str]) -> None:
        """Note whose change this is, as clew counts it."""
        for name in names:
            files.by.pop(name, None)
        if self.watch.counts_as_its_own(files):
            files.made |= {name: files.contents.get(name, "") for name in names}
        else:  # what is as the goal made it looks as if no one else came
            other = {name for name in names if files.contents.get(name) != files.made.get(name)}
            files.by |= dict.fromkeys(other, "")

    def disk_digest(self, goal: str) -> str:
        """Name the files as they are; "" where a look was cut short, or for agents whose own word is believed."""
        if self.kind(goal) == "own":
            return ""
        files = self.files(goal)
        digest, versions = files.digest(), self._versions.setdefault(self.workspace(goal), {})
        if digest not in versions:
            versions[digest] = dict(files.contents)
            if len(versions) > VERSIONS_KEPT:
                versions.pop(next(iter(versions)))
        return "" if files.is_cut else digest

    def make(self, workspace: str) -> None:
        """Make a folder; FileExistsError where something is there, OSError where the disk does not let it."""
        if workspace in self._at:
            raise FileExistsError(workspace)
        if not self.calm and self.rng.random() < self.chaos.unmakable:
            raise OSError("read-only file system")
        self._at[workspace] = self._folder({})
        self.made.add(self._at[workspace].number)


def every_world(monkeypatch: Any, goals: int | None = None, spec: Any = (), **has: Any) -> None:
    """Give every new world these attributes, this number of goals, and these keys in their specs."""
    made = World.__init__

    def make(self: World, seed: int, cast: tuple[str, ...] = ()) -> None:
        made(self, seed, cast)
        vars(self).update(has)
        self.goals = [
            goal.model_copy(update={"spec": goal.spec.model_copy(update=dict(spec))})
            for goal in self.goals[:goals]
        ]

    monkeypatch.setattr(World, "__init__", make)


def _toml(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else repr(value).replace("'", '"')
