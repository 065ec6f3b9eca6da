"""An hour in minutes: at the end the daemon is as quick and as small as at the beginning, and nothing is lost."""

import os
from contextlib import closing

import aftermath
import apsw
import pytest
import soak_goals
from soak_watch import fifth, middle, share

from clew_daemon.cli.commands.verify import check_ledger
from soak import CONFIG, SAMPLE_EVERY_S, Soak


def lived(make_clew, *, actions: int, goals: int, **keys) -> Soak:
    """Run it to its end, its seed and its figures printed."""
    drawn = int(os.environ["SEED"])
    print(f"SEED={drawn} ACTIONS={actions} GOALS={goals}")  # noqa: T201 - for whoever replays it
    soak = Soak(make_clew(CONFIG), seed=drawn, actions=actions, goals=goals, **keys)
    soak.run()
    return soak


def assert_sound(soak: Soak) -> list[tuple[int, int]]:
    """Nothing lost, nothing done twice, nobody left; gives the steps' (seq, microseconds)."""
    clew = soak.clew
    assert {g["status"] for g in clew.goals().values()} == {"completed"}
    assert len(clew.goals()) == soak.goals
    assert clew.stop() == 0
    told = aftermath.record(clew)
    steps, made = [], 0
    for goal in soak.ended:
        actions = soak_goals.history(clew, goal)
        seqs = [a["seq"] for a in actions]
        assert seqs == sorted(set(seqs)), goal
        aftermath.effects_happened_at_most_once(told[goal])
        steps += soak_goals.steps_us(actions)
        made += len(actions)
        assert not (clew.home / "state" / "goals" / goal / "tmp").exists(), goal
    assert made >= 0.9 * soak.each * soak.goals
    logs = list((clew.home / "state").glob("clew.log*"))
    assert sum(log.stat().st_size for log in logs) < 4 * CONFIG["log.max_bytes"]
    return sorted(steps)


@pytest.mark.long  # `tests/chaos/test_killed_at_random.py` is in each run
def test_a_short_run_full_of_deaths_ends_with_every_goal_done_and_no_effect_twice(make_clew):
    soak = lived(make_clew, actions=150, goals=10, kill_every=(5, 20))
    assert_sound(soak)
    assert sum(soak.deaths.values()) >= 4


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_a_long_run_leaves_the_daemon_as_quick_and_as_small_as_it_was(make_clew):
    soak = lived(
        make_clew,
        actions=int(os.environ.get("ACTIONS", "20000")),
        goals=int(os.environ.get("GOALS", "200")),
    )
    steps = assert_sound(soak)
    assert_flat(soak, steps)
    assert_let_go(soak.clew)


def assert_let_go(clew) -> None:
    """When the time of all goals is over, their room is free for others, and a backup from before has them all."""
    ledger = clew.ledger
    events = check_ledger(ledger).events
    clew.cli("backup", str(clew.folder / "copy.db"))
    clew.configure({"ledger.keep_days": 1e-9})
    clew.start()
    clew.until(lambda: not list((clew.home / "state" / "goals").iterdir()), "the folders go")
    clew.stop()
    with closing(apsw.Connection(str(ledger))) as database:
        pages, free = database.pragma("page_count"), database.pragma("freelist_count")
    print(f"ledger {ledger.stat().st_size / 2**20:.1f} MB, {free} of {pages} pages free")  # noqa: T201
    assert free > 4 / 5 * pages
    assert check_ledger(ledger).ok
    clew.cli("restore", str(clew.folder / "copy.db"))
    assert check_ledger(ledger).events == events


def assert_flat(soak: Soak, steps: list[tuple[int, int]]) -> None:
    """The last fifth of the last daemon's life is like the second one."""
    life = [s for s in soak.samples if s.life == soak.life]
    assert len(life) > 10 / SAMPLE_EVERY_S, "too short to judge"
    early, late = fifth(life, 1), fifth(life, 4)
    print(figures(soak, life, steps))  # noqa: T201 - a measurement

    def was(key, part):
        return middle(getattr(s, key) for s in part)

    assert was("descriptors", late) <= was("descriptors", early) + 4
    assert was("threads", late) <= was("threads", early) + 2
    assert max(s.wal for s in late) < 32 << 20
    ended = late[-1].ended - early[0].ended
    assert was("memory", late) - was("memory", early) < (8 << 20) + ended * (64 << 10)
    assert cpu_ms(late) < 2 * cpu_ms(early) + 1
    quick, slow = ([us for _, us in fifth(steps, n)] for n in (1, 4))
    assert middle(slow) < 3 * middle(quick)


def cpu_ms(part: list) -> float:
    """Processor time of the daemon for one action."""
    return 1000 * (part[-1].cpu_s - part[0].cpu_s) / max(1, part[-1].actions - part[0].actions)


def figures(soak: Soak, life: list, steps: list) -> str:
    """The run in a few lines, by fifths of the measured life."""
    lines = [
        f"deaths: {soak.deaths}; {soak.actions} actions, {len(soak.ended)} goals, {life[-1].at_s:.0f} s"
    ]
    for n in range(5):
        part, us = fifth(life, n), [took for _, took in fifth(steps, n)]
        memory, ledger = middle(s.memory for s in part) / 2**20, part[-1].ledger / 2**20
        lines.append(
            f"fifth {n + 1}: {memory:.1f} MB, {middle(s.descriptors for s in part)} fds, "
            f"{middle(s.threads for s in part)} threads, ledger {ledger:.1f} MB, "
            f"WAL at most {max(s.wal for s in part) / 2**20:.1f} MB, {cpu_ms(part):.2f} ms CPU an action; "
            f"step p50 {middle(us) / 1000:.2f} ms, p99 {share(us, 0.99) / 1000:.2f} ms"
        )
    return "\n".join(lines)
