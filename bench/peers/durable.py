"""A durable step, and recovery after SIGKILL: clew, DBOS on SQLite, LangGraph with its SQLite checkpointer.

The same step for all: decide on an action, carry it out (append its number to a file), have its outcome on record.
clew records the decision before it is acted on, too; of the others this is measured as a way of its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from bench import figures
from bench.peers import durable_facts, durable_idle, durable_page, durable_recovery, durable_steps
from bench.peers.install import ENV
from bench.peers.steppers import PACKAGES, Kind, kinds

if TYPE_CHECKING:
    from bench.peers.options import Options

PEERS = ("clew", *PACKAGES)
COMMAND = "python -m bench.peers durable"


def run(options: Options) -> None:
    """Measure the chosen peers, keep the figures, and write the page where nothing was cut short."""
    before = figures.conditions()
    ways, missing = kinds(options.chosen(PEERS))
    for peer, why in missing.items():
        print(f"{peer} is left out: {why}")
    if not ways:
        return
    series, facts = _measured(ways, options)
    facts |= {"missing": missing, "versions": _versions(ways)}
    if options.json:
        print(json.dumps({"facts": facts, "series": {s.name: s.values for s in series}}))
        return
    for one in series:
        print(f"{one.name:50} {one}")
    for name, fact in facts.items():
        print(f"{name}: {fact}")
    if not (options.quick or options.only):
        command = f"{COMMAND} --rounds {options.rounds}" if options.rounds else COMMAND
        figures.save("durable", command, before, series, **facts)
        durable_page.write()


def _measured(
    ways: dict[str, Kind], options: Options
) -> tuple[list[figures.Series], dict[str, Any]]:
    _say("steps")
    series = durable_steps.growth(ways, options)
    synced, pragmas = durable_steps.syncs(ways)
    _say("many at once")
    series += [*synced, *durable_steps.rates(ways, options)]
    _say("recovery")
    recovered, counts, seed = durable_recovery.recovery(ways, options)
    _say("launches, and idle")
    series += [*recovered, *durable_idle.launches(ways, options), *durable_idle.idle(ways, options)]
    _say("hanging and failing")
    return series, {
        "pragmas": pragmas,
        "counts": counts,
        "seed": seed,
        "hung_until_s": durable_facts.hangs(ways, options),
        "failing": durable_facts.failing(ways),
    }


def _say(part: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} durable: {part}", file=sys.stderr, flush=True)


def _versions(ways: dict[str, Kind]) -> dict[str, str]:
    """The version of every package that was measured."""
    found = {"clew": version("clew")}
    ask = "import sys, importlib.metadata as m; print(*map(m.version, sys.argv[1:]))"
    for peer, packages in PACKAGES.items():
        if peer in ways:
            command = [str(ENV / peer / "bin" / "python"), "-c", ask, *packages]
            said = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
            found |= dict(zip(packages, said.stdout.split(), strict=True))
    return found
