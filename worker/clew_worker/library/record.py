"""The ledger of a goal without a daemon, and the process that has it open. It knows no events."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

import psutil

from clew_shared.ledger import LedgerError, TurnLedger
from clew_shared.views.contextdir import FOLDER

if TYPE_CHECKING:
    from pathlib import Path

    from clew_shared.record.state import State

LEDGER = "ledger.db"


def started_at() -> float:
    """Return the time when this process started, in seconds since 1970."""
    return psutil.Process().create_time()


def lives_elsewhere(state: State) -> bool:
    """Return whether the process that last opened the goal is another one, and still running."""
    if not state.pid or state.pid == os.getpid():
        return False
    with suppress(psutil.Error):
        return abs(psutil.Process(state.pid).create_time() - state.pid_created) < 1
    return False


def open_ledger(folder: Path) -> TurnLedger:
    """Open or create the ledger in the folder's `.agent_context/`; LedgerError gives the reason if that fails."""
    place = folder / FOLDER
    if place.is_symlink():
        raise NotADirectoryError(f"{place} is a link; the record must be kept in a real folder")
    try:
        place.mkdir(mode=0o755, exist_ok=True)
    except OSError as error:
        what = f"its folder cannot be created: {error.strerror}"
        hint = "let the agent write there, or name another folder: ContextManager('path')"
        raise LedgerError(place, what, hint) from error
    return TurnLedger.open(place / LEDGER)
