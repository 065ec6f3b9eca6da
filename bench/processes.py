"""What processes weigh, from /proc."""

import contextlib
from collections.abc import Iterable

import psutil

_GONE = (psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError)


def pss_mb(processes: Iterable[psutil.Process]) -> float:
    """Return the memory of processes in MB, shared pages counted proportionally; what has ended counts nothing."""
    total = 0.0
    for process in processes:
        with contextlib.suppress(*_GONE):
            total += process.memory_full_info().pss / 1e6
    return total
