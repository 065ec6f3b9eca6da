"""What judges and is in no snapshot: installed tools, files that git ignores, the repository's settings, the HOME.

What they were is noted when the goal's first snapshot is taken, beside the store, where no command of the goal can
reach it: hashes of contents, but those of the repository's settings as they are, so that they can be put back.
"""

import base64
import contextlib
import csv
import hashlib
import json
import os
import re
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Self

from clew_shared.proof.judges import CACHES, RUNNERS_JS, RUNNERS_PY, is_judge
from clew_shared.snapshots.store import StoreError
from clew_worker.sandbox.grants import is_elf

NOTE = "start.json"
_RUNNERS_PY = re.compile(RUNNERS_PY)
_RUNNERS_JS = re.compile(rf"{RUNNERS_JS}|\.package-lock\.json")
_START_FILES = re.compile(r".+\.pth|(?:site|user)customize\.(?:py|pyc|so)")
_VENV_BIN = re.compile(r"python[\d.]*|pytest|py\.test|tox|nox|coverage|ruff|mypy")
_RECORDS = re.compile(r"RECORD|direct_url\.json|entry_points\.txt|pyvenv\.cfg|\.package-lock\.json")
_COMPILED = re.compile(r"\.git|__pycache__|\.cache|.+\.pyc")
_BUILT = re.compile(r"(?:^|/)(?:target|build|dist|out|\.next|coverage|htmlcov)/")
"""In what was built names say nothing; packages that stand there judge all the same."""
_PLAIN_SETTINGS = re.compile(
    r"(?:user|remote|branch|author|committer|init|color|pull|push|credential|gui)\.|core\.(?:repositoryformatversion|filemode"
    r"|bare|logallrefupdates|ignorecase|precomposeunicode|symlinks)\b"
)
_HISTORIES = (
    *(".local/share", ".local/state", ".bash_history", ".python_history", ".wget-hsts"),
    ".node_repl_history",
)
_PLAIN = re.compile(
    rf"(?:{'|'.join(map(re.escape, ('.cache', *CACHES, *_HISTORIES)))})(?:/.*)?", re.DOTALL
)
_HOME_MAX = 1_000
_TAGS, _TAGS_MAX, _TAG_BYTES, _PACKED_BYTES = "refs/tags/", 1_000, 100, 4 << 20
_HASHED_BYTES, _KEPT_BYTES = 4 << 20, 256 << 10
_ENTRIES_MAX, _SECONDS_MAX = 400_000, 20.0


@dataclass(slots=True)
class Note:
    """What was there: the hash of each tool by its path, and the contents of the repository's settings."""

    tools: dict[str, str] = field(default_factory=dict)
    git: dict[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, store: Path) -> Self:
        """Return the note of a store; raises StoreError where there is none."""
        try:
            saved = json.loads((store / NOTE).read_text())
            return cls(dict(saved["tools"]), dict(saved["git"]))
        except (OSError, ValueError, KeyError, TypeError):
            raise StoreError("it is not on record what was installed at the start") from None


def noted(root: Path, ignored: list[str]) -> Note:
    """Return what is there now; `ignored` are the highest names that git ignores, folders with a slash."""
    return Note({path: _hash(root / path) for path in _tools(root, ignored)}, git_settings(root))


def _tools(root: Path, ignored: list[str]) -> Iterator[str]:
    """Yield the files that judge of what git ignores; raises StoreError where there are too many to look at."""
    until, seen = time.monotonic() + _SECONDS_MAX, 0
    todo = [(path, False) for path in ignored if not _COMPILED.fullmatch(Path(path).name)]
    while todo:
        path, whole = todo.pop()
        if not path.endswith("/"):
            if whole or (is_judge(path) and not _BUILT.search(path)):
                yield path
            continue
        try:
            with os.scandir(root / path) as listing:
                entries = {one.name: one.is_dir(follow_symlinks=False) for one in listing}
        except OSError:  # what is in it can be found by name all the same
            yield path.rstrip("/")
            continue
        seen += len(entries)
        if seen > _ENTRIES_MAX or time.monotonic() > until:
            raise StoreError(f"the folders that git ignores have more than {seen} files")
        for name, is_folder in entries.items():
            judged = _judged(path, name, entries, whole=whole)
            if judged is not None:
                todo.append((f"{path}{name}/" if is_folder else f"{path}{name}", judged))


