"""Reloads the config, on SIGHUP and `clew reload`, and passes it on to the parts."""

from __future__ import annotations

import asyncio
import contextlib

import structlog

from clew_daemon.app.status import StatusLine
from clew_daemon.bootstrap import configure_log, preload, record_places, warn_of
from clew_daemon.config.configfile import ConfigFileError
from clew_daemon.control.server import ControlError
from clew_daemon.host import git
from clew_daemon.host.sd_notify import Notifier
from clew_daemon.parts import DaemonParts
from clew_daemon.reload import reload
from clew_daemon.supervision.supervisor import Supervisor
from clew_shared.config.faults import SettingsError
from clew_shared.config.settings import SettingChange

log = structlog.get_logger()


class Reloader:
    """Replaces the settings of a running daemon as a whole, or not at all."""

    def __init__(
        self, daemon: DaemonParts, supervisor: Supervisor, line: StatusLine, notifier: Notifier
    ) -> None:
        self._daemon = daemon
        self._supervisor = supervisor
        self._line = line
        self._notifier = notifier

    async def on_signals(self, hangup: asyncio.Event) -> None:
        """Reload whenever `hangup` is set; signals that come together are one."""
        while True:
            await hangup.wait()
            hangup.clear()
            with contextlib.suppress(ControlError):
                await self.reload()

    async def reload(self) -> list[SettingChange]:
        """Apply what the config says now; raises ControlError and changes nothing where it is not valid."""
        self._notifier.reloading()
        daemon = self._daemon
        identity = await self._git_identity()
        try:
            reloaded = reload(daemon.places.config, daemon.keys.env, daemon.settings)
            configure_log(daemon.places, reloaded.settings, daemon.keys)
        except (SettingsError, ConfigFileError, OSError) as error:
            self._line.show_reload(f"reload refused: {str(error).splitlines()[0]}")
            log.error("config.rejected", reason=str(error))  # noqa: TRY400 - a reason, no bug
            raise ControlError(f"nothing was changed:\n{error}") from None
        else:
            changes = [*reloaded.changes, *git.identity_changes(daemon.git, identity)]
            count = len(changes)
            self._line.show_reload(
                f"reloaded, {count} key{'s' if count != 1 else ''} changed" if count else ""
            )
            daemon.settings, daemon.git = reloaded.settings, identity
            daemon.goals.adopt(reloaded.settings, daemon.settings_of)
            daemon.nursery.preload(preload(reloaded.settings))
            self._supervisor.reloaded()
            await asyncio.to_thread(record_places, daemon.places, reloaded.settings, daemon.keys)
            warn_of(reloaded.outdated)
            log.info(
                "config.reloaded",
                changed={c.key: {"old": c.old, "new": c.new} for c in changes},
                restart_needed=[c.key for c in changes if c.applies == "after a restart"],
            )
            return changes
        finally:
            self._line.reloaded()

    async def _git_identity(self) -> dict[str, str]:
        """Ask git for the identity for commits; meanwhile no child of the daemon counts as an orphan."""
        with self._daemon.children.starting_own():
            return await asyncio.to_thread(git.read_identity, self._daemon.keys.env)
