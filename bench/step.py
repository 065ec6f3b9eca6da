"""A judged and recorded step against two bare WAL commits, in turns: python -m bench.step [--help].

A real daemon and a real worker that proposes and reports (`changed` given, so that only judging and recording is
measured). In turns with it: pairs of bare commits (`synchronous=FULL`, one row of 400 bytes, the log reused), and the
same messages answered at once, or recorded without a decision (`bench/least.py`). Then the parts of a step
(`bench/marks.py`), and the proof by strace that each answer follows its sync (`bench/synced.py`).
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

import apsw
from bench import figures, home, marks, page, plots, synced
from bench.figures import Series

LEAST = Path(__file__).with_name("least.py")
GOAL = "---\nagent: bench\n---\n# Many steps\n"
CLEW, BARE, FRESH = "clew: a step", "two bare commits", "two bare commits, a fresh log"
LEASTS = {
    "commits": "two messages, recorded and answered",
    "inline": "two messages, recorded in the loop's thread",
    "messages": "two messages, answered at once",
}
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
REST = "the agent, and the way there and back"


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


@contextmanager
def least(folder: Path, what: str, steps: int, rounds: int) -> Iterator[Path]:
    """A program that does the least, in a folder of its own."""
    place = folder / what
    place.mkdir()
    command = [sys.executable, str(LEAST), what, str(steps), str(rounds)]
    with subprocess.Popen(command, cwd=place) as program:
        try:
            home.wait_for((place / "here").exists)
            yield place
            program.wait(home.WAIT_S)
        finally:
            program.kill()


def compared(steps: int, rounds: int) -> list[Series]:
    """Measure all in turns, in microseconds."""
    found: dict[str, list[float]] = {n: [] for n in (CLEW, BARE, FRESH, *LEASTS.values())}
    with home.temporary(home.bench_agent("step", str(steps), str(rounds))) as place:
        bare, fresh = (BareCommits(place.folder / name) for name in ("bare.db", "fresh.db"))
        bare.pairs(500)
        place.start()
        place.drop("steps.md", GOAL)
        home.wait_for(lambda: place.workspaces("*/here"))
        folders = {CLEW: place.workspaces("*/here")[0].parent}
        with ExitStack() as stack:
            for what, name in LEASTS.items():
                folders[name] = stack.enter_context(least(place.folder, what, steps, rounds))
            for number in range(rounds):
                found[BARE] += bare.pairs(steps)
                for name, folder in folders.items():
                    found[name] += one_round(folder, number)
                found[FRESH] += fresh.pairs(steps, fresh=True)
    return [Series(name, "µs", [1e6 * one for one in values]) for name, values in found.items()]


def parts(steps: int) -> list[Series]:
    """Measure what a step is made of, in microseconds a step (two messages)."""
    with home.temporary(home.bench_agent("step", str(steps))) as place:
        out = place.folder / "marks.json"
        place.program = [marks.__file__, "step", str(out), "-1"]
        place.start()
        place.drop("steps.md", GOAL)
        times = home.wait_for(lambda: place.workspaces("*/times.0"))[0].read_text().split()
        place.stop()
        messages = list(_messages(json.loads(out.read_text())["marks"]))
    series = []
    for name, first, last in PARTS:
        took = [(one[last] - one[first]) / 1e3 for one in messages]
        pairs = [a + b for a, b in zip(took[::2], took[1::2], strict=False)]
        series.append(Series(name, "µs", pairs))
    rest = median(1e6 * float(one) for one in times) - sum(one.median for one in series)
    return [*series, Series(REST, "µs", [rest])]


def _messages(seen: list[tuple[int, str]]) -> Iterator[dict[str, int]]:
    """Yield each message's moments, of those that went the whole way undisturbed."""
    names = {name for _, *both in PARTS for name in both}
    message: dict[str, int] = {}
    for at, name in seen:
        if name == "parse":
            message = {}
        message.setdefault(name, at)
        if name == "sent" and names <= message.keys():
            yield message


def text(kept: figures.Kept) -> tuple[str, ...]:
    """Return the page's part."""
    series = kept[1]
    made_of = [series[name] for name in (*(name for name, _, _ in PARTS), REST)]
    base, rows = series[BARE].median, []
    for one in [one for one in series.values() if one not in made_of]:
        shares = (f"{figures.short(one.quantile(share))} µs" for share in (0.5, 0.9, 0.99))
        rows.append([one.name, *shares, f"{one.median / base:.2f}"])
    return (
        page.table(("", "median", "p90", "p99", "times two bare commits"), rows),
        page.image("A step and what it is compared with", "step"),
        "What a step is made of (two messages; of another run, since the stop-watch takes its time, too):",
        page.table(
            ("part", "a step"), [[s.name, f"{figures.short(s.median)} µs"] for s in made_of]
        ),
        kept[0]["facts"]["proof"],
        page.under(kept[0]),
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.step", description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--steps", type=int, default=100, help="a round")
    parser.add_argument("--proved", type=int, default=300, help="steps under strace")
    parser.add_argument("--print", action="store_true", help="save nothing, write no page")
    options = parser.parse_args()
    before = figures.conditions()
    steps = compared(options.steps, options.rounds)
    for one in steps:
        p99, times = figures.short(one.quantile(0.99)), one.median / steps[1].median
        print(f"{one.name:40} {one}, p99 {p99}: {times:.2f} times")
    made_of = parts(options.steps * 10)
    for one in made_of:
        print(f"   {one.name:40} {figures.short(one.median)} µs")
    proof = synced.prove(options.proved)
    print(proof.text)
    if not options.print:
        series, command = [*steps, *made_of], figures.command("step")
        kept = figures.save("step", command, before, series, proof=proof.text)
        some = [Series(s.name, s.unit, s.values[:: max(1, len(s.values) // 150)]) for s in steps]
        plots.dots("step", "A step, and what it is compared with (some of the values)", some)
        page.write("step", *text(kept))
    sys.exit(1 if proof.code == 1 else 0)


if __name__ == "__main__":
    main()
