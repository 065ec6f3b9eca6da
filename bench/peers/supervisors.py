"""Restarts, orphans and idle cost of supervisors, side by side; to be written."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bench.peers.options import Options

PEERS = ("clew", "supervisord", "circus", "runit", "s6", "pm2", "systemd")


def run(options: Options) -> None:
    """Measure the chosen peers."""
    print("supervisors:", *options.chosen(PEERS))
