"""Restarts, orphans and idle cost of clew and of the supervisors that people run today, side by side."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace

from bench import figures, page
from bench.home import disk_folder
from bench.peers import measures, supervisors_page
from bench.peers.install import MissingError
from bench.peers.options import Options
from bench.peers.ready import ReadyPipe
from bench.peers.roster import ROSTER
from bench.peers.supervisors_page import Found
from bench.processes import become_subreaper

QUICK = measures.Sizes(fleet=10, rounds=2, fleet_every=2, idle_s=5)
PEERS = tuple(row.key for _, row in ROSTER)


def run(options: Options) -> None:
    """Measure the chosen peers and print the tables; a whole run is saved and written to the page, too."""
    before = figures.conditions()
    sizes = QUICK if options.quick else measures.Sizes()
    sizes = replace(sizes, rounds=options.rounds or sizes.rounds)
    with _bench(options, sizes) as bench:
        measures.weigh(bench)
        measures.start_all(bench)
        measures.idle(bench)
        measures.restarts(bench)
        bench.stop()
        measures.fates(bench)
    found = _found(bench)
    if options.json:
        print(json.dumps(asdict(found), indent=1))
        return
    print(supervisors_page.tables(found))
    print("\n".join(supervisors_page.others_better(found, supervisors_page.BACK)))
    if command := options.command("supervisors"):
        facts = {name: value for name, value in asdict(found).items() if name != "values"}
        kept, _ = figures.save("supervisors", command, before, found.all(), **facts)
        supervisors_page.draw(found)
        page.write("peers", supervisors_page.text(found, page.under(kept)))


def _found(bench: measures.Bench) -> Found:
    peers = {peer.key: peer for peer in bench.peers}
    return Found(
        names={key: peer.name for key, peer in peers.items()},
        versions={key: peer.version for key, peer in peers.items()},
        settings={key: peer.row.setting for key, peer in peers.items()},
        values={measure: dict(by_key) for measure, by_key in bench.values.items()},
        facts=dict(bench.facts),
        fleet=bench.sizes.fleet,
        out=bench.out,
    )


@contextmanager
def _bench(options: Options, sizes: measures.Sizes) -> Iterator[measures.Bench]:
    """The chosen peers, installed, in a folder that is removed afterwards with all their processes."""
    become_subreaper()
    with disk_folder() as folder:
        (folder / "pipe").mkdir()
        pipe = ReadyPipe(folder / "pipe" / "ready")
        bench = measures.Bench([], pipe, sizes)
        chosen = options.chosen(PEERS)
        try:
            for peer_class, row in ROSTER:
                if row.key in chosen:
                    try:
                        bench.peers.append(peer_class(row, folder / row.key, pipe))
                    except MissingError as error:
                        bench.out[row.key] = str(error)
                        print(f"{row.name or row.key} is skipped: {error}")
            yield bench
        finally:
            bench.stop()
            pipe.close()
