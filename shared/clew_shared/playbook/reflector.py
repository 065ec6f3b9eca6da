"""Draws a lesson from a run of tool calls, with the calls that show it as evidence.

Of the rules that a run triggers, the surest is taken, else the first; one that ended in an error teaches only how to
meet that error.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import PurePosixPath
from typing import Literal

from clew_shared.playbook.steps import Kind, ToolCall, ToolStep, steps

# fmt: off
Category = Literal["file_operations", "code_navigation", "testing", "shell_commands", "git_operations",
                   "error_handling"]
# fmt: on
Trigger = Callable[[Sequence[ToolStep]], Sequence[ToolStep]]
Matcher = Callable[[ToolStep], bool]
Relation = Callable[[ToolStep, ToolStep], bool]
"""Whether a later step (the second argument) belongs to the first one of its pair."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A tip, its confidence (0 to 1), and the trigger that finds it in a run."""

    category: Category
    confidence: float
    trigger: Trigger
    tip: str


_SUCCESSES = frozenset(("success", "completed", "ok"))
_ERRORS = frozenset(("error", "failure", "failed", "timeout"))
_SHOWN_STEPS = 4


@dataclass(frozen=True, slots=True)
class Reflection:
    """A lesson: one sentence with its evidence, its confidence (0 to 1), and the calls, from 1, that show it."""

    category: Category
    content: str
    confidence: float
    reasoning: str
    calls: tuple[int, ...] = ()


class ExecutionReflector:
    """Finds the surest lesson in a run; nothing below its minimum of calls and of confidence."""

    def __init__(self, min_tool_calls: int = 2, min_confidence: float = 0.6) -> None:
        self.min_tool_calls = min_tool_calls
        self.min_confidence = min_confidence

    def reflect(
        self, query: str, tool_calls: Iterable[ToolCall], outcome: str
    ) -> Reflection | None:
        """Return the lesson of a run, or None; an `outcome` but "success" and kinds of errors teaches nothing."""
        calls, kind = list(tool_calls), str(outcome).casefold()
        if len(calls) < self.min_tool_calls:
            return None
        done = steps(calls)
        rules = ERROR_RULES if kind in _ERRORS else SUCCESS_RULES if kind in _SUCCESSES else ()
        for rule in sorted(rules, key=lambda rule: -rule.confidence):
            if rule.confidence >= self.min_confidence and (seen := rule.trigger(done)):
                shown = " → ".join(step.shown for step in seen[:_SHOWN_STEPS])
                numbers = ", ".join(f"call {step.call} {step.shown!r}" for step in seen)
                asked = " ".join(str(query or "").split())[:80]
                why = f"{numbers}, of {len(calls)} calls; outcome {outcome}; asked: {asked!r}"
                numbered = tuple(dict.fromkeys(step.call for step in seen))
                content = f"{rule.tip} (seen: {shown})"
                return Reflection(rule.category, content, rule.confidence, why, numbered)
        return None


# ---- what finds a rule in a run


def of_kind(*kinds: Kind) -> Callable[..., bool]:
    """Return whether a step, or the later one of a pair, is of one of these kinds."""
    return lambda *pair: pair[-1].kind in kinds


def read_inside(first: ToolStep, later: ToolStep) -> bool:
    """Return whether the later step reads what may lie in the listed folder; an unknown path may."""
    folder, path = PurePosixPath(first.target or "."), PurePosixPath(later.target or ".")
    unknown = str(folder) == "." or not later.target or folder.is_absolute() != path.is_absolute()
    return later.kind is Kind.READ and (unknown or path.is_relative_to(folder))


def write_same_path(first: ToolStep, later: ToolStep) -> bool:
    """Return whether the later step writes what may be the same file; an unknown path may."""
    unknown = not first.target or not later.target
    same = unknown or PurePosixPath(first.target) == PurePosixPath(later.target)
    return later.kind is Kind.WRITE and same


def in_order(first: Matcher, then: Relation) -> Trigger:
    """Find a step, and a later one that belongs to it; none of them failed."""

    def find(done: Sequence[ToolStep]) -> Sequence[ToolStep]:
        good = [step for step in done if not step.failed]
        pairs = ((one, later) for one, later in combinations(good, 2) if first(one))
        return next((pair for pair in pairs if then(*pair)), ())

    return find


def related_reads(done: Sequence[ToolStep]) -> Sequence[ToolStep]:
    """Find at least three different files of one folder that were read."""
    folders: dict[PurePosixPath, dict[str, ToolStep]] = {}
    for step in done:
        if step.kind is Kind.READ and step.target and not step.failed:
            folder = PurePosixPath(step.target).parent
            folders.setdefault(folder, {}).setdefault(step.target, step)
    largest = max(folders.values(), key=len, default={})
    return list(largest.values()) if len(largest) >= 3 else ()


def different_searches(done: Sequence[ToolStep]) -> Sequence[ToolStep]:
    """Find at least two searches for different things."""
    found = {step.target: step for step in done if step.kind is Kind.SEARCH and not step.failed}
    return list(found.values()) if len(found) >= 2 else ()


