"""Reports the daemon's state to the service manager: sd_notify(3), over its datagram socket.

It never raises and never waits: a manager that does not listen must not hold up the work.
"""

from __future__ import annotations

import os
import socket
import time
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Mapping

STATUS_CHARS = 500
_OURS = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")


class Notifier:
    """Sends states to the manager's socket at `address`; silent when that is empty.

    `watchdog_interval_s` is how often `watchdog` must be called, in seconds: half of what the
    manager allows; None when it does not watch this process.
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
        self._send("READY=1", _status(status))

    def reloading(self) -> None:
        """Report that a reload has begun; `ready` must follow."""
        # One datagram: the manager sees by the time which READY=1 belongs to this reload.
        now_us = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        self._send("RELOADING=1", f"MONOTONIC_USEC={now_us}")

    def stopping(self) -> None:
        """Report that the stop has begun."""
        self._send("STOPPING=1")

    def extend(self, seconds: float) -> None:
        """Ask for more time to start or stop in."""
        self._send(f"EXTEND_TIMEOUT_USEC={int(seconds * 1_000_000)}", "WATCHDOG=1")

    def status(self, text: str) -> None:
        """Show one line in `systemctl status`."""
        self._send(_status(text))

    def watchdog(self) -> None:
        """Report that the daemon is responsive; once in `watchdog_interval_s`."""
        self._send("WATCHDOG=1")

    def _send(self, *states: str) -> None:
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


def _status(text: str) -> str:
    """Return one line: a new line would be the next state, and a goal's name may hold one."""
    return "STATUS=" + " ".join(text.split())[:STATUS_CHARS]
