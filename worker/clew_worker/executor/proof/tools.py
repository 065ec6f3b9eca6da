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
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, islice
from pathlib import Path
from typing import Self

from clew_shared.proof.judges import CACHES, IN_NODE, IN_PYTHON, is_judge
from clew_shared.proof.runners import any_of, words
from clew_shared.snapshots.store import StoreError
from clew_worker.executor.proof.sources import shadows
from clew_worker.sandbox.grants import is_elf

NOTE = "start.json"
_MODULES = words(lambda one: one.packages and one.programs)
_VENV_BIN = re.compile(rf"python[\d.]*|{any_of(_MODULES)}")
_RECORDS = re.compile(
    r"RECORD|direct_url\.json|entry_points\.txt|pyvenv\.cfg|_virtualenv\.p(?:y|th)"
)
_NPM = ".package-lock.json"
_LOCKS = (_NPM, ".modules.yaml", ".yarn-integrity", ".yarn-state.yml")
"""What npm, pnpm and yarn write last in node_modules."""
_COMPILED = re.compile(r"\.git|__pycache__|\.cache")
_BUILT = re.compile(r"(?:^|/)(?:target|build|dist|out|\.next|coverage|htmlcov)/")
"""In what was built names say nothing; packages that stand there judge all the same."""
_PLAIN_SETTINGS = re.compile(
    r"(?:user|remote|branch|author|committer|init|color|pull|push|credential|gui)\.|core\.(?:repositoryformatversion|filemode"
    r"|bare|logallrefupdates|ignorecase|precomposeunicode|symlinks)\b"
)
_SECTION = re.compile(r'\s*\[([\w.-]*)(?:\s*"(?:\\.|[^"\\])*")?\]')
_HISTORIES = r"\.local/share|\.local/state|\.(?:bash|python|node_repl)_history|\.wget-hsts|\.cache"
_STATES = r"\.gradle/(?:daemon|native|wrapper)|\.cargo/\.package-cache|\.config/go/telemetry"
_CACHES = "|".join(map(re.escape, CACHES))
_PLAIN = re.compile(rf"(?:{_HISTORIES}|{_STATES}|{_CACHES})(?:/.*)?", re.DOTALL)
_TAGS, _TAGS_MAX, _TAG_BYTES, _PACKED_BYTES = ".git/refs/tags/", 1_000, 100, 4 << 20
_HASHED_BYTES, _KEPT_BYTES, _READ_BYTES = 32 << 20, 256 << 10, 64 << 20
_ENTRIES_MAX, _HOME_MAX, _SECONDS_MAX = 400_000, 1_000, 20.0


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
    begin = [(one, False) for one in ignored if not _COMPILED.fullmatch(Path(one).name)]
    found = _judging(root, begin, _of_tools)
    tools = {
        one
        for one, whole in found
        if whole or shadows(one) or (is_judge(one) and not _BUILT.search(one))
    }
    return Note({one: _hash(root / one) for one in sorted(tools)}, git_settings(root))


def home_config(home: Path) -> list[str]:
    """Return the files of a HOME but for caches and histories: whatever is there, programs may obey."""
    begin = [("", True)] if home.name else []
    found = _judging(home, begin, lambda at, one, *_: None if _PLAIN.fullmatch(at + one) else True)
    return sorted(one or "." for one, _ in islice(found, _HOME_MAX))