def wrote_test_first(done: Sequence[ToolStep]) -> Sequence[ToolStep]:
    """Find a test that was written before any code, the first code written, and the test run after it."""
    writes = [step for step in done if step.kind is Kind.WRITE and not step.failed]
    code = next((step for step in writes if not step.touches_test), None)
    if not writes or code is None or writes[0] is code or not code.target:
        return ()
    at = next(place for place, step in enumerate(done) if step is code)
    run = next((step for step in done[at + 1 :] if step.kind is Kind.TEST), None)
    return [writes[0], code, run] if run else ()


def blamed(matches: Matcher, output: str = "", *, listed: bool | None = None) -> Trigger:
    """Find the failed step of a run by its kind, a pattern in its output, and whether a list came before it."""
    pattern = re.compile(output, re.IGNORECASE)

    def find(done: Sequence[ToolStep]) -> Sequence[ToolStep]:
        step = _to_blame(done)
        if step is None or not matches(step) or not pattern.search(step.output):
            return ()
        was_listed = any(one.kind is Kind.LIST and one.call < step.call for one in done)
        return (step,) if listed in {None, was_listed} else ()

    return find


def _to_blame(done: Sequence[ToolStep]) -> ToolStep | None:
    """Return the last step that failed and did not succeed later; the last of all where no result is known."""
    if not any(step.is_known for step in done):
        return done[-1] if done else None
    succeeded = set[tuple[str, str]]()
    for step in reversed(done):
        if not step.failed:
            succeeded.add((step.shown, step.target))
        elif (step.shown, step.target) not in succeeded:
            return step
    return None


def _is_command(step: ToolStep) -> bool:
    return step.is_shell or step.kind in {Kind.TEST, Kind.INSTALL, Kind.BUILD, Kind.RUN}


def _refused(step: ToolStep) -> bool:
    return step.kind is Kind.OTHER and not step.is_shell and bool(step.output)


_PROGRAMS = (Kind.RUN, Kind.TEST, Kind.BUILD)
_LIMITED = r"too many requests|rate.?limit|\b429\b|quota exceeded"
_MISSING = r"command not found|No module named|ModuleNotFoundError|Cannot find module"
_UNMATCHED = r"did not appear verbatim|not found in|is not in|no match|not unique|is \d+ times in"

# fmt: off
SUCCESS_RULES: tuple[Rule, ...] = (
    Rule("testing", 0.85, wrote_test_first, "Write a test first, then the code, then run it"),
    Rule("testing", 0.8, in_order(of_kind(Kind.WRITE), of_kind(Kind.TEST)), "Run tests after code changes"),
    Rule("file_operations", 0.8, in_order(of_kind(Kind.READ), write_same_path), "Read a file before changing it"),
    Rule("code_navigation", 0.8, in_order(of_kind(Kind.SEARCH), of_kind(Kind.READ)),
         "Search for keywords before reading files"),
    Rule("file_operations", 0.75, in_order(of_kind(Kind.LIST), read_inside), "List directory before reading files"),
    Rule("shell_commands", 0.75, in_order(of_kind(Kind.INSTALL), of_kind(*_PROGRAMS)),
         "Install dependencies before running"),
    Rule("git_operations", 0.75, in_order(of_kind(Kind.GIT_LOOK), of_kind(Kind.GIT_CHANGE)),
         "Check git status before changing history"),
    Rule("shell_commands", 0.7, in_order(of_kind(Kind.BUILD), of_kind(Kind.TEST, Kind.RUN)),
         "Build before testing or running"),
    Rule("testing", 0.7, in_order(lambda step: step.kind is Kind.READ and step.touches_test, of_kind(Kind.TEST)),
         "Read the tests before running them"),
    Rule("file_operations", 0.65, related_reads, "Read related files of a folder together"),
    Rule("code_navigation", 0.65, different_searches, "Explore with several different searches"),
)

ERROR_RULES: tuple[Rule, ...] = (
    Rule("error_handling", 0.85, blamed(lambda _: True, _LIMITED),
         "When a server limits the rate, wait before the next request instead of repeating it"),
    Rule("error_handling", 0.8, blamed(_is_command, _MISSING),
         "When a module or command is missing, install it and only then repeat the command"),
    Rule("error_handling", 0.8, blamed(lambda _: True, r"permission denied|not permitted|EACCES"),
         "When permission is denied, look at owner and mode instead of repeating the call"),
    Rule("error_handling", 0.78, blamed(of_kind(Kind.WRITE), _UNMATCHED),
         "When the text to replace is missing or not unique, read the file and copy more of it exactly"),
    Rule("error_handling", 0.74, blamed(of_kind(Kind.TEST), r"assert|\d+ failed|\bFAILED\b"),
         "When a test fails, read the failing assertion and change the code before testing again"),
    Rule("error_handling", 0.7, blamed(of_kind(Kind.READ), listed=False),
         "When a file cannot be read, list its directory to find the right path"),
    Rule("error_handling", 0.65, blamed(of_kind(Kind.READ), listed=True),
         "When a file cannot be read although its directory was listed, take the path as listed"),
    Rule("error_handling", 0.65, blamed(_is_command),
         "When a command fails, verify the environment (folder, tools, dependencies) first"),
    Rule("error_handling", 0.6, blamed(of_kind(Kind.WRITE, Kind.GIT_CHANGE)),
         "When a change fails, check its preconditions: that the file is there and as expected"),
    Rule("error_handling", 0.6, blamed(_refused),
         "When a tool refuses a call, correct the argument that its message names"),
)
# fmt: on
