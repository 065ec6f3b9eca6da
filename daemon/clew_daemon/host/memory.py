"""The memory of programs that live long, unlike most commands: garbage is collected, free memory is given back."""

from __future__ import annotations

import ctypes
import gc
from contextlib import suppress

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
