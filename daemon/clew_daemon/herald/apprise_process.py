"""A process of a moment that sends one message with apprise, or checks URLs: `python -m …`, JSON on stdin.

apprise takes 50 MB and half a second to load; here, both are gone with the process, and a service that hangs is ended
with it. Nothing but an exit code, or a list of true and false, leaves it: what apprise logs may hold secrets.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
from typing import Any

DEADLINE_S = 30
SENT, REFUSED, UNREACHED, MISSING = 0, 1, 2, 3
"""Exit codes. REFUSED: it may have arrived all the same; UNREACHED: there was no connection; MISSING: no apprise."""

_NO_CONNECTION = ("NewConnectionError", "NameResolutionError", "ConnectTimeoutError", "refused")


class _Causes(logging.Handler):
    """Notes whether a failure was one of connecting."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.unreached = False

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        self.unreached = self.unreached or any(cause in text for cause in _NO_CONNECTION)


def main() -> int:
    """Do what stdin asks for, and return the exit code."""
    signal.alarm(DEADLINE_S)  # its parent may be gone
    asked: dict[str, Any] = json.load(sys.stdin)
    answer = os.dup(1)
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)  # plug-ins may print
    os.dup2(nothing, 2)
    try:
        import apprise
    except ImportError:
        return MISSING
    if "check" in asked:
        valid = [apprise.Apprise().add(url) for url in asked["check"]]
        os.write(answer, json.dumps(valid).encode())
        return SENT
    causes = _Causes()
    logger = logging.getLogger("apprise")
    logger.handlers, logger.propagate = [causes], False
    logger.setLevel(logging.DEBUG)
    target = apprise.Apprise()
    if not target.add(asked["url"]):
        return REFUSED
    if target.notify(title=asked["title"], body=asked["body"], body_format="text"):
        return SENT
    return UNREACHED if causes.unreached else REFUSED


if __name__ == "__main__":
    sys.exit(main())
