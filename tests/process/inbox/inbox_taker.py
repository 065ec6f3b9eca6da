"""What accepts the drops of an inbox in tests: it keeps them, answers what it is told to, and can be waited for."""

import asyncio
from contextlib import asynccontextmanager
from pathlib import Path

import structlog
from structlog.testing import LogCapture

from clew_daemon.inbox.files import LOCK_NAME, Dropped, InboxOwner
from clew_daemon.inbox.inbox import Inbox

DEADLINE_S = 20


def names(folder: Path) -> list[str]:
    """Name what lies in an inbox besides its lock."""
    return sorted(path.name for path in folder.iterdir() if path.name != LOCK_NAME)


class Daemon:
    """Accepts what it is handed, and can be waited for."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.drops: list[Dropped] = []
        self.answer = lambda _: None
        self.changed = asyncio.Condition()
        self.logged = LogCapture()
        self.owner = InboxOwner(folder)

    async def accept(self, drop: Dropped) -> str | None:
        async with self.changed:
            self.drops.append(drop)
            self.changed.notify_all()
        return self.answer(drop)

    async def until_drops(self, count: int) -> None:
        async with asyncio.timeout(DEADLINE_S), self.changed:
            await self.changed.wait_for(lambda: len(self.drops) >= count)

    async def until(self, holds) -> None:
        """Wait for something on the disk that nothing announces."""
        async with asyncio.timeout(DEADLINE_S):
            while not holds():  # noqa: ASYNC110 - there is no event to wait for
                await asyncio.sleep(0.01)

    def inbox(self, **settings) -> Inbox:
        log = structlog.wrap_logger(None, processors=[self.logged])
        return Inbox(
            folder=self.folder,
            owner=self.owner,
            accept=self.accept,
            logs=log,
            **{"settle_s": 0.05, "sweep_s": 60, **settings},
        )

    def events(self) -> list[str]:
        return [entry["event"] for entry in self.logged.entries]

    @property
    def names(self) -> list[str]:
        return [drop.name for drop in self.drops]


@asynccontextmanager
async def running(daemon: Daemon, **settings):
    inbox = daemon.inbox(**settings)
    await inbox.start()
    await daemon.until((daemon.folder / LOCK_NAME).exists)
    try:
        yield inbox
    finally:
        await inbox.stop()
