"""The requests of a person on the playbook: remove, restore, prune, import (docs/cli.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clew_daemon.control.server import ControlError
from clew_daemon.learning.exchange import from_entry

if TYPE_CHECKING:
    from clew_daemon.control.server import Handler
    from clew_daemon.parts import DaemonParts

IMPORTED_AT_ONCE_MAX = 100


class PlaybookRequests:
    """The requests of people, each recorded before it is answered."""

    def __init__(self, daemon: DaemonParts) -> None:
        self._d = daemon

    def handlers(self) -> dict[str, Handler]:
        """Return the methods by name."""
        return {
            "playbook_remove": self._remove,
            "playbook_restore": self._restore,
            "playbook_prune": self._prune,
            "playbook_import": self._import,
        }

    async def _remove(self, params: dict[str, Any]) -> dict[str, Any]:
        return await self._of_one(params, self._d.playbook.remove)

    async def _restore(self, params: dict[str, Any]) -> dict[str, Any]:
        return await self._of_one(params, self._d.playbook.restore)

    async def _of_one(self, params: dict[str, Any], change: Any) -> dict[str, Any]:
        bullet_id = params.get("id")
        if not isinstance(bullet_id, str):
            raise ControlError("which strategy? give its id, as listed by `clew playbook list`")
        try:
            await change(bullet_id)
        except ValueError as error:
            raise ControlError(f"{error}; see `clew playbook list --archived`") from None
        return {"id": bullet_id}

    async def _prune(self, params: dict[str, Any]) -> dict[str, Any]:
        below = params.get("below")
        if below is None:
            below = self._d.settings.playbook.prune_below
        if not isinstance(below, (int, float)) or not -1 <= below <= 1:
            raise ControlError(f"`below` is {below!r}; a score is between -1 and 1")
        return {"removed": await self._d.playbook.prune(below), "below": below}

    async def _import(self, params: dict[str, Any]) -> dict[str, Any]:
        entries = params.get("bullets")
        if not isinstance(entries, list) or len(entries) > IMPORTED_AT_ONCE_MAX:
            raise ControlError(f"`bullets` must be a list of at most {IMPORTED_AT_ONCE_MAX}")
        try:
            return dict(
                await self._d.playbook.import_bullets([from_entry(entry) for entry in entries])
            )
        except ValueError as error:
            raise ControlError(f"nothing was imported: {error}") from None