def _judging(
    root: Path,
    todo: list[tuple[str, bool]],
    judged: Callable[[str, str, Mapping[str, bool], bool], bool | None],
) -> Iterator[tuple[str, bool]]:
    """Yield the files below some folders that may judge, each with whether it does whatever its name is.

    A link to a folder is one of them, and so is a folder that cannot be listed: what is in it can be found by name.
    Raises StoreError where there are too many to look at. `judged` gets a folder, a name in it, which of the names
    beside it are folders, and what was said of the folder; with None nothing there judges.
    """
    until, seen = time.monotonic() + _SECONDS_MAX, 0
    while todo:
        path, whole = todo.pop()
        if path and not path.endswith("/"):
            yield path, whole
            continue
        try:
            with os.scandir(root / path) as listing:
                entries = {one.name: one.is_dir(follow_symlinks=False) for one in listing}
        except FileNotFoundError:
            continue
        except OSError:
            yield path.rstrip("/"), True
            continue
        seen += len(entries)
        if seen > _ENTRIES_MAX or time.monotonic() > until:
            raise StoreError(f"there are more than {seen} files that may judge beside those of git")
        for name, is_folder in entries.items():
            if (said := judged(path, name, entries, whole)) is not None:
                todo.append((f"{path}{name}/" if is_folder else f"{path}{name}", said))


def _of_tools(path: str, name: str, beside: Mapping[str, bool], whole: bool) -> bool | None:
    """Return whether everything of an entry judges, or only names that judge; None where nothing of it does."""
    above, _, folder = path.rstrip("/").rpartition("/")
    if folder in ("site-packages", "dist-packages"):
        return True if IN_PYTHON.fullmatch(name) or name.endswith((".pth", ".dist-info")) else None
    if folder.endswith(".dist-info"):
        return True if _RECORDS.fullmatch(name) else None
    if folder == "node_modules" or above.endswith("node_modules"):
        scope = f"{folder}/" if folder.startswith("@") else ""
        if folder == "node_modules" or scope:
            goes_on = name == ".pnpm" or (name.startswith("@") and not scope)
            return True if IN_NODE.fullmatch(scope + name) else False if goes_on else None
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
    installed = _Installed(root, before.tools, now.tools)
    odd = [path for path in sorted(differ) if not installed.explains(path)]
    new = [one for one in odd if one not in before.tools]
    return new, [one for one in odd if one in before.tools]


class _Installed:
    """What installers have put on record of the files that they brought."""

    def __init__(self, root: Path, before: dict[str, str], now: dict[str, str]) -> None:
        self._root, self._before, self._now = root, before, now

    def explains(self, path: str) -> bool:
        """Return whether an installation explains a file that is new or changed."""
        at, name, is_new = self._root / path, path.rpartition("/")[2], path not in self._before
        if name == "entry_points.txt" and b"[pytest11]" in _head(at, _READ_BYTES):
            is_linked = (at.parent / "direct_url.json").exists()
            return is_new and self._is_on_record(at, path) and not is_linked
        if name in ("RECORD", *_LOCKS):  # they judge nothing; a rewritten one explains little
            return True
        if _RECORDS.fullmatch(name):
            return is_new
        if "/node_modules/" in f"/{path}":
            return self._installed_in_node(at, path)
        if is_new and "/bin/" in f"/{path}" and _VENV_BIN.fullmatch(name):
            # a new environment's link to a Python outside of the workspace, or a copy of one
            is_inside = Path(os.path.realpath(at)).is_relative_to(self._root.resolve())
            if not is_inside or is_elf(at):
                return True
        return self._is_on_record(at, path)

    def _installed_in_node(self, at: Path, path: str) -> bool:
        """Return whether the last installation is newer than the start, and the file not newer than that.

        Where there was one at the start, it explains what has come, and not what is another than it was.
        """
        above = accumulate(f"/{path}".split("/node_modules/")[:-1], "{}/node_modules/{}".format)
        locks = (f"{top}/node_modules/{name}".lstrip("/") for top in above for name in _LOCKS)
        lock = next(filter(self._now.get, locks), "")
        was = self._before.get(lock)
        if not lock or self._now[lock] == was or (was and path in self._before):
            return False
        is_copy = "/.bin/" in path and lock.endswith(_NPM) and not at.is_symlink()
        return not is_copy and at.lstat().st_ctime <= (self._root / lock).stat().st_ctime + 2

    def _is_on_record(self, at: Path, path: str) -> bool:
        wanted = self._recorded.get(os.path.normpath(path))
        if wanted is None:
            return False
        data = hashlib.sha256(_head(at, _READ_BYTES)).digest()
        return wanted == f"sha256={base64.urlsafe_b64encode(data).rstrip(b'=').decode()}"

    @cached_property
    def _recorded(self) -> dict[str, str]:
        """The hashes on record, by path, of two the older one; a record that was rewritten counts nothing."""
        found = dict[str, str]()
        for path, name in sorted(self._now.items(), key=lambda one: one[0] in self._before):
            if not path.endswith(".dist-info/RECORD") or self._before.get(path, name) != name:
                continue
            site = path.rsplit("/", 2)[0]
            text = _head(self._root / path, _READ_BYTES).decode(errors="replace")
            with contextlib.suppress(csv.Error):
                rows = [row for row in csv.reader(text.splitlines()) if len(row) > 1 and row[1]]
                found |= {os.path.normpath(f"{site}/{row[0]}"): row[1] for row in rows}
        return found


