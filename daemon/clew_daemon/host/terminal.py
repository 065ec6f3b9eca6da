"""The terminal that the daemon was started in: whether a SIGHUP means that it was closed, or a reload."""

from __future__ import annotations

import os

LOOKS_WITHOUT = 2


class Terminal:
    """The controlling terminal at the start, if there was one.

    `ignored`: SIGHUP was ignored at the start, as by nohup, so that the daemon outlives the terminal.
    """

    def __init__(self, *, ignored: bool) -> None:
        self._ignored = ignored
        self._had_one = _is_there()
        self._looks_without = 0

    @property
    def is_lost(self) -> bool:
        """Return whether there was one and it is gone."""
        return self._had_one and not _is_there()

    def stops(self) -> bool | None:
        """Return what a SIGHUP means: True to stop, False for nothing, None for a reload."""
        if not self.is_lost:
            return None
        self._had_one = False  # a later SIGHUP is a person's
        return not self._ignored

    def look(self) -> None:
        """Forget a terminal that is gone without a SIGHUP, as for a disowned job; call it periodically."""
        self._looks_without = self._looks_without + 1 if self.is_lost else 0
        if self._looks_without >= LOOKS_WITHOUT:  # the first look may come before the SIGHUP does
            self._had_one = False


def _is_there() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC | os.O_NONBLOCK))
    except OSError:
        return False
    return True
