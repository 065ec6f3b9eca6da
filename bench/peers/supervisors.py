"""Restarts, orphans and idle cost of clew and of the supervisors that people run today, side by side."""

from __future__ import annotations

import json
import os
import tempfile
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench import figures, page
from bench.peers import fates, measures, processes, supervisors_page
from bench.peers.circus import Circus
from bench.peers.clew_supervisor import Clew, ClewBuiltIn
from bench.peers.install import MissingError
from bench.peers.pm2 import Pm2
from bench.peers.runit import Runit
from bench.peers.s6 import S6
from bench.peers.said import Said
from bench.peers.supervisord import Supervisord
from bench.peers.supervisors_page import Found
from bench.peers.systemd import Systemd, SystemdAtOnce

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.peers.options import Options
    from bench.peers.peer import Peer

CLASSES: tuple[type[Peer], ...] = (
    ClewBuiltIn,
    Clew,
    Supervisord,
    Circus,
    Runit,
    S6,
    Pm2,
    Systemd,
    SystemdAtOnce,
)
COMMAND = "python -m bench.peers supervisors"
QUICK = measures.Sizes(fleet=10, rounds=2, fleet_every=2, idle_s=5)
PEERS = tuple(one.key for one in CLASSES)


def run(options: Options) -> None:
    """Measure the chosen peers; print the tables, and where nothing was cut short write them to the page, too."""
    before = figures.conditions()
    sizes = QUICK if options.quick else measures.Sizes()
    sizes = replace(sizes, rounds=options.rounds or sizes.rounds)
    with _bench(options, sizes) as bench:
        measures.weigh(bench)
        measures.start_all(bench)
        measures.idle(bench)
        measures.restarts(bench)
        bench.stop()
        fates.fates(bench)
    found = _found(bench)
    if options.json:
        print(json.dumps(asdict(found), indent=1))
        return
    print(supervisors_page.tables(found))
    print("\n".join(supervisors_page.others_better(found, supervisors_page.BACK)))
    if not (options.quick or options.only):
        asked = f"{COMMAND} --rounds {options.rounds}" if options.rounds else COMMAND
        _keep(found, before, asked)


def _found(bench: measures.Bench) -> Found:
    peers = {peer.key: peer for peer in bench.peers}
    return Found(
        names={key: peer.name for key, peer in peers.items()},
        versions={key: peer.version for key, peer in peers.items()},
        settings={key: peer.setting for key, peer in peers.items()},
        values={measure: dict(by_key) for measure, by_key in bench.values.items()},
        facts=dict(bench.facts),
        fleet=bench.sizes.fleet,
        out=bench.out,
    )


def _keep(found: Found, before: dict[str, Any], command: str) -> None:
    facts = {name: value for name, value in asdict(found).items() if name != "values"}
    figures.save("supervisors", command, before, found.all(), **facts)
    kept, _ = figures.load("supervisors")
    supervisors_page.draw(found)
    page.write("peers", supervisors_page.text(found, page.under(kept)))


@contextmanager
def _bench(options: Options, sizes: measures.Sizes) -> Iterator[measures.Bench]:
    """The chosen peers, installed, in a folder that is removed; nothing of them is left."""
    processes.become_subreaper()
    where = os.environ.get("BENCH_DIR", "/var/tmp")
    with tempfile.TemporaryDirectory(prefix="clew-peers-", dir=where) as name:
        (Path(name) / "pipe").mkdir()
        said = Said(Path(name) / "pipe" / "said")
        bench = measures.Bench([], said, sizes)
        try:
            for one in CLASSES:
                if one.key in options.chosen(PEERS):
                    _have(bench, one(Path(name) / one.key, said))
            yield bench
        finally:
            bench.stop()
            said.close()


def _have(bench: measures.Bench, peer: Peer) -> None:
    try:
        peer.version = peer.install()
        bench.peers.append(peer)
    except MissingError as error:
        bench.out[peer.key] = str(error)
        print(f"{peer.name} is skipped: {error}")
