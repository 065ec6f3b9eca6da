"""What a run of tool calls teaches: patterns that were really seen, each with its evidence.

Every lesson names the calls that it was drawn from, order counts, and a run that ended in an error
teaches only how to meet that error. It calls no model and keeps nothing.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Literal

from clew_shared.playbook.steps import Kind, Step, ToolCall, steps

Category = Literal[
    "file_operations",
    "code_navigation",
    "testing",
    "shell_commands",
    "git_operations",
    "error_handling",
]

_SUCCESSES = frozenset(("success", "completed", "ok"))
_ERRORS = frozenset(("error", "failure", "failed", "timeout"))
_SHOWN_STEPS = 4


@dataclass(frozen=True, slots=True)
class Reflection:
    """A lesson: its category, one sentence with its evidence, and how sure it is (0 to 1).

    `calls` are the numbers of the calls that it was drawn from, counted from 1; `passing` says that the fault
    may be gone tomorrow, so that the lesson should expire.
    """

    category: Category
    content: str
    confidence: float
    reasoning: str
    calls: tuple[int, ...] = ()
    passing: bool = False


@dataclass(frozen=True, slots=True)
class _Lesson:
    category: Category
    confidence: float
    sentence: str
    find: Callable[[Sequence[Step]], Sequence[Step]]
    passing: bool = False


class ExecutionReflector:
    """Finds the surest lesson in a run; nothing below its minimum of calls and of confidence."""

    def __init__(self, min_tool_calls: int = 2, min_confidence: float = 0.6) -> None:
        self.min_tool_calls = min_tool_calls
        self.min_confidence = min_confidence

    def reflect(
        self, query: str, tool_calls: Iterable[ToolCall | Any], outcome: str
    ) -> Reflection | None:
        """Give the lesson of a run, or None if it teaches none.

        `outcome` is "success" or a kind of error; of any other outcome nothing is concluded.
        """
        calls = list(tool_calls)
        if len(calls) < self.min_tool_calls:
            return None
        done = steps(calls)
        lessons = _lessons_for(outcome.casefold())
        found = [(lesson, seen) for lesson in lessons if (seen := lesson.find(done))]
        sure = [(one, seen) for one, seen in found if one.confidence >= self.min_confidence]
        if not sure:
            return None
        lesson, seen = max(sure, key=lambda pair: pair[0].confidence)
        return _reflection(lesson, seen, query, len(calls), outcome)


def _lessons_for(outcome: str) -> Sequence[_Lesson]:
    if outcome in _ERRORS:
        return ERROR_LESSONS
    return SUCCESS_LESSONS if outcome in _SUCCESSES else ()


def _reflection(
    lesson: _Lesson, seen: Sequence[Step], query: str, calls: int, outcome: str
) -> Reflection:
    shown = " → ".join(step.shown for step in seen[:_SHOWN_STEPS])
    numbers = ", ".join(f"call {step.call} {step.shown!r}" for step in seen)
    asked = " ".join(query.split())[:80]
    return Reflection(
        lesson.category,
        f"{lesson.sentence} (seen: {shown})",
        lesson.confidence,
        f"{numbers}, of {calls} calls; outcome {outcome}; asked: {asked!r}",
        tuple(dict.fromkeys(step.call for step in seen)),
        lesson.passing,
    )


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


SUCCESS_LESSONS: tuple[_Lesson, ...] = (
    _Lesson("testing", 0.85, "Write a test first, then the code, then run it", _test_first),
    _Lesson("testing", 0.8, "Run tests after code changes", _write_then_test),
    _Lesson("file_operations", 0.8, "Read a file before changing it", _read_then_write),
    _Lesson("code_navigation", 0.8, "Search for keywords before reading files", _search_then_read),
    _Lesson("file_operations", 0.75, "List directory before reading files", _list_then_read),
    _Lesson("shell_commands", 0.75, "Install dependencies before running", _install_then_run),
    _Lesson("git_operations", 0.75, "Check git status before changing history", _look_then_commit),
    _Lesson("shell_commands", 0.7, "Build before testing or running", _build_then_test),
    _Lesson("testing", 0.7, "Read the tests before running them", _read_test_then_run),
    _Lesson("file_operations", 0.65, "Read related files of a folder together", _related_reads),
    _Lesson("code_navigation", 0.65, "Explore with several different searches", _several_searches),
)


def _blamed(done: Sequence[Step]) -> Step | None:
    """Name the step that failed: the last known to, or the last of all where none is marked."""
    candidates = [step for step in done if step.failed] or done
    return candidates[-1] if candidates else None


def _after(done: Sequence[Step], seen: Sequence[Step], kind: Kind) -> Step | None:
    start = list(done).index(seen[-1]) + 1 if seen else len(done)
    return next((step for step in done[start:] if step.kind is kind), None)


def _failing(
    holds: Callable[[Step], bool], said: str = "", listed: bool | None = None
) -> Callable[[Sequence[Step]], Sequence[Step]]:
    """Find a failing step of a kind, perhaps with words in its output, or after a listing."""

    def find(done: Sequence[Step]) -> Sequence[Step]:
        step = _blamed(done)
        if step is None or not holds(step):
            return ()
        if said and not re.search(said, step.output, re.IGNORECASE):
            return ()
        saw = any(one.kind is Kind.LIST and one.call < step.call for one in done)
        return (step,) if listed is None or saw == listed else ()

    return find


def _reads(step: Step) -> bool:
    return step.kind is Kind.READ


def _runs(step: Step) -> bool:
    return step.is_command or (step.kind is Kind.OTHER and bool(step.output))


_MISSING = r"command not found|No module named|ModuleNotFoundError|Cannot find module"
_LIMITED = r"too many requests|rate.?limit|\b429\b|quota exceeded"
_UNREACHABLE = (
    r"could not resolve host|name resolution|name or service not known|network is unreachable"
    r"|no route to host|connection (?:refused|reset|timed out)|temporary failure in name"
    r"|failed to establish a new connection|\bE(?:NOTFOUND|CONNREFUSED|HOSTUNREACH)\b"
)

PASSING_FAULT = re.compile(f"{_LIMITED}|{_UNREACHABLE}|command not found", re.IGNORECASE)
"""Words of a fault of the environment (network, limits, a missing tool): what is learned of it expires."""

ERROR_LESSONS: tuple[_Lesson, ...] = (
    _Lesson(
        "error_handling",
        0.85,
        "When a server limits the rate, wait before the next request instead of repeating it",
        _failing(lambda _: True, _LIMITED),
        passing=True,
    ),
    _Lesson(
        "error_handling",
        0.85,
        "When the network cannot be reached, do first what needs no network",
        _failing(lambda _: True, _UNREACHABLE),
        passing=True,
    ),
    _Lesson(
        "error_handling",
        0.8,
        "When a module or command is missing, install it and only then repeat the command",
        _failing(_runs, _MISSING),
        passing=True,
    ),
    _Lesson(
        "error_handling",
        0.8,
        "When permission is denied, look at owner and mode instead of repeating the call",
        _failing(lambda _: True, r"permission denied|not permitted|EACCES"),
    ),
    _Lesson(
        "error_handling",
        0.7,
        "When a file cannot be read, list its directory to find the right path",
        _failing(_reads, listed=False),
    ),
    _Lesson(
        "error_handling",
        0.65,
        "When a file cannot be read although its directory was listed, take the path as listed",
        _failing(_reads, listed=True),
    ),
    _Lesson(
        "error_handling",
        0.65,
        "When a command fails, verify the environment (folder, tools, dependencies) first",
        _failing(_runs),
    ),
    _Lesson(
        "error_handling",
        0.6,
        "When a change fails, check its preconditions: that the file is there and as expected",
        _failing(lambda step: step.kind in {Kind.WRITE, Kind.GIT_CHANGE}),
    ),
)


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
