"""Where the herald sends to, from the config and the environment; wrong entries are found before anything is sent."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from clew_daemon.herald.book import Book
from clew_daemon.herald.messenger import Messenger
from clew_daemon.herald.notices import Notice
from clew_daemon.herald.otlp import OtlpTarget, Tracer
from clew_daemon.herald.sending import (
    DESKTOP,
    AddressError,
    Delivery,
    NotifyAddress,
    check_addresses,
    desktop_there,
    read_addresses,
    send_by_apprise,
    send_to_desktop,
)
from clew_daemon.herald.spools import OTLP, Channels, MessageSpool, SpanSpool
from clew_shared.config.settings import NotifySettings
from clew_shared.text.hidden import HIDDEN


class ChannelError(Exception):
    """A channel cannot be used as it is configured; the message shows no secret."""


class Senders:
    """Every channel, with what sends to it; `labels` are what people call them."""

    def __init__(
        self,
        book: Book,
        addresses: Sequence[NotifyAddress],
        target: OtlpTarget | None,
        *,
        desktop: bool,
    ) -> None:
        self._book = book
        self._target = target
        self._send: dict[str, Callable[[Notice, bool], Delivery]] = {}
        self.labels: dict[str, str] = {}
        for address in addresses:
            self._send[address.channel] = _to(address)
            self.labels[address.channel] = address.label
        if desktop:
            self._send[DESKTOP] = lambda notice, again: send_to_desktop(notice, repeated=again)
            self.labels[DESKTOP] = DESKTOP
        self.health = Channels(book.database)
        traces = {OTLP: f"OTLP, {target.label}"} if target else {}
        self.health.configure({**self.labels, **traces})

    @property
    def channels(self) -> Sequence[str]:
        """The channels of messages."""
        return list(self._send)

    def messenger(self, quiet: str, outdated: Callable[[Notice], bool]) -> Messenger:
        """Return what sends messages."""
        spool = MessageSpool(self._book.database, self.health)
        return Messenger(spool, self._send, self.labels, quiet, outdated)

    def tracer(self) -> Tracer | None:
        """Return what sends spans, None if they are not wanted."""
        if self._target is None:
            return None
        from clew_daemon.herald.otlp import Tracer

        return Tracer(SpanSpool(self._book.database, self.health), self._target)


def senders(book: Book, notify: NotifySettings, env: Mapping[str, str], folder: Path) -> Senders:
    """Return what sends to the channels of the config and the environment; raises ChannelError.

    A relative path starts at `folder`, that of the config.
    """
    return Senders(
        book,
        _addresses(notify, folder),
        _target(env),
        desktop=notify.desktop and desktop_there(env),
    )


def tried(notify: NotifySettings, env: Mapping[str, str], folder: Path) -> dict[str, Delivery]:
    """Send a message to every channel of messages, and return what came of it, by what people call the channel."""
    notice = Notice(
        kind="completed", title="clew: a test", body="clew herald can send you messages."
    )
    results = {
        one.label: send_by_apprise(one, notice, repeated=False)
        for one in _addresses(notify, folder)
    }
    if notify.desktop and desktop_there(env):
        results[DESKTOP] = send_to_desktop(notice, repeated=False)
    return results


def _addresses(notify: NotifySettings, folder: Path) -> list[NotifyAddress]:
    if notify.urls_file is None:
        return []
    path = folder / Path(notify.urls_file).expanduser()
    try:
        found = read_addresses(path)
        HIDDEN.hide(address.url for address in found)
        if found:
            check_addresses(path, found)
    except AddressError as error:
        raise ChannelError(str(error)) from None
    return found


def _target(env: Mapping[str, str]) -> OtlpTarget | None:
    if not any(env.get(f"OTEL_EXPORTER_OTLP_{name}ENDPOINT") for name in ("", "TRACES_")):
        return None
    from clew_daemon.herald.otlp import OtlpError, target_of

    try:
        target = target_of(env)
    except OtlpError as error:
        raise ChannelError(str(error)) from None
    HIDDEN.hide(target.headers.values() if target else ())
    return target


def _to(address: NotifyAddress) -> Callable[[Notice, bool], Delivery]:
    return lambda notice, again: send_by_apprise(address, notice, repeated=again)
