"""Pools of threads that are all there from the start.

A process counts its threads among the processes that its user may have. A pool that starts one when it is needed
raises if there is none to be had, and has queued the work all the same: it is done later, behind its caller's back.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor, wait

THREADS = 6
_START_S = 30.0


class ThreadsError(Exception):
    """No thread can be started: the user has as many processes as it may have."""

    def __init__(self) -> None:
        super().__init__(
            "cannot start threads: too many processes. Raise TasksMax= or LimitNPROC= of the unit "
            "(`ulimit -u` in a shell), or end other programs"
        )


def pool(count: int, name: str) -> ThreadPoolExecutor:
    """Make a pool of `count` threads that run already; raises ThreadsError."""
    made = ThreadPoolExecutor(count, name)
    start(made, count)
    return made


def start(made: ThreadPoolExecutor, count: int) -> None:
    """Start all threads of a pool that has no more than `count`; raises ThreadsError."""
    met = threading.Barrier(count)
    try:
        wait([made.submit(met.wait, _START_S) for _ in range(count)])
    except RuntimeError:
        met.abort()
        made.shutdown(wait=False, cancel_futures=True)
        raise ThreadsError from None
