"""A durable step, and recovery after SIGKILL: clew, DBOS on SQLite, LangGraph with its SQLite checkpointer.

The same step for all: decide on an action, carry it out (append its number to a file), record its outcome. clew records
the decision before it is acted on, too; of the others this is measured as a way of its own.
"""

import subprocess
import sys
import time
from importlib.metadata import version
from typing import Any

from bench.figures import Recorder
from bench.peers import durable_measures as measures
from bench.peers import durable_page
from bench.peers.options import Options
from bench.peers.steppers import PACKAGES, Way, python, ways

PEERS = ("clew", *PACKAGES)
PAGE, PART = durable_page, "durable"


def measure(options: Options, found: Recorder) -> dict[str, Any]:
    """Measure the chosen peers; return the facts."""
    chosen, missing = ways(options.chosen(PEERS))
    bench = measures.StepBench(chosen, options, found)
    facts: dict[str, Any] = {}
    for part in (
        bench.growth,
        bench.syncs,
        bench.rates,
        bench.recovery,
        bench.launches,
        bench.idle,
        bench.hangs,
        bench.failing,
    ):
        print(f"{time.strftime('%H:%M:%S')} durable: {part.__name__}", file=sys.stderr, flush=True)
        facts |= part() or {}
    return facts | {"missing": missing, "versions": _versions(chosen)}


def _versions(found: dict[str, Way]) -> dict[str, str]:
    versions = {"clew": version("clew")}
    ask = "import sys, importlib.metadata as m; print(*map(m.version, sys.argv[1:]))"
    for peer, packages in PACKAGES.items():
        if peer in found:
            line = [python(peer), "-c", ask, *packages]
            done = subprocess.run(line, check=True, capture_output=True, text=True, timeout=60)
            versions |= dict(zip(packages, done.stdout.split(), strict=True))
    return versions
