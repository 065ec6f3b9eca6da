"""The requests of a person on the playbook: remove, restore, prune, import (docs/cli.md)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from clew_daemon.control.goal_lookup import fault
from clew_daemon.control.requests import (
    IMPORTED_AT_ONCE_MAX,
    ImportRequest,
    PruneRequest,
    RemoveStrategyRequest,
    RestoreStrategyRequest,
)
from clew_daemon.control.server import ControlError
from clew_daemon.learning.exchange import from_entry
from clew_daemon.parts import DaemonParts


class PlaybookRequests:
    """The requests of people, each recorded before it is answered."""

    def __init__(self, daemon: DaemonParts) -> None:
        self._d = daemon

    async def remove(self, request: RemoveStrategyRequest) -> dict[str, Any]:
        """Archive a strategy."""
        return await self._change(request.id, self._d.playbook.remove)

    async def restore(self, request: RestoreStrategyRequest) -> dict[str, Any]:
        """Restore a strategy from the archive."""
        return await self._change(request.id, self._d.playbook.restore)

    async def _change(
        self, bullet_id: str, change: Callable[[str], Awaitable[None]]
    ) -> dict[str, Any]:
        try:
            await change(bullet_id)
        except ValueError as error:
            raise ControlError(f"{error}; see `clew playbook list --archived`") from None
        return {"id": bullet_id}

    async def prune(self, request: PruneRequest) -> dict[str, Any]:
        """Archive the strategies that score below a threshold; return their ids and the threshold."""
        below = request.below
        if below is None:
            below = self._d.settings.playbook.prune_below
        if not -1 <= below <= 1:
            raise fault("below", below)
        return {"removed": await self._d.playbook.prune(below), "below": below}

    async def import_(self, request: ImportRequest) -> dict[str, Any]:
        """Import strategies, all or none; return the counts."""
        if len(request.bullets) > IMPORTED_AT_ONCE_MAX:
            raise fault("bullets")
        try:
            bullets = [from_entry(entry) for entry in request.bullets]
            return dict(await self._d.playbook.import_bullets(bullets))
        except ValueError as error:
            raise ControlError(f"nothing was imported: {error}") from None
