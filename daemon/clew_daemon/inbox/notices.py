"""The log lines of the inbox, each written once for as long as its reason lasts."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from structlog.typing import FilteringBoundLogger

FAULTS_CHARS = 500


class Notices:
    """Remembers what is logged already; `retain` forgets files that are gone."""

    def __init__(self, folder: Path, log: FilteringBoundLogger) -> None:
        self._folder = folder
        self._log = log
        self._ignored: set[str] = set()
        self._waiting: set[str] = set()
        self._trouble = ("", "")

    @property
    def in_trouble(self) -> bool:
        """Whether something is wrong with the folder itself."""
        return bool(self._trouble[0])

    def trouble(self, event: str, reason: str) -> None:
        if self._trouble != (event, reason):
            self._trouble = (event, reason)
            self._log.error(event, folder=str(self._folder), error=reason)

    def no_trouble(self) -> None:
        self._trouble = ("", "")

    def ignored(self, name: str) -> None:
        if name not in self._ignored:
            self._ignored.add(name)
            self._log.warning("inbox.ignored", name=name, error="neither a file nor a link to one")

    def waiting(self, name: str) -> None:
        if name not in self._waiting:
            self._waiting.add(name)
            self._log.info(
                "inbox.waiting", name=name, reason="another program still has it open for writing"
            )

    def deferred(self, name: str, tries: int, error: str) -> None:
        if tries == 0:
            self._log.warning("inbox.deferred", name=name, error=error)

    def rejected(self, name: str, error: str) -> None:
        self._log.warning("goal.rejected", name=name, error=_in_one_line(error))

    def retain(self, names: Collection[str], claimed: Collection[str]) -> None:
        """Forget files other than these, so that a new one of the same name is logged again."""
        self._ignored.intersection_update(names)
        self._waiting.intersection_update({*names, *claimed})


def _in_one_line(text: str) -> str:
    """Return the first line; where that is only a heading, the faults below it."""
    first, _, rest = text.strip().partition("\n")
    return "; ".join(rest.splitlines())[:FAULTS_CHARS] if rest and first.endswith(":") else first
