"""One life: a home with its goals, from the first drop to the rest of all, over deaths of everybody on the way."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import invariants as hold
from sim_daemon import SimDaemon, in_place_of_the_machine
from sim_loop import Loop, StuckError
from sim_world import World

from clew_daemon.record.dependencies import KnownGoals
from clew_daemon.record.store import history_lines
from clew_daemon.supervision import schedule
from clew_shared.record.codec import decode, dump, load
from clew_shared.record.fold import apply
from clew_shared.record.state import State
from clew_shared.views.publish import HistoryFold

STEPS_MAX = 400_000


@dataclass(frozen=True, slots=True)
class Lived:
    """What a life was."""

    seed: int
    events: Counter[str]
    lines: list[str]
    statuses: list[str]
    restarts: int


class LifeError(AssertionError):
    """A life in which an invariant did not hold; says the seed and the line of the trace."""

    def __init__(self, world: World, violation: hold.ViolationError) -> None:
        self.seed, self.line, self.name, self.lines = (
            world.seed,
            len(world.lines),
            violation.name,
            world.lines,
        )
        last = world.lines[-1].strip() if world.lines else "the beginning"
        super().__init__(
            f"seed {self.seed}, line {self.line} of its trace ({last}): {violation}\n"
            f"again: make simulate FIRST={self.seed} SEEDS=1"
        )


def live(seed: int, cast: tuple[str, ...] = ()) -> Lived:
    """Live the life of a seed, with agents of these characters; raises LifeError where an invariant fails."""
    world = World(seed, cast)
    restarts = 0
    with TemporaryDirectory(prefix="clew-life-") as folder, in_place_of_the_machine(world):
        world.folder = Path(folder)
        try:
            while not _incarnation(world):
                restarts += 1
            statuses = _afterwards(world)
        except hold.ViolationError as violation:
            raise LifeError(world, world.watch.violation or violation) from None
    return Lived(seed, world.watch.counts, world.lines, statuses, restarts)


def _incarnation(world: World) -> bool:
    """Let one daemon live; True where all had come to rest at its end."""
    loop = Loop(world.clock, world.thread_s)
    loop.halted = lambda: world.watch.violation is not None
    daemon = SimDaemon(world, loop)
    main = loop.create_task(daemon.run())
    world.trace("daemon", "starts")
    try:
        _until_its_end(world, loop, daemon, main)
    finally:
        killed = not main.done()
        if daemon.ledger:
            daemon.ledger.die()
        if killed:
            world.watch.all_dead()
        loop.bury()
    if world.watch.violation:
        raise world.watch.violation
    if not main.cancelled() and not killed and (error := main.exception()):
        raise hold.ViolationError("no_part_of_the_daemon_fails", repr(error)) from error
    if not killed:
        world.watch.nobody_left()
        world.watch.all_dead()
    if loop.unexpected and not killed:
        raise hold.ViolationError("no_part_of_the_daemon_fails", str(loop.unexpected[0]))
    if daemon.settled and not killed:
        return True
    world.clock.now += world.rng.uniform(0.1, 5.0)
    if world.swaps and world.rng.random() < 0.5:
        world.swaps -= 1
        world.swap()
    return False


def _until_its_end(world: World, loop: Loop, daemon: SimDaemon, main: object) -> None:
    try:
        if not world.deaths:
            if not loop.run(main, STEPS_MAX):
                raise hold.ViolationError(
                    "every_goal_ends_or_waits_for_a_named_reason", f"no rest in {STEPS_MAX} steps"
                )
            return
        how, after = world.deaths.pop()
        if how == "killed":
            done = loop.run(main, int(after))
            world.trace("daemon", "ends" if done else "killed")
            return
        loop.call_later(after, daemon.stop.set)
        loop.run(main, STEPS_MAX)
        world.trace("daemon", "stopped")
    except StuckError:
        raise hold.ViolationError(
            "every_goal_ends_or_waits_for_a_named_reason", "the daemon waits for nothing"
        ) from None


def _afterwards(world: World) -> list[str]:
    """Look at what is left on the disk when nobody lives any more."""
    states: dict[str, State] = {}
    for goal, rows in world.disk.rows.items():
        if not goal:
            continue
        cut = world.rng.randrange(len(rows) + 1)
        state, whole = State(goal_id=goal), State(goal_id=goal)
        for row in rows[:cut]:
            apply(state, decode(row.body), row.seq)
        state = load(dump(state))
        for row in rows[cut:]:
            apply(state, decode(row.body), row.seq)
        for row in rows:
            apply(whole, decode(row.body), row.seq)
        hold.a_snapshot_and_its_tail_are_the_whole_fold(goal, dump(state), dump(whole))
        states[goal] = whole
    known = KnownGoals(states)
    for goal, state in states.items():
        why, _ = schedule.waits_for(state, known, [], world.clock.time())
        if why == "waits for a worker":
            why = ""  # all of them are free
        hold.every_goal_ends_or_waits_for_a_named_reason(goal, state, why)
        hold.every_rest_is_reported_and_learned_from(goal, state)
        _history(world, goal)
    return [str(s.goal.status) for s in states.values()]


def _history(world: World, goal: str) -> None:
    from sim_ledger import SimLedger

    lines = list(history_lines(SimLedger(world, None, None, None), goal, HistoryFold()))  # type: ignore[arg-type]
    ended = world.watch.goals[goal].ended
    hold.history_has_every_action_once(goal, [line["seq"] for line in lines], ended)
