"""clew side by side with other programs, each doing the same work in the same run: python -m bench.peers [PART] …

A part is a module of this folder with `PEERS`, the names that it knows (clew among them), `measure(options, found)`,
which returns facts, and the `PAGE` that shows them as a `PART` of docs/performance.md.
"""

import argparse
import importlib
import signal
import sys

from bench import figures, runner
from bench.peers.options import Options

PARTS = ("supervisors", "durable")


def main() -> None:
    parts = {name: importlib.import_module(f"bench.peers.{name}") for name in PARTS}
    known = sorted({peer for part in parts.values() for peer in part.PEERS})
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; all")
    parser.add_argument("--only", help=f"these alone, by commas: {','.join(known)}")
    parser.add_argument("--rounds", type=int, help="how often each is measured")
    parser.add_argument("--quick", action="store_true", help="few rounds: some two minutes a part")
    given = parser.parse_args()
    only = frozenset(given.only.split(",")) if given.only else frozenset()
    if unknown := only - set(known) or set(given.parts) - set(PARTS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    options = Options(only, given.rounds, given.quick)
    for sign in (signal.SIGTERM, signal.SIGINT):
        signal.signal(sign, lambda number, _: sys.exit(128 + number))  # everything is removed
    rounds = f" --rounds {given.rounds}" if given.rounds else ""
    for name in given.parts or PARTS:
        part = parts[name]
        if options.chosen(part.PEERS):
            before, found = figures.conditions(), figures.Recorder()
            facts = part.measure(options, found)
            command, after = f"python -m bench.peers {name}{rounds}", figures.conditions()
            result = figures.Result(command, before, after, facts, found)
            runner.finish(name, part.PAGE, result, options, part.PART)


if __name__ == "__main__":
    main()
