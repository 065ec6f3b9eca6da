"""A judged and recorded step against two bare WAL commits, in turns: `python -m bench.step [--rounds N] [--steps N]`.

A real daemon on a throw-away home on this disk, and a real worker that proposes and reports (`changed` given, so that
nothing but judging and recording is measured). In turns with it: pairs of bare commits (`synchronous=FULL`, one row of
400 bytes, the log reused, as the ledger's is), the same messages answered at once, and the same messages recorded by
the ledger's writer thread, or by the loop's own, without anything decided (`bench/least.py`). Then the parts of a step,
by a stop-watch beside the daemon, and the proof by strace that each answer stands after its sync (`bench/synced.py`).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import apsw
from bench import figures, home, page, plots, synced
from bench.figures import Series

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parent
AGENT, LEAST, WATCHED = HERE / "stepping.py", HERE / "least.py", HERE / "watched.py"
GOAL = "---\nagent: bench\n---\n# Many steps\n"
CLEW, BARE, FRESH = "clew: a step", "two bare commits", "two bare commits, a fresh log"
MESSAGES, COMMITS = "two messages, answered at once", "two messages, recorded and answered"
INLINE = "two messages, recorded in the loop's thread"
PARTS = (
    ("the line read as JSON", "parse", "parsed"),
    ("its params checked", "check", "checked"),
    ("judged and folded", "judge", "judged"),
    ("encoded and chained", "record", "put"),
    ("handed to the writer thread", "put", "commit"),
    ("committed", "commit", "committed"),
    ("back to the loop", "committed", "woke"),
    ("the answer made", "woke", "answer"),
    ("the answer sent", "answer", "sent"),
)


class Bare:
    """A database that takes one row a commit; its log is reused, as the ledger's is."""

    def __init__(self, folder: Path, name: str) -> None:
        self._path = folder / name
        self._open()

    def _open(self) -> None:
        self._db = apsw.Connection(str(self._path))
        for pragma in ("journal_mode=wal", "synchronous=full", "wal_autocheckpoint=0"):
            self._db.execute(f"pragma {pragma}").fetchall()
        self._db.execute("create table if not exists t(a integer primary key, b blob)")

    def pairs(self, count: int, *, fresh: bool = False) -> list[float]:
        """Seconds of so many pairs of commits; `fresh`: into a log that is made anew and grows."""
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
    """Let the agent in a folder make its next steps; their seconds."""
    (folder / f"go.{number}").touch()
    times = folder / f"times.{number}"
    home.wait_for(times.exists)
    return [float(line) for line in times.read_text().split()]


@contextmanager
def least(folder: Path, what: str, steps: int, rounds: int) -> Iterator[Path]:
    """A program that does the least, waiting to be let go on."""
    there = folder / what
    there.mkdir()
    command = [sys.executable, str(LEAST), what, str(steps), str(rounds)]
    with subprocess.Popen(command, cwd=there) as program:
        try:
            home.wait_for((there / "here").exists)
            yield there
            program.wait(home.WAIT_S)
        finally:
            program.kill()


def compared(steps: int, rounds: int) -> list[Series]:
    """All in turns, as many rounds; in microseconds."""
    found: dict[str, list[float]] = {
        name: [] for name in (CLEW, BARE, FRESH, COMMITS, INLINE, MESSAGES)
    }
    with home.throw_away(config(str(steps), str(rounds))) as place:
        bare, fresh = Bare(place.folder, "bare.db"), Bare(place.folder, "fresh.db")
        bare.pairs(500)
        place.start()
        place.drop("steps.md", GOAL)
        home.wait_for(lambda: place.workspaces("*/here"))
        ours = place.workspaces("*/here")[0].parent
        with (
            least(place.folder, "commits", steps, rounds) as commits,
            least(place.folder, "inline", steps, rounds) as inline,
            least(place.folder, "messages", steps, rounds) as messages,
        ):
            for number in range(rounds):
                found[BARE] += bare.pairs(steps)
                found[CLEW] += one_round(ours, number)
                found[COMMITS] += one_round(commits, number)
                found[INLINE] += one_round(inline, number)
                found[MESSAGES] += one_round(messages, number)
                found[FRESH] += fresh.pairs(steps, fresh=True)
    return [Series(name, "µs", [1e6 * one for one in values]) for name, values in found.items()]


