"""The URLs that messages go to, and sending one message to one of them, with a deadline."""

from __future__ import annotations

import hashlib
import html
import json
import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clew_daemon.herald import apprise_process
from clew_daemon.herald.notices import Notice
from clew_daemon.host.packages import install

SIZE_MAX = 1 << 16
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]{0,19})://", re.IGNORECASE)


class AddressError(Exception):
    """The file, or an entry in it, cannot be used; the message shows no secret."""


@dataclass(frozen=True, slots=True)
class NotifyAddress:
    """One URL, and the line that it is on."""

    url: str
    line: int

    @property
    def channel(self) -> str:
        """What names it in the book: a digest, so that other entries may be added before it."""
        return hashlib.sha256(self.url.encode()).hexdigest()[:16]

    @property
    def label(self) -> str:
        """What people may see of it."""
        found = _SCHEME.match(self.url)
        return f"line {self.line} ({found[1].lower() + '://' if found else 'no scheme'})"

    def __repr__(self) -> str:
        return f"NotifyAddress({self.label})"


def read_addresses(path: Path) -> list[NotifyAddress]:
    """Return the URLs of a file, one a line; blank lines and lines that begin with `#` are ignored.

    Raises AddressError, also if others than its owner may read the file.
    """
    try:
        with path.open("rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise AddressError(f"[notify] urls_file: {path} is not a file")
            if found.st_mode & 0o077:
                mode = stat.S_IMODE(found.st_mode)
                what = f"{path} is open to others (mode {mode:03o})"
                raise AddressError(f"[notify] urls_file: {what}: chmod 600 {path}")
            text = file.read(SIZE_MAX).decode()
    except OSError as error:
        raise AddressError(f"[notify] urls_file: {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise AddressError(f"[notify] urls_file: {path} is not UTF-8") from None
    lines = ((number, line.strip()) for number, line in enumerate(text.splitlines(), 1))
    return [NotifyAddress(url, number) for number, url in lines if url and not url.startswith("#")]


APPRISE_S = apprise_process.DEADLINE_S + 2.0
DESKTOP_S = 5.0
DESKTOP = "desktop"


@dataclass(frozen=True, slots=True)
class Delivery:
    """The outcome of a try: `error` is "" if it was acknowledged; `maybe_sent`: it may have arrived all the same."""

    error: str = ""
    maybe_sent: bool = False


def check_addresses(path: Path, addresses: Sequence[NotifyAddress]) -> None:
    """Raise AddressError for the URLs that apprise does not know, by their lines; or if it is missing."""
    try:
        done = _run({"check": [address.url for address in addresses]})
    except subprocess.TimeoutExpired:
        raise AddressError(f"apprise did not check {path} within {APPRISE_S:g} s") from None
    if done.returncode == apprise_process.MISSING:
        raise AddressError(f"[notify] urls_file: {_no_apprise()}")
    if done.returncode != apprise_process.SENT:
        raise AddressError(f"apprise could not check {path}: exit {done.returncode}")
    valid = json.loads(done.stdout)
    wrong = [one.label for one, fits in zip(addresses, valid, strict=True) if not fits]
    if wrong:
        raise AddressError(
            f"[notify] urls_file: {path}: {', '.join(wrong)}: not a URL that apprise can use; "
            "its documentation lists them: https://github.com/caronc/apprise/wiki"
        )


def send_by_apprise(address: NotifyAddress, notice: Notice, *, repeated: bool) -> Delivery:
    """Send a message to a URL."""
    body = notice.text(repeated=repeated)
    try:
        done = _run({"url": address.url, "title": notice.title, "body": body})
    except subprocess.TimeoutExpired:
        return Delivery(f"no answer within {APPRISE_S:g} s", maybe_sent=True)
    except OSError as error:
        return Delivery(f"no process could be started: {error.strerror}")
    match done.returncode:
        case apprise_process.SENT:
            return Delivery()
        case apprise_process.UNREACHED:
            return Delivery("no connection")
        case apprise_process.MISSING:
            return Delivery(_no_apprise())
        case _:
            return Delivery("the service did not accept it", maybe_sent=True)


def desktop_there(env: Mapping[str, str]) -> bool:
    """Return whether there is a desktop that shows messages."""
    bus = Path(env.get("XDG_RUNTIME_DIR") or "/nonexistent") / "bus"
    has_bus = bool(env.get("DBUS_SESSION_BUS_ADDRESS")) or bus.exists()
    return has_bus and shutil.which("notify-send", path=env.get("PATH")) is not None


def send_to_desktop(notice: Notice, *, repeated: bool) -> Delivery:
    """Show a message on the desktop."""
    urgency = "normal" if notice.kind == "completed" else "critical"
    body = html.escape(notice.text(repeated=repeated), quote=False)  # desktops show markup
    command = ["notify-send", "--app-name=clew", f"--urgency={urgency}", "--", notice.title, body]
    try:
        subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=DESKTOP_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        return Delivery(f"notify-send: {type(error).__name__}")
    return Delivery()


def _no_apprise() -> str:
    return f"the Python package apprise is missing; to install it: {install('apprise')}"


def _run(asked: dict[str, Any]) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", apprise_process.__name__],
        input=json.dumps(asked).encode(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=dict(os.environ),
        timeout=APPRISE_S,
        check=False,
    )
