"""The look at a finish whose checks have passed, and the view in which they run again (docs/proof.md).

Content of what changed since the goal's first snapshot is read from the store, and never leaves the executor.
"""

import base64
import contextlib
import json
import os
import shutil
import stat
from collections import defaultdict
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from functools import cache, partial
from itertools import filterfalse
from pathlib import Path

from clew_shared.files import closing, write_whole
from clew_shared.proof import judges as rules
from clew_shared.proof.label import Seen
from clew_shared.snapshots.entries import Change, Entry
from clew_shared.snapshots.names import quoted
from clew_shared.snapshots.plan import listed
from clew_shared.snapshots.store import FILES, GitFailedError, SnapshotStore, StoreError
from clew_shared.text.redact import redact
from clew_shared.wire.executor import DIFF_CHARS, LookDone, LookRequest, ViewRequest
from clew_shared.wire.nursery import CellSpec
from clew_worker.executor.proof import sources, tools
from clew_worker.executor.snapshots.index import Index
from clew_worker.executor.snapshots.restoring import StoredContents
from clew_worker.executor.workspace import FOLDER, NEW, Workspace, made_folder, open_beneath
from clew_worker.sandbox.grants import PRIVATE_SHM
from clew_worker.sandbox.kernel import descendants

LOOK_S = 60.0
_DIFF = ("diff-tree", "-r", "--no-renames", f"--relative={FILES}/")
_FILE, _PROGRAM = stat.S_IFREG | 0o644, stat.S_IFREG | 0o755
NAMES_MAX = 500  # How many names of each kind an answer has; the view finds all of them itself
_DIFF_FILES = 20
_FILE_BYTES, _TEXT_BYTES, _ALL_BYTES = 2 << 20, 64 << 10, 64 << 20


@dataclass
class Changes:
    """What changed between two trees, by path, in git's modes; `told` has names by the kinds of `Seen`.

    `mixed` are sources as they are now, with the tests that they had.
    """

    all: dict[str, Change]
    told: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    mixed: dict[str, bytes] = field(default_factory=dict)

    @property
    def judging(self) -> list[str]:
        return [*self.told["altered"], *self.told["added"]]

    @property
    def work(self) -> list[str]:
        return list(self.all.keys() - set(self.judging))

    def sort(self, patterns: rules.Patterns, read: Callable[[Entry | None], bytes | None]) -> None:
        """Find out which judge, and what the others do."""
        lost, gone, came = dict[str, int](), dict[str, set[bytes]](), set[bytes]()
        for path, sides in sorted(self.all.items()):
            old, new = map(read, sides)
            if sources.judges(path, old, new, patterns):
                self.told["altered" if sides[0] else "added"].append(path)
                lost[path] = -max(0, sources.tests_within(new) - sources.tests_within(old))
            elif not rules.matcher(patterns.ignore)(path):
                lost[path] = self._take_work(path, old, new)
                gone[path], found = sources.moving_tests(path, old, new)
                came |= found
        for path in (one for one, tests in gone.items() if tests and tests <= came):
            lost[path] = 0  # they stand whole in another source; here they may not compile
            self.mixed.pop(path, None)
        self.told["mixed"] = [*self.mixed]
        if sum(lost.values()) > 0:  # they have not moved into files of tests
            self.told["within"] = [path for path, count in lost.items() if count > 0]

    def _take_work(self, path: str, old: bytes | None, new: bytes | None) -> int:
        """Take in a file that does not judge; return how many tests it has lost."""
        before, now = self.all[path]
        mixed, is_data = sources.with_old_tests(path, old, new), sources.is_data(path)
        said = sources.signs(path, old, new)
        if not is_data and ((new is None and now) or (old is None and before)):
            said["odd"] = "too large to be looked at"
        if mixed is not None:
            self.mixed[path] = mixed
        for kind, text in said.items():
            self.told[kind].append(f"{path}: {text}")
        self.told["data"] += [path] if before and is_data else []
        return sources.tests_lost(old, new) if mixed is None else 0


