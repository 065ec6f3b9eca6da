"""Whatever is done to a tree, a look that reads what has changed sees what one sees that reads everything.

The two are compared after operations as programs and hostile agents do them, in the workspace and outside.
"""

import contextlib
import mmap
import os
import shutil
import tempfile
import time
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from clew_worker.executor.world.world import WorldWatch

IGNORE = ("skipped", "*.pyc", "a/b/c")
NAMES = st.sampled_from(["a", "b", "c", "d.pyc", "skipped", "\udcff"])
PICKS = st.integers(0, 999)
TEXTS = st.sampled_from(["", "one", "two", "three"])
PLANTED = (
    "w/a/b/c/x", "w/a/b/f", "w/a/g", "w/b/f", "w/skipped/f", "w/f", "outside/d/e/f",
    "outside/f",
)  # fmt: skip


def put(path, text):
    """Write a file; a pipe that nobody reads is refused, not waited for."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NONBLOCK, 0o644)
    with os.fdopen(fd, "w") as file:
        file.write(text)


class Tree(RuleBasedStateMachine):
    """A workspace `w`, and a folder beside it on the same disk."""

    def __init__(self):
        super().__init__()
        self.base = Path(tempfile.mkdtemp(prefix="world-"))
        for path in PLANTED:
            (self.base / path).parent.mkdir(parents=True, exist_ok=True)
            (self.base / path).write_text(path)
        self.watch = WorldWatch(str(self.base / "w"), IGNORE)
        self.watch.digest()

    def teardown(self):
        shutil.rmtree(self.base)

    def folder(self, pick):
        found = sorted(Path(at) for at, _, _ in os.walk(self.base) if at != str(self.base))
        return found[pick % len(found)]

    def file(self, pick):
        found = sorted(Path(at, name) for at, _, files in os.walk(self.base) for name in files)
        return found[pick % len(found)] if found else self.base / "none"

    @rule(pick=PICKS, name=NAMES, text=TEXTS)
    def write_new(self, pick, name, text):
        with contextlib.suppress(OSError):
            put(self.folder(pick) / name, text)

    @rule(pick=PICKS, text=TEXTS)
    def write(self, pick, text):
        with contextlib.suppress(OSError):
            if self.file(pick).is_file():
                self.file(pick).write_text(text)

    @rule(pick=PICKS)
    def overwrite_in_place_and_set_the_time_back(self, pick):
        file = self.file(pick)
        with contextlib.suppress(OSError):
            info = file.stat()
            with file.open("r+b") as open_file:
                open_file.write(b"x" * min(info.st_size, 3))
            os.utime(file, ns=(info.st_atime_ns, info.st_mtime_ns))

    @rule(pick=PICKS)
    def write_by_a_mapping(self, pick):
        with contextlib.suppress(OSError, ValueError):
            fd = os.open(self.file(pick), os.O_RDWR | os.O_NONBLOCK)
            try:
                memory = mmap.mmap(fd, 0)
            finally:
                os.close(fd)
            memory[0:1] = b"m"
            memory.close()

    @rule(pick=PICKS, name=NAMES)
    def make_folder(self, pick, name):
        with contextlib.suppress(OSError):
            (self.folder(pick) / name).mkdir()

    @rule(pick=PICKS, to=PICKS, name=NAMES)
    def move_file(self, pick, to, name):
        with contextlib.suppress(OSError):
            self.file(pick).rename(self.folder(to) / name)

    @rule(pick=PICKS, to=PICKS, name=NAMES)
    def move_folder_and_write_in_it(self, pick, to, name):
        target = self.folder(to) / name
        with contextlib.suppress(OSError):
            if self.folder(pick).name not in ("w", "outside"):
                self.folder(pick).rename(target)
                put(target / "f", "moved")

    @rule(pick=PICKS)
    def remove(self, pick):
        with contextlib.suppress(OSError):
            self.file(pick).unlink()

    @rule(pick=PICKS)
    def remove_folder_and_make_it_again(self, pick):
        folder = self.folder(pick)
        if folder.name not in ("w", "outside"):
            shutil.rmtree(folder)
            folder.mkdir()
            (folder / "a").write_text("again")

    @rule(pick=PICKS, to=PICKS)
    def swap_for_a_link(self, pick, to):
        folder, target = self.folder(pick), self.folder(to)
        with contextlib.suppress(OSError):
            if folder.name not in ("w", "outside"):
                folder.rename(self.base / "outside" / f"away-{time.monotonic_ns()}")
                folder.symlink_to(target)

    @rule(pick=PICKS, mode=st.sampled_from([0o644, 0o755, 0o000]))
    def change_mode(self, pick, mode):
        with contextlib.suppress(OSError):
            if self.file(pick).is_file():
                self.file(pick).chmod(mode)

    @rule(pick=PICKS, to=PICKS, name=NAMES)
    def link(self, pick, to, name):
        with contextlib.suppress(OSError):
            os.link(self.file(pick), self.folder(to) / name, follow_symlinks=False)

    @rule(pick=PICKS, name=NAMES)
    def make_pipe(self, pick, name):
        with contextlib.suppress(OSError):
            os.mkfifo(self.folder(pick) / name)

    @rule()
    def replace_the_workspace(self):
        (self.base / "w").rename(self.base / "outside" / f"w-{time.monotonic_ns()}")
        (self.base / "w" / "a").mkdir(parents=True)
        (self.base / "w" / "a" / "f").write_text("another workspace")

    @invariant()
    def what_has_changed_makes_the_same_world_as_everything(self):
        assert self.watch.digest() == WorldWatch(str(self.base / "w"), IGNORE).digest()


TREES = settings(
    max_examples=int(os.environ.get("ROUNDS", "25")),
    stateful_step_count=20,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestTree = Tree.TestCase
TestTree.settings = TREES
