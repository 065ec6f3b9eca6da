"""The same failing step again and again on DBOS: fails_dbos.py FOLDER TIMES; prints what was seen as JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from dbos import DBOS

FOLDER, TIMES = Path(sys.argv[1]), int(sys.argv[2])
seen = {"ran": 0, "retried": 0}


@DBOS.step()
def failing(command: str) -> None:
    seen["ran"] += 1
    raise ValueError(f"{command}: no such file")


@DBOS.step(retries_allowed=True, interval_seconds=0.01)
def retried(command: str) -> None:
    seen["retried"] += 1
    raise ValueError(f"{command}: no such file")


@DBOS.workflow()
def stubborn() -> None:
    """As an agent does that does not see that it goes in circles."""
    for _ in range(TIMES):
        try:
            failing("pytest nowhere.py")
        except ValueError:
            continue


@DBOS.workflow()
def once() -> str:
    try:
        retried("pytest nowhere.py")
    except Exception as error:  # noqa: BLE001 what it is, is what we ask
        return type(error).__name__
    return "no error"


def main() -> None:
    DBOS(
        config={
            "name": "fails",
            "system_database_url": f"sqlite:///{FOLDER}/fails.sqlite",
            "log_level": "CRITICAL",
        }
    )
    DBOS.launch()
    stubborn()
    facts: dict[str, Any] = {"tried": TIMES, "retries_end_with": once(), **seen}
    print(json.dumps(facts))
    DBOS.destroy()


if __name__ == "__main__":
    main()