def config(*arguments: str) -> str:
    """A home's config whose agent makes steps."""
    return "[limits]\nmax_actions = 1000000\n" + home.command_agent("bench", AGENT, *arguments)


def parts(steps: int) -> list[Series]:
    """What a step is made of, in microseconds a step (two messages)."""
    with home.throw_away(config(str(steps))) as place:
        out = place.folder / "marks.json"
        place.program = [str(WATCHED), str(out), "-1"]
        place.start()
        place.drop("steps.md", GOAL)
        times = home.wait_for(lambda: place.workspaces("*/times.0"))[0].read_text().split()
        place.stop()
        marks = json.loads(out.read_text())["marks"]
    found: dict[str, list[float]] = {name: [] for name, _, _ in PARTS}
    for message in _messages(marks):
        for name, first, last in PARTS:
            found[name].append((message[last] - message[first]) / 1e3)
    series = [Series(name, "µs", _pairs(values)) for name, values in found.items()]
    whole = median(1e6 * float(one) for one in times)
    rest = whole - sum(one.median for one in series)
    return [*series, Series("the agent, and the way there and back", "µs", [rest])]


def _messages(marks: list[tuple[int, str]]) -> Iterator[dict[str, int]]:
    """Each message's moments, of those that went the whole way undisturbed."""
    names = {name for _, *both in PARTS for name in both}
    message: dict[str, int] = {}
    for at, name in marks:
        if name == "parse":
            message = {}
        message.setdefault(name, at)
        if name == "sent" and names <= message.keys():
            yield message


def _pairs(values: list[float]) -> list[float]:
    """Of messages, which come in pairs: steps."""
    return [one + two for one, two in zip(values[::2], values[1::2], strict=False)]


def told(steps: list[Series], made_of: list[Series], proof: str) -> str:
    """The page's part: tables from what was kept."""
    kept, series = figures.load("step")
    base = series[BARE].median
    rows = [
        [
            one.name,
            *(f"{figures.short(one.quantile(share))} µs" for share in (0.5, 0.9, 0.99)),
            f"{one.median / base:.2f}",
        ]
        for one in steps
    ]
    share = [[one.name, f"{figures.short(one.median)} µs"] for one in made_of]
    return "\n\n".join(
        (
            page.table(("", "median", "p90", "p99", "times two bare commits"), rows),
            "![A step and what it is compared with](performance/step.svg)",
            "What a step is made of (two messages; of another run, since the stop-watch takes its time, too):",
            page.table(("part", "a step"), share),
            proof,
            page.under(kept),
        )
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--steps", type=int, default=100, help="a round")
    parser.add_argument("--proved", type=int, default=300, help="steps under strace")
    options = parser.parse_args()
    before = figures.conditions()
    steps = compared(options.steps, options.rounds)
    base = steps[1].median
    for one in steps:
        print(
            f"{one.name:40} {one}, p99 {figures.short(one.quantile(0.99))}: {one.median / base:.2f} times"
        )
    made_of = parts(options.steps * 10)
    for one in made_of:
        print(f"   {one.name:40} {figures.short(one.median)} µs")
    proof = synced.prove(options.proved)
    print(proof.words)
    command = figures.command("step")
    figures.save("step", command, before, [*steps, *made_of], proof=proof.words)
    shown = [
        Series(one.name, one.unit, one.values[:: max(1, len(one.values) // 150)]) for one in steps
    ]
    plots.dots("step", "A step, and what it is compared with (some of the values)", shown)
    page.write("step", told(steps, made_of, proof.words))
    sys.exit(1 if proof.code == 1 else 0)


if __name__ == "__main__":
    main()
