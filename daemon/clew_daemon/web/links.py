"""Links to a running `clew web`, asked for over a Unix socket in the run folder that only its user can reach.

It refuses workers as the control socket does: a link opens a session, and a session may change everything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clew_daemon.reading.client import LOOK_S, NoDaemon, RequestRefused, call
from clew_daemon.reading.errors import CliError
from clew_shared.exit_codes import ExitCode

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from clew_daemon.control.server import Control
    from clew_daemon.reading.instance import Instance

SOCKET = "web.sock"
NOT_RUNNING = "no `clew web` is running: start it with `clew web`, or as a service"


def link_socket(instance: Instance) -> Path:
    """Return where a running `clew web` is asked for links."""
    return instance.places.run / SOCKET


def asked_link(instance: Instance) -> str:
    """Ask the running server for a new link; CliError where none runs."""
    try:
        return str(call(link_socket(instance), "link", within_s=LOOK_S)["link"])
    except NoDaemon:
        raise CliError(NOT_RUNNING, ExitCode.NO_DAEMON) from None


def refuse_second(instance: Instance) -> None:
    """Raise CliError where a `clew web` runs for this home already."""
    try:
        found = call(link_socket(instance), "where", within_s=LOOK_S)
    except NoDaemon:
        return
    except RequestRefused as error:
        raise CliError(f"a `clew web` runs already: {error.message}") from None
    raise CliError(
        f"`clew web` runs already, as process {found['pid']} at {found['base']}; "
        "for a link to it: clew web --link"
    )


def link_server(instance: Instance, base: str, new_link: Callable[[], str]) -> Control:
    """Return the server of the socket; `new_link` makes a link, `base` is what it begins with."""
    import os

    from clew_daemon.control.server import Control

    async def link(_: dict[str, Any]) -> dict[str, Any]:
        return {"link": new_link()}

    async def where(_: dict[str, Any]) -> dict[str, Any]:
        return {"base": base, "pid": os.getpid()}

    def daemon() -> int | None:
        holder = instance.holder
        return holder.pid if holder is not None and holder.is_here else None

    return Control(link_socket(instance), {"link": link, "where": where}, daemon)
