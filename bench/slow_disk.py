"""Runs a daemon whose commits are slower, as on a slower disk: slow_disk.py OUT DELAY_MS, then the arguments of clew.

When it ends, the moment (monotonic) and the number of records of each commit go to OUT, as JSON.
"""

import atexit
import json
import sys
import time
from pathlib import Path
from typing import Any

from clew_daemon.cli import main as clew
from clew_daemon.ledger.ledger import Ledger


def slow_commits(out: Path, delay_ms: float) -> None:
    batches: list[tuple[float, int]] = []
    inner = Ledger._commit  # noqa: SLF001 - from outside; clew knows nothing of it

    def commit(self: Any, batch: list[Any]) -> None:
        if delay_ms:
            time.sleep(delay_ms / 1000)
        inner(self, batch)
        batches.append((time.monotonic(), len(batch)))

    Ledger._commit = commit  # type: ignore[method-assign]  # noqa: SLF001
    atexit.register(lambda: out.write_text(json.dumps(batches)))


if __name__ == "__main__":
    slow_commits(Path(sys.argv[1]), float(sys.argv[2]))
    sys.argv = ["clew", *sys.argv[3:]]
    clew()
