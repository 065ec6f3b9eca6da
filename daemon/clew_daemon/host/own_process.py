"""What a process of clew sets for itself: when it collects garbage, and that it runs after others."""

from __future__ import annotations

import ctypes
import gc
import os
from contextlib import suppress

VIEW_NICE = 5
"""A third of what the daemon and its workers get: who looks on should not slow down what is looked at."""


def let_others_first() -> None:
    """Lower the priority of this process, a view."""
    os.nice(VIEW_NICE)


GC_DEFAULT = (700, 10, 10)
"""Python's own thresholds; the command line raises them for its short commands."""


def collect_as_usual() -> None:
    """Collect garbage as Python does by default, but for what has been imported by now: that stays."""
    gc.freeze()
    gc.set_threshold(*GC_DEFAULT)


def give_back() -> None:
    """Return free memory to the system: glibc would keep it for the thread that has used it."""
    with suppress(AttributeError):  # another C library
        ctypes.CDLL(None).malloc_trim(0)
