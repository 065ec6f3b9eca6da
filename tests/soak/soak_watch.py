"""What a long run is measured by: memory, descriptors, threads, files, and the daemon's processor time.

Read from /proc and the disk, so that the daemon takes no part in being measured.
"""

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Sample:
    """One look at a daemon: bytes, counts, and seconds of processor time since it began."""

    life: int
    at_s: float
    actions: int
    ended: int
    memory: int
    descriptors: int
    threads: int
    ledger: int
    wal: int
    cpu_s: float


def sample(clew, *, life: int, at_s: float, actions: int, ended: int) -> Sample | None:
    """Look at the daemon that runs; None where it has just ended."""
    process, ledger = Path(f"/proc/{clew.daemon.pid}"), clew.ledger
    with suppress(OSError, IndexError, ValueError):
        return Sample(
            life,
            at_s,
            actions,
            ended,
            memory=_pss(process),
            descriptors=len(list((process / "fd").iterdir())),
            threads=len(list((process / "task").iterdir())),
            ledger=ledger.stat().st_size,
            wal=ledger.with_name("ledger.db-wal").stat().st_size,
            cpu_s=_cpu_s(process),
        )
    return None


def _pss(process: Path) -> int:
    lines = (process / "smaps_rollup").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))


def _cpu_s(process: Path) -> float:
    fields = (process / "stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def fifth(samples: list, number: int) -> list:
    """Give the samples of a fifth of the run, 0 to 4."""
    size = len(samples) / 5
    return samples[round(number * size) : round((number + 1) * size)]


def middle(values) -> float:
    """Give the median; 0 where there is nothing."""
    ordered = sorted(values)
    return ordered[len(ordered) // 2] if ordered else 0


def share(values, of: float) -> float:
    """Give the value that a share of the values does not exceed; 0 where there is nothing."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * of))] if ordered else 0
