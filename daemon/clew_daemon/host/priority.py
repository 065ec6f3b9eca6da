"""The share of the processor that views get where it is scarce."""

from __future__ import annotations

import os

VIEW_NICE = 5
"""A third of what the daemon and its workers get: who looks on should not slow down what is looked at."""


def let_others_first() -> None:
    """Lower the priority of this process, a view."""
    os.nice(VIEW_NICE)