def changes(store: SnapshotStore, request: LookRequest | ViewRequest) -> Changes:
    """Return what changed from one snapshot to another; raises StoreError."""
    found = Changes(_differing(store, request))
    room = _ALL_BYTES
    with contextlib.closing(StoredContents(store)) as contents:

        def read(entry: Entry | None) -> bytes | None:
            """Return a content, None where there is none, or none that can be read in bounded time."""
            nonlocal room
            if entry is None or not (stat.S_ISREG(entry.mode) or stat.S_ISLNK(entry.mode)):
                return None
            data = contents.read_up_to(entry.id, min(_FILE_BYTES, room))
            room -= len(data or b"")
            return data

        # as it was at the start: what a config names later is a change of that config
        at_top = store.names("ls-tree", f"{request.base}:{FILES}", "--", *sources.NAMING)
        named = list(request.judges)
        for head, _, name in (line.partition("\t") for line in at_top):
            _, kind, blob = head.split()
            named += sources.named_tests(name, read(Entry(_FILE, blob))) if kind == "blob" else ()
        found.sort(rules.Patterns(tuple(named), request.ignore), read)
    return found


def _differing(store: SnapshotStore, request: LookRequest | ViewRequest) -> dict[str, Change]:
    """Return the files that differ, with what they were; those of others were before as these have left them."""
    found, list_of = dict[str, Change](), listed(store)
    fields = iter(store.names(*_DIFF, "--raw", request.base, request.end))
    for head, name in zip(fields, fields, strict=True):
        old_mode, mode, old, new, _ = head[1:].split()
        before, now = (
            Entry(int(octal, 8), one) if one.strip("0") else None
            for octal, one in ((old_mode, old), (mode, new))
        )
        as_quoted = quoted(os.fsencode(name))
        if tree := request.theirs.get(as_quoted):
            left = list_of(tree).get(as_quoted)
            before = Entry(left.git_mode, left.id) if left and left.id else None
        if before != now:
            found[name] = before, now
    return found


def text_of(store: SnapshotStore, tree: str, path: str) -> str:
    """Return the text of a file in a snapshot, its beginning of a long one, "" for none, or one that is too large."""
    name = f"{tree}:{FILES}/{path}"
    is_name = path != "[" and path[:1] != "-" and {"", ".", ".."}.isdisjoint(path.split("/"))
    with contextlib.suppress(GitFailedError):
        if is_name and int(store.run("cat-file", "-s", name)) <= _FILE_BYTES:
            return store.blob(name)[:_TEXT_BYTES].decode(errors="replace")
    return ""


def diff(store: SnapshotStore, base: str, end: str, paths: list[str]) -> str:
    """Return the change of some files as git prints it, cut off; for the agent, which may need a way back."""
    if not paths:
        return ""
    names = [f"{FILES}/{path}" for path in paths[:_DIFF_FILES]]
    options = ("-p", "--no-ext-diff", "--no-textconv", "--no-color", base, end)
    text = store.run(*_DIFF, *options, "--", *names).decode(errors="replace")
    text = redact(text[: 2 * DIFF_CHARS])  # a key that is cut in two has no shape any more
    return text if len(text) <= DIFF_CHARS else f"{text[: DIFF_CHARS - 12]}\n(cut off)\n"