def git_settings(root: Path) -> dict[str, str]:
    """Return the contents of the files by which a repository's own settings can judge, by path."""
    folder = root / ".git"
    if folder.is_symlink() or not folder.is_dir():
        return {}
    names = [folder / "config", folder / "config.worktree"]
    names += [one for sub in ("hooks", "info") for one in sorted((folder / sub).glob("*"))[:200]]
    kept = [one for one in names if one.suffix != ".sample" and one.name not in ("exclude", "refs")]
    read = {f".git/{at.relative_to(folder)}": _head(at, _KEPT_BYTES) for at in kept if at.is_file()}
    read |= _tags(folder)
    return {path: base64.b64encode(data).decode() for path, data in read.items()}


def _tags(folder: Path) -> dict[str, bytes]:
    """Return the tags of a repository with what they name, none where there are too many to note."""
    packed, many = _head(folder / "packed-refs", _PACKED_BYTES), list[Path]()
    with contextlib.suppress(OSError):
        many = list(islice((folder / "refs" / "tags").rglob("*"), _TAGS_MAX))
    lines = (line.split() for line in packed.splitlines())
    found = {f".git/{os.fsdecode(one[1])}": one[0] + b"\n" for one in lines if len(one) == 2}
    tags = {path: data for path, data in found.items() if path.startswith(_TAGS)}
    tags |= {f".git/{at.relative_to(folder)}": _head(at, _TAG_BYTES) for at in many if at.is_file()}
    return {} if len(packed) == _PACKED_BYTES or max(len(many), len(tags)) >= _TAGS_MAX else tags


def _head(path: Path, most: int) -> bytes:
    """Return the first bytes of a file, nothing of what is none or cannot be read: a FIFO would be waited for."""
    with contextlib.suppress(OSError):
        if path.is_file():
            with path.open("rb") as file:
                return file.read(most)
    return b""


def changed_settings(before: dict[str, str], now: dict[str, str]) -> list[str]:
    """Return the files of the repository's settings that were changed in what can judge; a new tag cannot."""
    paths = sorted(one for one in before.keys() | now.keys() if one in before or _TAGS not in one)
    return [one for one in paths if _telling(one, before.get(one)) != _telling(one, now.get(one))]


def _telling(path: str, content: str | None) -> object:
    """Return what of such a file can judge: of the config not who commits, nor which branch follows which."""
    text, section, found = base64.b64decode(content or "").decode(errors="replace"), "", []
    is_config = path.rpartition("/")[2] in ("config", "config.worktree")
    if not is_config or "\\\n" in text.replace("\r", ""):  # a value of several lines
        return content
    for given in text.split("\n"):
        end = 0
        while header := _SECTION.match(given, end):  # git takes more in the line of one
            section, end = header[1].lower(), header.end()
        line = given[end:].strip()
        if line and (line[0] == "[" or not _PLAIN_SETTINGS.match(f"{section}.{line}")):
            found.append(f"{section}.{line}")
    return found
