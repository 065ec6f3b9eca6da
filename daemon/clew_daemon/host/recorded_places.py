"""Where the last daemon of a config had its folders, recorded for clients that find that config broken.

A config that moves folders (`[paths]`) and then cannot be read would hide the running daemon. So a daemon
records its places in the state folder that an empty config would give. Without `[paths]` it records none.
"""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from clew_shared.config.places import FOLDERS, PlacesError, places

if TYPE_CHECKING:
    from collections.abc import Mapping

    from clew_shared.config.places import Places

FILE = "places.json"


def write(found: Places, ledger: Path, log_file: Path, env: Mapping[str, str]) -> None:
    """Record where this daemon's folders, ledger and log are; raises OSError."""
    try:
        usual = places(env, found.home, None)
    except PlacesError:  # no HOME: no client could find the record either
        return
    file = usual.state / FILE
    if (
        found.folders == usual.folders
        and ledger == usual.state / "ledger.db"
        and log_file == usual.log_file
    ):
        file.unlink(missing_ok=True)
        return
    usual.state.mkdir(mode=0o700, parents=True, exist_ok=True)
    record = {name: str(folder) for name, folder in found.folders.items()}
    record |= {"config": str(found.config), "ledger": str(ledger), "log": str(log_file)}
    part = file.with_name(f".{FILE}.{os.getpid()}.tmp")
    try:
        part.write_text(json.dumps(record) + "\n")
        part.replace(file)
    finally:
        part.unlink(missing_ok=True)


def read(usual: Places) -> dict[str, Path]:
    """Return the places that are recorded for the config of `usual`: the folders, `ledger` and `log`; {} if none."""
    with contextlib.suppress(OSError, ValueError):
        record = json.loads((usual.state / FILE).read_bytes())
        if isinstance(record, dict) and record.get("config") == str(usual.config):
            named = {key: record.get(key) for key in (*FOLDERS, "ledger", "log")}
            return {
                key: Path(value)
                for key, value in named.items()
                if isinstance(value, str) and value.startswith("/") and "\0" not in value
            }
    return {}