def _judged(path: str, name: str, beside: dict[str, bool], *, whole: bool) -> bool | None:
    """Return whether everything of an entry judges, or only names that judge; None where nothing of it does.

    Of packages those of runners do, and of environments what starts first.
    """
    above, _, folder = path.rstrip("/").rpartition("/")
    if folder in ("site-packages", "dist-packages"):
        is_start = not beside[name] and _START_FILES.fullmatch(name)
        is_runner = _RUNNERS_PY.fullmatch(name) or name.endswith(".dist-info")
        return True if is_start or is_runner else None
    if folder.endswith(".dist-info"):
        return True if _RECORDS.fullmatch(name) else None
    if folder == "node_modules" or above.endswith("node_modules"):
        scope = f"{folder}/" if folder.startswith("@") else ""
        if folder == "node_modules" or scope:
            is_scope = name.startswith("@") and not scope
            return True if _RUNNERS_JS.fullmatch(scope + name) else False if is_scope else None
    if "pyvenv.cfg" in beside:
        return name == "pyvenv.cfg" if name in ("bin", "lib", "lib64", "pyvenv.cfg") else None
    if folder == "bin" and above and _VENV_BIN.fullmatch(name):
        return True
    return None if _COMPILED.fullmatch(name) else whole


def _hash(path: Path) -> str:
    """Return what stands for a file: a hash, the target of a link, "" where it is gone."""
    try:
        info = path.lstat()
        if stat.S_ISLNK(info.st_mode):
            return f"link {path.readlink()}"
        if not stat.S_ISREG(info.st_mode):
            return "special"
        if info.st_size > _HASHED_BYTES:
            return f"{info.st_size} {info.st_mtime_ns}"
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""


def compared(root: Path, before: Note, now: Note) -> tuple[list[str], list[str]]:
    """Return the tools that are new, and those that are other ones than at the start, but for what was installed."""
    differ = [path for path, name in now.tools.items() if name and before.tools.get(path) != name]
    records = _Records(root, before, now)
    odd = [path for path in sorted(differ) if not records.explain(path)]
    new = [one for one in odd if one not in before.tools]
    return new, [one for one in odd if one in before.tools]


class _Records:
    """What installers have put on record of the files that they brought."""

    def __init__(self, root: Path, before: Note, now: Note) -> None:
        self._root, self._before, self._now = root, before, now
        self._hashes: dict[str, dict[str, str]] = {}

    def explain(self, path: str) -> bool:
        """Return whether an installation explains a file that is new or changed."""
        name = path.rpartition("/")[2]
        if _RECORDS.fullmatch(name):
            return path not in self._before.tools and not self._is_bare_plugin(path)
        if "/node_modules/" in f"/{path}":
            return self._installed_by_npm(path)
        if name.startswith("_virtualenv") or (name.endswith(".pyc") and "/__pycache__/" in path):
            return True
        if "/bin/" in f"/{path}" and _VENV_BIN.fullmatch(name) and self._is_python(path):
            return True
        return self._on_record(path)

    def _is_bare_plugin(self, path: str) -> bool:
        """Return whether entry points of pytest stand in a folder that no installer has made."""
        at = self._root / path
        return (
            at.name == "entry_points.txt"
            and "[pytest11]" in at.read_text(errors="replace")
            and (not self._on_record(path) or (at.parent / "direct_url.json").exists())
        )

    def _is_python(self, path: str) -> bool:
        """Return whether this is a new environment's link to a Python outside of the workspace, or a copy of one."""
        at = self._root / path
        is_inside = Path(os.path.realpath(at)).is_relative_to(self._root.resolve())
        return path not in self._before.tools and (not is_inside or is_elf(at))

    def _installed_by_npm(self, path: str) -> bool:
        """Return whether the last installation is newer than the start, and the file not newer than that."""
        above, _, _ = f"/{path}".rpartition("/node_modules/")
        lock = f"{above}/node_modules/.package-lock.json".lstrip("/")
        if not self._now.tools.get(lock) or self._now.tools[lock] == self._before.tools.get(lock):
            return False
        at = self._root / path
        if "/.bin/" in path and not at.is_symlink():
            return False
        return at.lstat().st_ctime <= (self._root / lock).stat().st_mtime + 2

    def _on_record(self, path: str) -> bool:
        site, found, _ = path.partition("site-packages/")
        site += found
        if not found:  # a program of an environment is on the record of a package
            env = path.rpartition("/bin/")[0]
            inside = (one.partition("site-packages/") for one in self._now.tools if env)
            site = next((a + b for a, b, _ in inside if b and a.startswith(f"{env}/lib")), "")
        if not site:
            return False
        wanted = self._of(site).get(os.path.normpath(path))
        if wanted is None:
            return False
        data = hashlib.sha256((self._root / path).read_bytes()).digest()
        return wanted == f"sha256={base64.urlsafe_b64encode(data).rstrip(b'=').decode()}"

    def _of(self, site: str) -> dict[str, str]:
        """Return the hashes on record in a folder of packages, by path; a record that was rewritten counts nothing."""
        if site not in self._hashes:
            found = self._hashes[site] = {}
            for record in (self._root / site).glob("*.dist-info/RECORD"):
                path = str(record.relative_to(self._root))
                now = self._now.tools.get(path)
                if self._before.tools.get(path, now) != now:
                    continue
                for row in csv.reader(record.read_text(errors="replace").splitlines()):
                    if len(row) > 1 and row[1]:
                        found[os.path.normpath(f"{site}{row[0]}")] = row[1]
        return self._hashes[site]


