"""Reports the daemon's state to the service manager: sd_notify(3), over its datagram socket.

It never raises and never waits: a manager that does not listen must not hold up the work.
"""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Mapping

STATUS_CHARS = 500
_OURS = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")


class Notifier:
    """Sends states to the manager's socket at `address`; silent when that is empty.

    `watchdog_interval_s` is how often WATCHDOG=1 must be told, in seconds: half of what the manager allows; None when
    it does not watch this process.
    """

    def __init__(self, address: str, watchdog_interval_s: float | None = None) -> None:
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self.watchdog_interval_s = watchdog_interval_s

    @classmethod
    def from_env(cls, env: Mapping[str, str]) -> Self:
        """Take socket and watchdog interval from the environment that the manager gave."""
        return cls(env.get("NOTIFY_SOCKET", ""), _watchdog_interval_s(env))

    @property
    def is_managed(self) -> bool:
        """Whether a service manager started this process, and so may start it again."""
        return bool(self._address)

    def ready(self, status: str) -> None:
        """Report that the start or the reload is over, a refused reload too."""
        self.tell("READY=1", status=status)

    def tell(self, *states: str, status: str | None = None) -> None:
        """Send states, and what `systemctl status` shows; WATCHDOG=1 is due once in `watchdog_interval_s`."""
        if (
            status is not None
        ):  # one line: a new line would be the next state, and a goal's name may hold one
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


def _watchdog_interval_s(env: Mapping[str, str]) -> float | None:
    if env.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None
    try:
        usec = int(env.get("WATCHDOG_USEC", "0"))
    except ValueError:
        return None
    return usec / 2_000_000 if usec > 0 else None
