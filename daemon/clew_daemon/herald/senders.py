"""The addresses that messages go to, and sending one message to one of them, with a deadline."""

from __future__ import annotations

import hashlib
import html
import os
import re
import shutil
import stat
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from clew_daemon.herald.situation import Notice
from clew_daemon.reading.errors import CliError
from clew_shared.config.tables import NotifySettings
from clew_shared.exit_codes import ExitCode
from clew_shared.text.hidden import HIDDEN

if TYPE_CHECKING:
    from apprise import Apprise

SIZE_MAX = 1 << 16
DESKTOP_S = 5.0
DESKTOP = "desktop"
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]{0,19})://", re.IGNORECASE)


class ChannelError(CliError):
    """A channel cannot be used as it is configured; the message shows no secret."""

    def __init__(self, message: str) -> None:
        super().__init__(message, ExitCode.CONFIGURATION)


class UndeliveredError(Exception):
    """A delivery failed, and is tried again later; the message shows no secret."""


@dataclass(frozen=True, slots=True)
class Sender:
    """What sends to one address; it raises UndeliveredError. `label` is what people may see of the address."""

    key: str
    label: str
    send: Callable[[Notice], None]


def senders(notify: NotifySettings, env: Mapping[str, str], folder: Path) -> list[Sender]:
    """Return what sends to the addresses of the config; raises ChannelError.

    A relative path starts at `folder`, that of the config.
    """
    found = []
    if notify.urls_file is not None:
        path = folder / Path(notify.urls_file).expanduser()
        addresses = _addresses(path)
        HIDDEN.hide(addresses.values())
        for label, target in _targets(path, addresses).items():
            # others may be added before it
            key = hashlib.sha256(addresses[label].encode()).hexdigest()[:16]
            found.append(Sender(key, label, partial(_send_by_apprise, target)))
    if notify.desktop and _desktop_there(env):
        found.append(Sender(DESKTOP, DESKTOP, _send_to_desktop))
    return found


def _addresses(path: Path) -> dict[str, str]:
    """Return the URLs of a file, one a line, by what people may see of them; `#` begins a comment line."""
    where = f"[notify] urls_file: {path}"
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            if not stat.S_ISREG(mode):
                raise ChannelError(f"{where} is not a file")
            if mode & 0o077:
                shown = f"mode {stat.S_IMODE(mode):03o}"
                raise ChannelError(f"{where} is open to others ({shown}): chmod 600 {path}")
            text = file.read(SIZE_MAX).decode()
    except OSError as error:
        raise ChannelError(f"{where} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ChannelError(f"{where} is not UTF-8") from None
    found: dict[str, str] = {}
    for number, url in enumerate(map(str.strip, text.splitlines()), 1):
        if url and not url.startswith("#"):
            scheme = _SCHEME.match(url)
            found[f"line {number} ({scheme[0].lower() if scheme else 'no scheme'})"] = url
    return found


def _targets(path: Path, addresses: Mapping[str, str]) -> dict[str, Apprise]:
    """Return what sends to the URLs of a file; raises ChannelError for those that apprise does not know."""
    import apprise

    apprise.logger.disabled = True  # what it logs may hold secrets
    found = {label: apprise.Apprise() for label in addresses}
    if wrong := [label for label, target in found.items() if not target.add(addresses[label])]:
        raise ChannelError(
            f"[notify] urls_file: {path}: {', '.join(wrong)}: not a URL that apprise can use; "
            "its documentation lists them: https://github.com/caronc/apprise/wiki"
        )
    return found


def _send_by_apprise(target: Apprise, notice: Notice) -> None:
    try:
        is_sent = target.notify(title=notice.title, body=notice.body, body_format="text")
    except Exception as error:  # noqa: BLE001 - of a plug-in; its text may hold secrets
        raise UndeliveredError(f"the plug-in failed: {type(error).__name__}") from None
    if not is_sent:
        raise UndeliveredError("the service cannot be reached, or did not accept it")


def _desktop_there(env: Mapping[str, str]) -> bool:
    bus = Path(env.get("XDG_RUNTIME_DIR") or "/nonexistent") / "bus"
    has_bus = bool(env.get("DBUS_SESSION_BUS_ADDRESS")) or bus.exists()
    return has_bus and shutil.which("notify-send", path=env.get("PATH")) is not None


def _send_to_desktop(notice: Notice) -> None:
    urgency = "normal" if notice.kind == "completed" else "critical"
    body = html.escape(notice.body, quote=False)  # desktops show markup
    command = ["notify-send", "--app-name=clew", f"--urgency={urgency}", "--", notice.title, body]
    nothing = subprocess.DEVNULL
    try:
        subprocess.run(
            command, stdin=nothing, stdout=nothing, stderr=nothing, timeout=DESKTOP_S, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise UndeliveredError(f"notify-send: {type(error).__name__}") from None
