"""What a process of clew sets for itself and tells its service manager."""

import gc
import os
import socket
from collections.abc import Mapping
from typing import Self

VIEW_NICE = 5  # a third of what the daemon and its workers get
GC_DEFAULT = (700, 10, 10)  # the command line raises these thresholds for its short commands
STATUS_CHARS = 500
_OURS = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")


def let_others_first() -> None:
    os.nice(VIEW_NICE)


def collect_as_usual() -> None:
    """Collect garbage as Python does by default, but for what has been imported by now: that stays."""
    gc.freeze()
    gc.set_threshold(*GC_DEFAULT)


class Notifier:
    """Sends states to the manager's socket (sd_notify(3)), and never waits; it wants WATCHDOG=1 so often."""

    def __init__(self, address: str, watchdog_interval_s: float | None = None) -> None:
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self.is_managed = bool(address)  # by a service manager, which may start this process again
        self.watchdog_interval_s = watchdog_interval_s

    @classmethod
    def from_env(cls, env: Mapping[str, str]) -> Self:
        """Take socket and watchdog interval from the environment that the manager gave."""
        usec = env.get("WATCHDOG_USEC", "")
        is_watched = env.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        watched_s = int(usec) / 2_000_000 if is_watched and usec.isdecimal() else 0.0
        return cls(env.get("NOTIFY_SOCKET", ""), watched_s or None)

    def ready(self, status: str) -> None:
        """Report that the start or the reload is over, a refused reload too."""
        self.tell("READY=1", status=status)

    def tell(self, *states: str, status: str | None = None) -> None:
        """Send states, and what `systemctl status` shows; WATCHDOG=1 is due once in `watchdog_interval_s`."""
        if status is not None:  # in one line: a new one would be the next state
            states = (*states, "STATUS=" + " ".join(status.split())[:STATUS_CHARS])
        if not self._address:
            return
        data = "\n".join(states).encode("utf-8", "replace")
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
                sender.sendto(data, socket.MSG_DONTWAIT, self._address)
        except (OSError, ValueError):  # no listener, or its queue is full: the next one may succeed
            return


def without_notify(env: Mapping[str, str]) -> dict[str, str]:
    """Return `env` for a child, which must not report to the manager in the daemon's name."""
    return {name: value for name, value in env.items() if name not in _OURS}