class Prover:
    """Looks at one workspace, and prepares views of it. `starter` is the pid of the process that starts commands."""

    def __init__(self, spec: CellSpec, workspace: Workspace) -> None:
        self._workspace = workspace
        self._root = Path(f"/proc/self/fd/{workspace.fileno()}")
        self._folder = Path(spec.sandbox.store)
        self._git = spec.git
        self._home = Path(spec.env.get("HOME", ""))
        self.in_view = False
        """Whether this executor runs in a view: whose a change is there is no matter."""

    def note_start(self) -> None:
        """Note what is installed and set where that is not on record yet: the goal has done nothing so far."""
        if self._folder.name and not (self._folder / tools.NOTE).exists():
            with contextlib.suppress(StoreError, OSError):
                note = tools.noted(self._root, self._ignored())
                write_whole(self._folder / tools.NOTE, json.dumps(asdict(note)))

    def _ignored(self) -> list[str]:
        """Return the highest names that the rules of the first snapshot ignore; git's own folder does not count."""
        root = self._workspace.fileno()
        index = Index(self._index(), root, lambda name: ".git" in name.split("/"), 0, 0)
        return index.ignored(f"--exclude-from={self._folder}/info/exclude")

    def _store(self) -> SnapshotStore:
        return SnapshotStore(self._folder, self._git).within(LOOK_S)

    def _index(self) -> SnapshotStore:
        return replace(self._store(), index=str(self._folder / "index"), work_tree=str(self._root))

    def look(self, request: LookRequest, starter: int) -> LookDone:
        """Return what judges and was changed since the goal's start; `fault` is why that cannot be said."""
        try:
            return self._looked(request, starter)
        except (StoreError, OSError) as error:
            return LookDone(id=request.id, fault=str(error))

    def _looked(self, request: LookRequest, starter: int) -> LookDone:
        store = self._store()
        found = changes(store, request)
        had_tests = bool(found.told["altered"])
        if found.told["added"] and not had_tests:
            files = store.names("ls-tree", "-r", "--name-only", f"{request.base}:{FILES}")
            had_tests = any(map(rules.is_judge, files))
        _, new, changed, settings = self._since_the_start(request)
        about = sorted({*found.judging, *found.told["mixed"], *found.told["within"]})
        text = diff(store, request.base, request.end, about)
        work = {path: bool(found.all[path][0]) for path in found.work}
        at_start = cache(partial(text_of, store, request.base))
        names = found.told | {
            "new_tools": new,
            "tools": changed,
            "git": settings,
            "home": [*tools.home_config(self._home), *_in_memory()],
            "alive": _alive(starter),
            "odd": [*sources.decided_by(request.checks, work, at_start), *found.told["odd"]],
        }
        shown = {kind: tuple(map(_shown, paths[:NAMES_MAX])) for kind, paths in names.items()}
        return LookDone(id=request.id, seen=Seen(**shown, had_tests=had_tests), diff=text)

    def _since_the_start(
        self, request: LookRequest | ViewRequest
    ) -> tuple[tools.Note, list[str], list[str], list[str]]:
        """Return what was noted then, the tools that are new, those that are changed, and the changed settings."""
        before, now = tools.Note.read(self._folder), tools.noted(self._root, self._ignored())
        ignore = rules.matcher(request.ignore)
        new, changed = (
            [one for one in paths if not ignore(one)]
            for paths in tools.compared(self._root, before, now)
        )
        return before, new, changed, tools.changed_settings(before.git, now.git)

    def prepare(self, request: ViewRequest) -> LookDone:
        """Put back in this view what judges as it was, or what else is asked for; `fault` is why that failed."""
        try:
            if request.copy_from:
                _copy(Path(request.copy_from), self._root, request.copy_bytes)
            for name in self._ignored() if request.without else ():
                _remove(self._root / name)
            if request.take != "compiled":
                self.in_view = True
                self._take_away(request)
            self._drop_compiled(request.since)
        except (StoreError, OSError) as error:
            return LookDone(id=request.id, fault=str(error))
        return LookDone(id=request.id)

    def _take_away(self, request: ViewRequest) -> None:
        found = changes(self._store(), request)
        kept = rules.matcher(request.may_change)
        wanted = {
            "judges": found.judging,
            "data": [*found.judging, *found.told["data"]],
            "tools": [],
            "work": found.work,
        }[request.take]
        with contextlib.closing(StoredContents(self._store())) as contents:
            # what is new goes first: a link that is put back may lead its name elsewhere
            for path in sorted(filterfalse(kept, wanted), key=lambda one: bool(found.all[one][0])):
                was = found.all[path][0]
                self._put(path, was and (was.mode, contents.read(was.id)))
        for path, data in found.mixed.items() if request.take in ("judges", "data") else ():
            if not kept(path):
                now = found.all[path][1]
                self._put(path, (now.mode if now else _FILE, data))
        if request.settings:
            start, new, _, settings = self._since_the_start(request)
            for path in [*new, *settings]:
                mode = _PROGRAM if "hooks/" in path else _FILE
                noted = start.git.get(path)
                self._put(path, None if noted is None else (mode, base64.b64decode(noted)))

    def _drop_compiled(self, since: float) -> None:
        """Remove what Python has compiled since then of files in snapshots and of runners: it may say anything."""
        names = self._index().names("ls-files")
        with contextlib.suppress(StoreError):
            names += tools.Note.read(self._folder).tools
        for folder in {name.rpartition("/")[0] for name in names if name.endswith(".py")}:
            for path in (self._root / folder / "__pycache__").glob("*"):
                with contextlib.suppress(OSError):
                    if path.lstat().st_ctime >= since:
                        path.unlink()

    def _put(self, path: str, wanted: tuple[int, bytes] | None) -> None:
        """Put a file with its mode, or nothing, in the place of whatever is there; no link leads a file elsewhere."""
        if wanted is None:
            _remove(self._root / path)
            return
        mode, data = wanted
        folder, _, name = path.rpartition("/")
        opened = partial(open_beneath, self._workspace.fileno(), flags=FOLDER, links=False)
        with closing(made_folder(folder or ".", opened, over=True)) as at:
            _remove(Path(f"/proc/self/fd/{at}", name))
            if stat.S_ISLNK(mode):
                os.symlink(data, name, dir_fd=at)
                return
            with open(os.open(name, NEW, 0o600, dir_fd=at), "wb") as file:  # noqa: PTH123 - a descriptor
                file.write(data)
                os.fchmod(file.fileno(), stat.S_IMODE(mode))


