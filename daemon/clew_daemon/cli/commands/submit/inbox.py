"""Files put into the inbox, and the daemon's decisions on them."""

from __future__ import annotations

import secrets
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from clew_shared.files.durable import sync

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from clew_daemon.reading.instance import Instance

LATEST_ENDED = 100
"""How many ended goals are listed as well: ours may have ended by the time of the request."""

POLL_S = 0.1


@dataclass
class Submission:
    """A file in the inbox, and the daemon's decision on it: the goal's id, or why it was rejected."""

    path: Path
    goal: str | None = None
    error: str = ""

    @property
    def is_decided(self) -> bool:
        """Whether the daemon has accepted or rejected the file."""
        return bool(self.goal or self.error)


def drop_all(inbox: Path, files: Iterable[tuple[str, bytes]]) -> list[Path]:
    """Put files into the inbox, each atomically and under a name of its own; return their paths.

    All are written under hidden names first, so that none appears if one cannot be written; they are durable when
    this returns.
    """
    inbox.mkdir(parents=True, exist_ok=True)
    with ExitStack() as cleaning:
        written: list[tuple[Path, Path]] = []
        for name, raw in files:
            # the goal is found again by this name
            given = Path(name.encode("utf-8", "replace").decode())
            token = secrets.token_hex(3)
            partial = inbox / f".clew-submit-{token}.tmp"
            cleaning.callback(partial.unlink, missing_ok=True)
            partial.write_bytes(raw)
            sync(partial)
            written.append((partial, inbox / f"{given.stem[:100]}-{token}{given.suffix}"))
        for partial, target in written:
            partial.rename(target)  # no other file has this token
    sync(inbox)
    return [target for _, target in written]


def await_decisions(
    instance: Instance, submissions: Sequence[Submission], known: set[str], within_s: float
) -> None:
    """Wait until the daemon has decided on all files, at most `within_s`, and fill the decisions in.

    `known` are the ids of the goals before the files were dropped. Raises CliError if the daemon stops answering;
    the decisions until then are filled in.
    """
    from clew_daemon.reading.queries import file_name

    looked_at, deadline = set(known), time.monotonic() + within_s
    while True:
        is_last = time.monotonic() > deadline
        for one in submissions:
            one.error = one.error or _rejection(instance.places.inbox / "rejected" / one.path.name)
        open_ones = {one.path.name: one for one in submissions if not one.is_decided}
        for goal in sorted(goal_ids(instance) - looked_at) if open_ones else ():
            if not (name := file_name(instance, goal)):
                continue  # on a slow disk the daemon knows a goal before its ledger does
            looked_at.add(goal)
            if name in open_ones:
                open_ones[name].goal = goal
        if is_last or all(one.is_decided for one in submissions):
            return
        time.sleep(POLL_S)


def _rejection(path: Path) -> str:
    """Return why the daemon has rejected a file, "" if it has not."""
    error = path.with_name(path.name + ".error.txt")
    if not (path.exists() and error.exists()):
        return ""
    return f"the daemon rejected it ({path}):\n{error.read_text(errors='replace').rstrip()}"


def goal_ids(instance: Instance) -> set[str]:
    """Return the ids of the goals that have not ended, and of the latest that have."""
    from clew_daemon.control.requests import StatusRequest
    from clew_daemon.reading.client import send

    goals = send(instance.socket, StatusRequest(limit=LATEST_ENDED))["goals"]
    return {goal["id"] for goal in goals}
