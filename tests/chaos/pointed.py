"""Starts the daemon, or its nursery, with the labelled points of `points.py` put around its functions.

`pointed.py PYTHON -m clew_daemon …` is the daemon, and what is to be struck stands in `CHAOS_ORDER` as
JSON; the daemon's nursery is then started by this script too. Nothing in clew knows of it.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import points

ORDER = "CHAOS_ORDER"


def encoded(order: points.Order) -> str:
    return json.dumps({**vars(order), "counts": str(order.counts), "signum": int(order.signum)})


def decoded(text: str) -> points.Order:
    fields = json.loads(text)
    fields |= {"counts": Path(fields["counts"]), "hits": tuple(fields["hits"])}
    return points.Order(**fields)


def daemon(order: str, argv: list[str]) -> None:
    """Be `python -m clew_daemon`, whose nursery is started by this script."""
    from clew_daemon.cli import main
    from clew_daemon.processes import nursery as warm

    start = warm.subprocess.Popen

    def popen(command: list[str], **named: Any) -> Any:
        arguments = command[command.index("clew_worker.cell.nursery") + 1 :]
        return start([sys.executable, __file__, "nursery", order, *arguments], **named)

    warm.subprocess = SimpleNamespace(**vars(warm.subprocess) | {"Popen": popen})
    points.arm(decoded(order), points.DAEMON | points.RETENTION | points.UNDO | points.ATTEMPT)
    sys.argv = ["clew", *argv]
    main()


def nursery(order: str, argv: list[str]) -> int:
    """Be `python -m clew_worker.cell.nursery`."""
    from clew_worker.cell import nursery as real

    found = decoded(order)
    points.arm(found, points.WORKER | points.UNDO_WORKER)
    if not found.namespaces:
        without = real.sandbox.probe().model_copy(update={"isolation": "guard", "userns": False})
        real.sandbox.probe = lambda: without
    return real.main(["nursery", *argv])


if __name__ == "__main__":
    if sys.argv[1] == "nursery":
        sys.exit(nursery(sys.argv[2], sys.argv[3:]))
    daemon(os.environ[ORDER], sys.argv[4:])