def _remove(path: Path) -> None:
    """Remove what is at a path, if anything."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        if stat.S_ISDIR(path.lstat().st_mode):
            path.chmod(0o700)  # it may be one that cannot be listed
            shutil.rmtree(path)
        else:
            path.unlink()


def _copy(source: Path, target: Path, most: int) -> None:
    """Copy a workspace but for FIFOs, sockets and devices; StoreError where it is larger than `most` bytes."""
    left = most

    def copy(one: str, to: str) -> None:
        nonlocal left
        info = os.lstat(one)
        left -= info.st_size
        if left < 0:
            raise StoreError(f"the workspace is larger than [proof] copy_mb = {most >> 20}")
        if stat.S_ISREG(info.st_mode):
            shutil.copy2(one, to, follow_symlinks=False)

    shutil.copytree(source, target, symlinks=True, copy_function=copy, dirs_exist_ok=True)


def _in_memory() -> list[str]:
    """Return what is left in the /dev/shm of the cell; in a PID namespace it has one of its own."""
    try:
        return sorted(map(str, Path(PRIVATE_SHM).iterdir())) if os.getppid() == 1 else []
    except FileNotFoundError:
        return []
    except OSError:  # what is in it can be found by name all the same
        return [PRIVATE_SHM]


def _alive(starter: int) -> list[str]:
    """Return the command lines, or names, of what the goal has left running: below the guard, not the executor's."""
    found = []
    for pid in {*descendants(os.getppid())} - {os.getpid(), starter}:
        with contextlib.suppress(OSError):
            files = (Path(f"/proc/{pid}/{of}") for of in ("cmdline", "comm", "stat"))
            line, name, state = map(Path.read_bytes, files)
            if state.rpartition(b")")[2].split()[:1] != [b"Z"]:
                found.append(os.fsdecode(line.replace(b"\0", b" ").strip() or name.strip())[:80])
    return sorted(found)


def _shown(text: str) -> str:
    return os.fsencode(text).decode(errors="replace")[:1000]
