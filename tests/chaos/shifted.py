"""Runs the daemon with a wall clock that a file sets: seconds to be added to the machine's, now and later.

Run as `python shifted.py FILE PYTHON -m clew_daemon ARGUMENT ...`. All that reads the wall clock
in the daemon's process goes by it; other processes, and the monotonic clock, go by the machine's.
"""

import datetime as dt
import sys
import time
from pathlib import Path

_real_time = time.time
_shift = Path(sys.argv[1])
del sys.argv[1:5]


def shifted_s():
    text = _shift.read_text() if _shift.exists() else ""
    return float(text or 0)


class ShiftedDatetime(dt.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls.fromtimestamp(time.time(), tz)


time.time = lambda: _real_time() + shifted_s()
time.time_ns = lambda: int(time.time() * 1e9)
dt.datetime = ShiftedDatetime

from clew_daemon.cli import main  # noqa: E402 - the clock first

sys.exit(main())
