"""What the long-lived parts of a daemon share: made once by the app, passed to those who need it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clew_daemon.book import Book
    from clew_daemon.cgroups import Cgroups
    from clew_daemon.children import Children
    from clew_daemon.keys import Keys
    from clew_daemon.nursery import Nursery
    from clew_daemon.playbook import Playbook
    from clew_daemon.publisher import Publisher
    from clew_daemon.slots import Slots
    from clew_shared.settings import Places, Settings


@dataclass(slots=True)
class Daemon:
    """One daemon's parts; `settings` are replaced by a reload, the rest never."""

    places: Places
    settings: Settings
    keys: Keys
    book: Book
    playbook: Playbook
    children: Children
    cgroups: Cgroups
    nursery: Nursery
    slots: Slots
    publisher: Publisher
