"""A durable step, and recovery after SIGKILL: clew, DBOS on SQLite, LangGraph with its SQLite checkpointer.

The same step for all: decide on an action, carry it out (append its number to a file), record its outcome. clew records
the decision before it is acted on, too; of the others this is measured as a way of its own.
"""

import json
import subprocess
import sys
import time
from importlib.metadata import version
from typing import Any

from bench import figures
from bench.peers import durable_measures as measures
from bench.peers import durable_page
from bench.peers.options import Options
from bench.peers.steppers import PACKAGES, Way, python, ways

PEERS = ("clew", *PACKAGES)


def run(options: Options) -> None:
    """Measure the chosen peers and print the figures; a whole run is saved and written to the page, too."""
    before = figures.conditions()
    found, missing = ways(options.chosen(PEERS))
    for peer, why in missing.items():
        print(f"{peer} is left out: {why}")
    if not found:
        return
    series, facts = _measured(found, options)
    facts |= {"missing": missing, "versions": _versions(found)}
    if options.json:
        print(json.dumps({"facts": facts, "series": {s.name: s.values for s in series}}))
        return
    for one in series:
        print(f"{one.name:50} {one}")
    for name, fact in facts.items():
        print(f"{name}: {fact}")
    if command := options.command("durable"):
        durable_page.write(figures.save("durable", command, before, series, **facts))


def _measured(
    found: dict[str, Way], options: Options
) -> tuple[list[figures.Series], dict[str, Any]]:
    _progress("steps")
    series = measures.growth(found, options)
    synced, pragmas = measures.syncs(found)
    _progress("many at once")
    series += [*synced, *measures.rates(found, options)]
    _progress("recovery")
    recovered, counts, seed = measures.recovery(found, options)
    _progress("launches, and idle")
    series += [*recovered, *measures.launches(found, options), *measures.idle(found, options)]
    _progress("hanging and failing")
    hung = measures.hangs(found, options)
    failed = measures.failing(found)
    return series, {
        "pragmas": pragmas,
        "counts": counts,
        "seed": seed,
        "hung_until_s": hung,
        "failing": failed,
    }


def _progress(part: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} durable: {part}", file=sys.stderr, flush=True)


def _versions(found: dict[str, Way]) -> dict[str, str]:
    versions = {"clew": version("clew")}
    ask = "import sys, importlib.metadata as m; print(*map(m.version, sys.argv[1:]))"
    for peer, packages in PACKAGES.items():
        if peer in found:
            line = [python(peer), "-c", ask, *packages]
            done = subprocess.run(line, check=True, capture_output=True, text=True, timeout=60)
            versions |= dict(zip(packages, done.stdout.split(), strict=True))
    return versions
