"""Restarts, orphans and idle cost of clew and of the supervisors that people run today, side by side."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from bench.figures import Recorder
from bench.home import disk_folder
from bench.peers import measures, supervisors_page
from bench.peers.install import MissingError
from bench.peers.options import Options
from bench.peers.ready import ReadyPipe
from bench.peers.roster import ROSTER
from bench.processes import become_subreaper

QUICK = measures.Sizes(fleet=10, rounds=2, fleet_every=2, idle_s=5)
PEERS = tuple(row.key for _, row in ROSTER)
PAGE, PART = supervisors_page, "peers"


def measure(options: Options, found: Recorder) -> dict[str, Any]:
    """Measure the chosen peers; return the facts."""
    sizes = QUICK if options.quick else measures.Sizes()
    sizes = replace(sizes, rounds=options.rounds or sizes.rounds)
    with _bench(options, sizes, found) as bench:
        measures.weigh(bench)
        measures.start_all(bench)
        measures.idle(bench)
        measures.restarts(bench)
        bench.stop()
        measures.fates(bench)
    return {
        "names": {peer.key: peer.name for peer in bench.peers},
        "versions": {peer.key: peer.version for peer in bench.peers},
        "settings": {peer.key: peer.row.setting for peer in bench.peers},
        "facts": dict(bench.facts),
        "fleet": sizes.fleet,
        "out": bench.out,
    }


@contextmanager
def _bench(
    options: Options, sizes: measures.Sizes, found: Recorder
) -> Iterator[measures.SupervisorBench]:
    """The chosen peers, installed, in a folder that is removed afterwards with all their processes."""
    become_subreaper()
    with disk_folder() as folder:
        (folder / "pipe").mkdir()
        pipe = ReadyPipe(folder / "pipe" / "ready")
        bench = measures.SupervisorBench([], pipe, sizes, found)
        chosen = options.chosen(PEERS)
        try:
            for peer_class, row in ROSTER:
                if row.key in chosen:
                    try:
                        bench.peers.append(peer_class(row, folder / row.key, pipe))
                    except MissingError as error:
                        bench.out[row.key] = str(error)
            yield bench
        finally:
            bench.stop()
            pipe.close()
