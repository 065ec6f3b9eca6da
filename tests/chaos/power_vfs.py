"""A disk whose power can be cut: an SQLite file system that remembers what was synced and what not.

Files are really there and hold what a running program sees. Beside that each operation is kept in a
log, and from any beginning of it the images can be made that a power cut at that moment may leave:
all that was synced, and of the rest whatever chance kept, sector by sector. What is written is
not known here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import apsw

SECTOR = 512
FATES = ("nothing", "everything", "in_order", "any_sector", "any_write")
"""What becomes of writes that were not synced: FATES[2] keeps a beginning, the next two any of them."""


@dataclass(frozen=True)
class Op:
    """One operation on a file: write, truncate, sync, create, delete, or a word of the program itself."""

    kind: str
    name: str = ""
    offset: int = 0  # of a write; the size of a truncate; 1 where a delete syncs the folder
    data: bytes = b""
    word: object = None


@dataclass
class File:
    """What of one file is on the disk for certain, and what was done since."""

    synced: bytearray = field(default_factory=bytearray)
    pending: list[Op] = field(default_factory=list)
    new: bool = False  # SQLite syncs the folder with the first sync of a journal that it made

    def sync(self) -> None:
        for op in self.pending:
            apply(self.synced, op)
        self.pending.clear()

    def survivor(self, fate: str, dice: Random) -> bytes:
        """Give what a power cut may leave of it."""
        content = bytearray(self.synced)
        for op in kept(self.pending, fate, dice):
            apply(content, op)
        return bytes(content)


@dataclass
class Disk:
    """A folder: by name the versions that a power cut may leave, oldest first; None is no file."""

    names: dict[str, list[File | None]] = field(default_factory=dict)
    deaf: bool = False  # it says that it has synced, and has not

    @classmethod
    def of(cls, folder: Path, *, deaf: bool = False) -> Disk:
        disk = cls(deaf=deaf)
        for path in folder.iterdir():
            if not path.name.endswith("-shm"):
                disk.names[path.name] = [File(bytearray(path.read_bytes()))]
        return disk

    def do(self, op: Op) -> None:
        versions = self.names.setdefault(op.name, [None]) if op.name else []
        match op.kind:
            case "create":
                versions.append(File(new=True))
            case "delete":
                versions.append(None)
                if op.offset and not self.deaf:
                    self._sync_folder()
            case "write" | "truncate":
                versions[-1].pending.append(op)
            case "sync" if not self.deaf:
                file = versions[-1]
                file.sync()
                if file.new:
                    file.new = False
                    self._sync_folder()

    def _sync_folder(self) -> None:
        for versions in self.names.values():
            del versions[:-1]

    def write_image(self, folder: Path, fate: str, dice: Random) -> None:
        """Write what is left after a power cut into an empty folder."""
        for name, versions in self.names.items():
            version = {"nothing": versions[0], "everything": versions[-1]}.get(
                fate, dice.choice(versions)
            )
            if version is not None:
                (folder / name).write_bytes(version.survivor(fate, dice))


def apply(content: bytearray, op: Op) -> None:
    if op.kind == "truncate":
        del content[op.offset :]
        return
    if len(content) < op.offset:
        content.extend(bytes(op.offset - len(content)))  # what was never written reads as zeros
    content[op.offset : op.offset + len(op.data)] = op.data


def kept(pending: list[Op], fate: str, dice: Random) -> list[Op]:
    """Choose which of the unsynced operations reach the disk, whole or in part."""
    match fate:
        case "nothing":
            return []
        case "everything":
            return list(pending)
        case "in_order":
            whole = dice.randint(0, len(pending))
            torn = sectors(pending[whole]) if whole < len(pending) else []
            return pending[:whole] + torn[: dice.randint(0, len(torn))]
        case "any_write":
            return [op for op in pending if dice.random() < 0.5]
    share = dice.random()
    return [part for op in pending for part in sectors(op) if dice.random() < share]


def sectors(op: Op) -> list[Op]:
    """Cut a write at the sectors' bounds."""
    if op.kind != "write":
        return [op]
    parts, at = [], op.offset
    while at < op.offset + len(op.data):
        end = min((at // SECTOR + 1) * SECTOR, op.offset + len(op.data))
        parts.append(Op("write", op.name, at, op.data[at - op.offset : end - op.offset]))
        at = end
    return parts


class PowerDisk(apsw.VFS):
    """SQLite's own file system with a log of what was done; one at a time, closed by `unregister`."""

    def __init__(self, name: str = "power") -> None:
        super().__init__(name, "")
        self.vfs_name = name
        self.log: list[Op] = []

    def xOpen(self, name, flags):  # noqa: N802 - SQLite's name
        return PowerFile(self.log, name, flags)

    def xDelete(self, name, sync):  # noqa: N802 - SQLite's name
        super().xDelete(name, sync)
        self.log.append(Op("delete", Path(name).name, int(sync)))


class PowerFile(apsw.VFSFile):
    def __init__(self, log: list[Op], name, flags) -> None:
        path = Path(name if isinstance(name, str) else name.filename())
        new = not path.exists()
        super().__init__("", name, flags)
        self._log, self._name = log, path.name
        if new:
            log.append(Op("create", self._name))

    def xWrite(self, data, offset):  # noqa: N802 - SQLite's name
        super().xWrite(data, offset)
        self._log.append(Op("write", self._name, offset, bytes(data)))

    def xTruncate(self, size):  # noqa: N802 - SQLite's name
        super().xTruncate(size)
        self._log.append(Op("truncate", self._name, size))

    def xSync(self, flags):  # noqa: N802 - SQLite's name
        super().xSync(flags)
        self._log.append(Op("sync", self._name))
