"""A judged and recorded step against two bare WAL commits, in turns: python -m bench.step [--help].

A real daemon and a real worker that proposes and reports (`changed` given, so that only judging and recording is
measured). In turns with it: pairs of bare commits (`synchronous=FULL`, one row of 400 bytes, the log reused or new).
Then the proof by strace that each answer follows its sync (`bench/synced.py`).
"""

import sys
import time
from pathlib import Path

import apsw
from bench import home, page, plots, runner, synced
from bench.figures import Recorder, Result, Series, short

GOAL = "---\nagent: bench\n---\n# Many steps\n"
CLEW, BARE, FRESH = "clew: a step", "two bare commits", "two bare commits, a fresh log"


class BareCommits:
    """A database that takes one row a commit; its log is reused, as the ledger's is."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._open()

    def _open(self) -> None:
        self._db = apsw.Connection(str(self._path))
        for pragma in ("journal_mode=wal", "synchronous=full", "wal_autocheckpoint=0"):
            self._db.execute(f"pragma {pragma}").fetchall()
        self._db.execute("create table if not exists t(a integer primary key, b blob)")

    def pairs(self, count: int, *, fresh: bool = False) -> list[float]:
        """Return the seconds of pairs of commits; `fresh`: into a new log, which grows."""
        if fresh:
            self._db.close()
            self._open()
        else:
            self._db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        times = []
        for _ in range(count):
            began = time.perf_counter()
            for _ in range(2):
                self._db.execute("insert into t(b) values(?)", (b"x" * 400,))
            times.append(time.perf_counter() - began)
        return times


def one_round(folder: Path, number: int) -> list[float]:
    """Let the agent in a folder make its next steps; return their seconds."""
    (folder / f"go.{number}").touch()
    times = folder / f"times.{number}"
    home.wait_for(times.exists)
    return [float(line) for line in times.read_text().split()]


def compared(steps: int, rounds: int, found: Recorder) -> None:
    """Measure all in turns, in microseconds."""

    def add(name: str, seconds: list[float]) -> None:
        found.add(name, "µs", *(1e6 * one for one in seconds))

    with home.temporary(home.bench_agent("step", str(steps), str(rounds))) as place:
        bare, fresh = (BareCommits(place.folder / name) for name in ("bare.db", "fresh.db"))
        bare.pairs(500)
        place.start()
        place.drop("steps.md", GOAL)
        folder = home.wait_for(lambda: place.workspaces("*/here"))[0].parent
        for number in range(rounds):
            add(CLEW, one_round(folder, number))
            add(BARE, bare.pairs(steps))
            add(FRESH, fresh.pairs(steps, fresh=True))


def text(result: Result) -> tuple[str, ...]:
    """Return the page's part."""
    base = result.series[BARE].median
    rows = [
        [
            *(one.name, *(f"{short(one.quantile(share))} µs" for share in (0.5, 0.9, 0.99))),
            f"{one.median / base:.2f}",
        ]
        for one in result.series.values()
    ]
    return (
        page.table(("", "median", "p90", "p99", "times two bare commits"), rows),
        page.image("A step and what it is compared with", "step"),
        result.facts["proof"],
        result.source,
    )


def plot(result: Result) -> None:
    every = list(result.series.values())
    some = [Series(s.name, s.unit, s.values[:: max(1, len(s.values) // 150)]) for s in every]
    plots.dots("step", "A step, and what it is compared with (some of the values)", some)


def measure(options: runner.Options, found: Recorder) -> dict[str, str]:
    compared(options.steps, options.rounds, found)
    proof = synced.prove(options.proved)
    if proof.code == 1:
        sys.exit(proof.text)
    return {"proof": proof.text}


if __name__ == "__main__":
    steps, proved = (100, "a round"), (300, "steps under strace")
    runner.main("step", measure, rounds=(20, "rounds"), steps=steps, proved=proved)
