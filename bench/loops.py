"""What the gate notices of loops and of honest work: python -m bench.loops [FILE of recorded runs].

Each run is played through the gate as an agent with tools of its own would report it (its changes are claimed), and the
runs of tests/loop_runs also with a measured workspace. A loop is caught if it is refused, or warned of, in time.
Nothing here runs a model or a daemon.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from tests.loop_runs import KINDS
from tests.loop_runs.player import PlayedRun, play, play_recorded

from clew_shared.config.settings import LoopSettings

if TYPE_CHECKING:
    from collections.abc import Iterable

COLUMNS = ("loops", "caught", "by a refusal", "missed", "honest", "refused", "warned")


def verdict(truth: str, heard: PlayedRun, earliest: int, latest: int) -> list[str]:
    """Return the columns that a run counts in; `earliest` and `latest` are steps for a loop."""
    if truth == "ok":
        found = ["refused"] if heard.refusals else ["warned"] if heard.warnings else []
        return ["honest", *found]
    first = heard.first
    if first is None or not earliest <= first <= latest:
        return ["loops", "missed"]
    refused = any(at <= latest for at, _ in heard.refusals)
    return ["loops", "caught", *(["by a refusal"] if refused else [])]


def of_kind(
    kind: str, loops: LoopSettings, *, measured: bool
) -> Iterable[tuple[str, list[str], PlayedRun]]:
    """Return for each run of a kind its name, the columns that it counts in, and what was heard."""
    for truth, runs in (("loop", KINDS[kind].LOOPS), ("ok", KINDS[kind].WORK)):
        for run in runs:
            heard = play(run, measured=measured, loops=loops)
            yield run.name, verdict(truth, heard, 0, run.latest - 1), heard


def of_file(path: Path, loops: LoopSettings) -> Iterable[tuple[str, list[str], PlayedRun]]:
    """Return the same for the recorded runs of a file, without the contested ones."""
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if not row.get("contested"):
            heard = play_recorded(row, loops)
            last = (row.get("truth_index") or 0) + (row.get("tolerance") or 0)
            yield row["id"], verdict(row["truth"], heard, row.get("not_before") or 0, last), heard


def main() -> None:
    """Print a table of all sets, and with `--runs` each run in which something unexpected was heard."""
    options = argparse.ArgumentParser(prog="python -m bench.loops", description=__doc__)
    options.add_argument("file", nargs="*", type=Path, help="recorded runs, one JSON object a line")
    options.add_argument("--runs", action="store_true", help="list unexpected runs, too")
    options.add_argument(
        "--plain", action="store_true", help="judge by plain counts, as with progress_aware = false"
    )
    given = options.parse_args()
    loops = LoopSettings(progress_aware=not given.plain)
    sets = {path.stem: of_file(path, loops) for path in given.file}
    for kind in KINDS:
        sets[f"{kind}, changes claimed"] = of_kind(kind, loops, measured=False)
        sets[f"{kind}, measured"] = of_kind(kind, loops, measured=True)
    print(f"| set | {' | '.join(COLUMNS)} |\n| --- |{' --- |' * len(COLUMNS)}")
    for name, rows in sets.items():
        counts, odd = Counter[str](), list[str]()
        for run, columns, heard in rows:
            counts.update(columns)
            if {"missed", "refused", "warned"} & set(columns):
                odd.append(f"  {columns[-1]}: {run}: {heard.refusals[:3]} {heard.warnings[:4]}")
        print(f"| {name} | {' | '.join(str(counts[column]) for column in COLUMNS)} |")
        if given.runs:
            print(*odd, sep="\n")


if __name__ == "__main__":
    main()