def git_settings(root: Path) -> dict[str, str]:
    """Return the contents of the files by which a repository's own settings can judge, by path."""
    folder = root / ".git"
    if folder.is_symlink() or not folder.is_dir():
        return {}
    names = [folder / "config", folder / "config.worktree"]
    names += [one for sub in ("hooks", "info") for one in sorted((folder / sub).glob("*"))[:200]]
    found = {}
    for path in names:
        if path.name.endswith(".sample") or path.name in ("exclude", "refs") or not path.is_file():
            continue
        found[str(path.relative_to(root))] = base64.b64encode(_head(path, _KEPT_BYTES)).decode()
    return found | {f".git/{name}": base64.b64encode(one).decode() for name, one in _tags(folder)}


def _tags(folder: Path) -> list[tuple[str, bytes]]:
    """Return the tags of a repository with what they name, none where there are too many to note."""
    found, packed, loose = dict[str, bytes](), b"", list[Path]()
    with contextlib.suppress(OSError):
        packed = _head(folder / "packed-refs", _PACKED_BYTES)
        lines = (line.split() for line in packed.splitlines())
        found |= {os.fsdecode(one[1]): one[0] + b"\n" for one in lines if len(one) == 2}
    with contextlib.suppress(OSError):
        loose = list(islice((folder / "refs" / "tags").rglob("*"), _TAGS_MAX))
        found |= {
            str(one.relative_to(folder)): _head(one, _TAG_BYTES) for one in loose if one.is_file()
        }
    tags = [one for one in found.items() if one[0].startswith(_TAGS)]
    return [] if len(packed) == _PACKED_BYTES or max(len(loose), len(tags)) >= _TAGS_MAX else tags


def _head(path: Path, most: int) -> bytes:
    """Return the first bytes of a file, nothing of what is none: a FIFO would be waited for."""
    if not path.is_file():
        return b""
    with path.open("rb") as file:
        return file.read(most)


def changed_settings(before: dict[str, str], now: dict[str, str]) -> list[str]:
    """Return the files of the repository's settings that were changed in what can judge; a new tag cannot."""
    paths = sorted(one for one in before.keys() | now.keys() if one in before or _TAGS not in one)
    return [one for one in paths if _telling(one, before.get(one)) != _telling(one, now.get(one))]


def _telling(path: str, content: str | None) -> object:
    """Return what of such a file can judge: of the config not who commits, nor which branch follows which."""
    if path.rpartition("/")[2] not in ("config", "config.worktree"):
        return content
    data = base64.b64decode(content or "")
    section, found = "", []
    for line in map(str.strip, data.decode(errors="replace").splitlines()):
        if line.startswith("["):
            section = line.strip("[] ").partition(" ")[0].lower()
        elif line and not _PLAIN_SETTINGS.match(name := f"{section}.{line}"):
            found.append(name)
    return found


def home_config(home: Path) -> list[str]:
    """Return the files of a HOME but for caches and histories: whatever is there, programs may obey.

    A link to a folder is one of them, and so is a folder that cannot be listed.
    """
    found: list[str] = []

    def unread(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):
            found.append(str(Path(error.filename).relative_to(home)))

    for above, folders, names in os.walk(home, onerror=unread) if home.name else ():
        at = Path(above)
        links = [one for one in folders if (at / one).is_symlink()]
        files = (str((at / one).relative_to(home)) for one in (*names, *links))
        found += [one for one in files if not _PLAIN.fullmatch(one)]
        folders[:] = [
            one for one in folders if not _PLAIN.fullmatch(str((at / one).relative_to(home)))
        ]
        if len(found) > _HOME_MAX:
            break
    return sorted(found)
