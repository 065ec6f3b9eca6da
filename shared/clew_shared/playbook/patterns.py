"""What steps that went well have in common: each pattern a function that finds the steps which show it.

Order counts, and a step that failed is part of no pattern. It knows no outcome of the whole run.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal

from clew_shared.playbook.steps import Kind, Step

Category = Literal[
    "file_operations",
    "code_navigation",
    "testing",
    "shell_commands",
    "git_operations",
    "error_handling",
]

Finder = Callable[[Sequence[Step]], Sequence[Step]]


@dataclass(frozen=True, slots=True)
class Pattern:
    """A lesson and the finder of the steps that show it; see `Reflection`."""

    category: Category
    confidence: float
    sentence: str
    find: Finder
    passing: bool = False


def _pair(
    done: Sequence[Step],
    first: Callable[[Step], bool],
    then: Callable[[Step, Step], bool],
) -> list[Step]:
    """Find the first step that `first` holds for and a later one that `then` joins to it."""
    for at, step in enumerate(done):
        if first(step) and not step.failed:
            for later in done[at + 1 :]:
                if not later.failed and then(step, later):
                    return [step, later]
    return []


def _list_then_read(done: Sequence[Step]) -> list[Step]:
    return _pair(
        done,
        lambda step: step.kind is Kind.LIST,
        lambda step, later: later.kind is Kind.READ and _inside(later.target, step.target),
    )


def _read_then_write(done: Sequence[Step]) -> list[Step]:
    return _pair(
        done,
        lambda step: step.kind is Kind.READ,
        lambda step, later: later.kind is Kind.WRITE and _one_path(step.target, later.target),
    )


def _related_reads(done: Sequence[Step]) -> list[Step]:
    folders: dict[str, dict[str, Step]] = {}
    for step in done:
        if step.kind is Kind.READ and step.target and not step.failed:
            folder = str(PurePosixPath(step.target).parent)
            folders.setdefault(folder, {}).setdefault(step.target, step)
    fullest = max(folders.values(), key=len, default={})
    return list(fullest.values()) if len(fullest) >= 3 else []


def _search_then_read(done: Sequence[Step]) -> list[Step]:
    return _pair(
        done,
        lambda step: step.kind is Kind.SEARCH,
        lambda _, later: later.kind is Kind.READ,
    )


def _several_searches(done: Sequence[Step]) -> list[Step]:
    found = {step.target: step for step in done if step.kind is Kind.SEARCH and not step.failed}
    return list(found.values()) if len(found) >= 2 else []


def _test_first(done: Sequence[Step]) -> list[Step]:
    """Find a test written before the code that it tests, and run after it."""
    written = _pair(
        done,
        lambda step: step.kind is Kind.WRITE and step.touches_test,
        lambda _, later: later.kind is Kind.WRITE and bool(later.target) and not later.touches_test,
    )
    run = _after(done, written, Kind.TEST)
    earlier_code = [
        step for step in done if written and step.kind is Kind.WRITE and not step.touches_test
    ]
    if not run or earlier_code[0] is not written[1]:
        return []
    return [*written, run]


def _write_then_test(done: Sequence[Step]) -> list[Step]:
    return _pair(
        done,
        lambda step: step.kind is Kind.WRITE,
        lambda _, later: later.kind is Kind.TEST,
    )


def _read_test_then_run(done: Sequence[Step]) -> list[Step]:
    return _pair(
        done,
        lambda step: step.kind is Kind.READ and step.touches_test,
        lambda _, later: later.kind is Kind.TEST,
    )


def _install_then_run(done: Sequence[Step]) -> list[Step]:
    return _pair(
        done,
        lambda step: step.kind is Kind.INSTALL,
        lambda _, later: later.kind in {Kind.RUN, Kind.TEST, Kind.BUILD},
    )


def _build_then_test(done: Sequence[Step]) -> list[Step]:
    return _pair(
        done,
        lambda step: step.kind is Kind.BUILD,
        lambda _, later: later.kind in {Kind.TEST, Kind.RUN},
    )


def _look_then_commit(done: Sequence[Step]) -> list[Step]:
    return _pair(
        done,
        lambda step: step.kind is Kind.GIT_LOOK,
        lambda _, later: later.kind is Kind.GIT_CHANGE,
    )


PATTERNS: tuple[Pattern, ...] = (
    Pattern("testing", 0.85, "Write a test first, then the code, then run it", _test_first),
    Pattern("testing", 0.8, "Run tests after code changes", _write_then_test),
    Pattern("file_operations", 0.8, "Read a file before changing it", _read_then_write),
    Pattern("code_navigation", 0.8, "Search for keywords before reading files", _search_then_read),
    Pattern("file_operations", 0.75, "List directory before reading files", _list_then_read),
    Pattern("shell_commands", 0.75, "Install dependencies before running", _install_then_run),
    Pattern("git_operations", 0.75, "Check git status before changing history", _look_then_commit),
    Pattern("shell_commands", 0.7, "Build before testing or running", _build_then_test),
    Pattern("testing", 0.7, "Read the tests before running them", _read_test_then_run),
    Pattern("file_operations", 0.65, "Read related files of a folder together", _related_reads),
    Pattern("code_navigation", 0.65, "Explore with several different searches", _several_searches),
)


def _after(done: Sequence[Step], seen: Sequence[Step], kind: Kind) -> Step | None:
    start = list(done).index(seen[-1]) + 1 if seen else len(done)
    return next((step for step in done[start:] if step.kind is kind), None)


def _inside(path: str, folder: str) -> bool:
    """Say whether a path may lie in a listed folder; where either is unknown, it may."""
    here = PurePosixPath(folder or ".")
    there = PurePosixPath(path or ".")
    if str(here) == "." or not path or here.is_absolute() != there.is_absolute():
        return True
    return there.is_relative_to(here)


def _one_path(one: str, other: str) -> bool:
    if not one or not other:
        return True
    return PurePosixPath(one) == PurePosixPath(other)
