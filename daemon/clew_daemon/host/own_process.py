"""What a process of clew sets for itself, and how a package is installed for the Python that it runs on."""

from __future__ import annotations

import ctypes
import gc
import os
import shlex
import sys
from contextlib import suppress
from importlib.util import find_spec

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


def pip(*words: str) -> str:
    """Return a command of pip for this Python, as it is typed into a shell."""
    if find_spec("pip") is None:  # an environment that uv has made
        return shlex.join(["uv", "pip", words[0], "--python", sys.executable, *words[1:]])
    return shlex.join([sys.executable, "-m", "pip", *words])
