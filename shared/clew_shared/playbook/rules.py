"""The rules of the reflector, one table for runs that succeeded and one for runs that ended in an error.

Each rule has its category, its confidence (0 to 1), the trigger that finds it in a run, and the tip that it teaches.
Of the rules that a run triggers, the surest is taken; among equals, the first.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal

from clew_shared.playbook.steps import Kind, ToolStep

Trigger = Callable[[Sequence[ToolStep]], Sequence[ToolStep]]
Matcher = Callable[[ToolStep], bool]
Relation = Callable[[ToolStep, ToolStep], bool]
"""Whether a later step (the second argument) belongs to the first one of its sequence."""


def of_kind(*kinds: Kind) -> Matcher:
    return lambda step: step.kind in kinds


def then_kind(*kinds: Kind) -> Relation:
    return lambda _, later: later.kind in kinds


def same_target(kind: Kind) -> Relation:
    return lambda first, later: later.kind is kind and later.target == first.target


def other_target(kind: Kind) -> Relation:
    return lambda first, later: later.kind is kind and later.target != first.target


def repeated(first: ToolStep, later: ToolStep) -> bool:
    return later.shown == first.shown


def same_test(first: ToolStep, later: ToolStep) -> bool:
    return later.kind is Kind.TEST and (later.shown == first.shown or not later.target)


def same_tool(first: ToolStep, later: ToolStep) -> bool:
    return later.tool == first.tool


def other_tool(first: ToolStep, later: ToolStep) -> bool:
    return later.tool != first.tool


def read_inside(first: ToolStep, later: ToolStep) -> bool:
    """Return whether the later step reads what may lie in the listed folder; an unknown path may."""
    if later.kind is not Kind.READ:
        return False
    folder, path = PurePosixPath(first.target or "."), PurePosixPath(later.target or ".")
    is_unknown = (
        str(folder) == "." or not later.target or folder.is_absolute() != path.is_absolute()
    )
    return is_unknown or path.is_relative_to(folder)


def write_same_path(first: ToolStep, later: ToolStep) -> bool:
    """Return whether the later step writes what may be the same file; an unknown path may."""
    if later.kind is not Kind.WRITE:
        return False
    is_unknown = not first.target or not later.target
    return is_unknown or PurePosixPath(first.target) == PurePosixPath(later.target)


def in_order(first: Matcher, *relations: Relation, failing: bool = False) -> Trigger:
    """Find a first step (a failed one if `failing`), the steps on the way, and the one that completes them.

    Of several steps on the way between the first and the last one, the latest counts.
    """
    *between, last = relations

    def find(done: Sequence[ToolStep]) -> Sequence[ToolStep]:
        for at, step in enumerate(done):
            if step.failed is not failing or not first(step):
                continue
            found: dict[int, ToolStep] = {}
            for later in done[at + 1 :]:
                if later.failed:
                    continue
                if len(found) == len(between) and last(step, later):
                    return [step, *found.values(), later]
                found |= {n: later for n, fits in enumerate(between) if fits(step, later)}
        return ()

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
    writes = [step for step in done if step.kind is Kind.WRITE]
    code = next((step for step in writes if not step.touches_test), None)
    if code is None or code.failed or not code.target:
        return ()
    at = next(place for place, step in enumerate(done) if step is code)
    test = next((one for one in writes if one.touches_test and not one.failed), None)
    run = next((step for step in done[at + 1 :] if step.kind is Kind.TEST), None)
    if test is None or run is None or not any(step is test for step in done[:at]):
        return ()
    return [test, code, run]


def blamed(matches: Matcher, output: str = "", *, listed: bool | None = None) -> Trigger:
    """Find the failed step of a run that ended in an error, by its kind and by a pattern in its output.

    `listed` asks whether anything was listed before it.
    """
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


Category = Literal[
    "file_operations",
    "code_navigation",
    "testing",
    "shell_commands",
    "git_operations",
    "error_handling",
]


@dataclass(frozen=True, slots=True)
class Rule:
    """A lesson and its trigger; see `Reflection` for `passing`."""

    category: Category
    confidence: float
    trigger: Trigger
    tip: str
    passing: bool = False


def _any(_: ToolStep) -> bool:
    return True


def _is_command(step: ToolStep) -> bool:
    return step.is_command or step.is_shell


def _is_other_tool(step: ToolStep) -> bool:
    return step.kind is Kind.OTHER and not step.is_shell


def _answered(step: ToolStep) -> bool:
    return _is_other_tool(step) and bool(step.output)


def _is_shell(step: ToolStep) -> bool:
    return step.is_shell


def _is_test_file(kind: Kind) -> Matcher:
    return lambda step: step.kind is kind and step.touches_test


_LIMITED = r"too many requests|rate.?limit|\b429\b|quota exceeded"
_UNREACHABLE = (
    r"could not resolve host|name resolution|name or service not known|network is unreachable"
    r"|no route to host|connection (?:refused|reset|timed out)|temporary failure in name"
    r"|failed to establish a new connection|\bE(?:NOTFOUND|CONNREFUSED|HOSTUNREACH)\b"
)
_UNMATCHED = (
    r"did not appear verbatim|not found in|is not in|no match|not unique|multiple occurrences"
    r"|is \d+ times in|old_str|No replacement was performed"
)
_MISSING = r"command not found|No module named|ModuleNotFoundError|Cannot find module"
_REFUSED = r"\b40[13] (?:unauthori[sz]ed|forbidden)|invalid api key|authentication failed"
_NO_PACKAGE = r"unable to locate package|no matching distribution|404 not found|no candidate"
_NO_PATH = r"No such file or directory|FileNotFoundError|cannot (?:access|stat|open)"
_NO_OPTION = r"unrecognized arguments|(?:unknown|invalid|unrecognized) option|no such option"

PASSING_FAULT = re.compile(f"{_LIMITED}|{_UNREACHABLE}|command not found", re.IGNORECASE)
"""The words of a fault of the environment (network, limits, a missing tool): a lesson about it expires."""

# fmt: off
SUCCESS_RULES: tuple[Rule, ...] = (
    # a failure that was overcome: the step that failed, what fixed it, what then succeeded
    Rule("shell_commands", 0.9, in_order(_is_shell, then_kind(Kind.INSTALL), repeated, failing=True),
         "When a command lacks a dependency, install it and repeat the same command"),
    Rule("file_operations", 0.9,
         in_order(of_kind(Kind.WRITE), same_target(Kind.READ), same_target(Kind.WRITE), failing=True),
         "When an edit fails, read the file again before the next edit"),
    Rule("testing", 0.87, in_order(of_kind(Kind.TEST), then_kind(Kind.WRITE), same_test, failing=True),
         "When a test fails, change the code and run the test again"),
    Rule("code_navigation", 0.85,
         in_order(of_kind(Kind.READ), then_kind(Kind.LIST, Kind.SEARCH), other_target(Kind.READ), failing=True),
         "When a file is not where it was looked for, list or search for it before reading"),
    Rule("error_handling", 0.8, in_order(of_kind(Kind.RUN, Kind.BUILD), then_kind(Kind.WRITE), repeated, failing=True),
         "When a program fails, fix the cause and run the same command again to see that it is gone"),
    Rule("error_handling", 0.7, in_order(_is_other_tool, other_tool, same_tool, failing=True),
         "When a tool refuses a call, change what its message names before calling it again"),
    # habits
    Rule("testing", 0.85, wrote_test_first,
         "Write a test first, then the code, then run it"),
    Rule("testing", 0.8, in_order(of_kind(Kind.WRITE), then_kind(Kind.TEST)),
         "Run tests after code changes"),
    Rule("file_operations", 0.8, in_order(of_kind(Kind.READ), write_same_path),
         "Read a file before changing it"),
    Rule("code_navigation", 0.8, in_order(of_kind(Kind.SEARCH), then_kind(Kind.READ)),
         "Search for keywords before reading files"),
    Rule("file_operations", 0.75, in_order(of_kind(Kind.LIST), read_inside),
         "List directory before reading files"),
    Rule("shell_commands", 0.75, in_order(of_kind(Kind.INSTALL), then_kind(Kind.RUN, Kind.TEST, Kind.BUILD)),
         "Install dependencies before running"),
    Rule("git_operations", 0.75, in_order(of_kind(Kind.GIT_LOOK), then_kind(Kind.GIT_CHANGE)),
         "Check git status before changing history"),
    Rule("shell_commands", 0.7, in_order(of_kind(Kind.BUILD), then_kind(Kind.TEST, Kind.RUN)),
         "Build before testing or running"),
    Rule("testing", 0.7, in_order(_is_test_file(Kind.READ), then_kind(Kind.TEST)),
         "Read the tests before running them"),
    Rule("file_operations", 0.65, related_reads,
         "Read related files of a folder together"),
    Rule("code_navigation", 0.65, different_searches,
         "Explore with several different searches"),
)

ERROR_RULES: tuple[Rule, ...] = (
    Rule("error_handling", 0.85, blamed(_any, _LIMITED),
         "When a server limits the rate, wait before the next request instead of repeating it", passing=True),
    Rule("error_handling", 0.85, blamed(_any, _UNREACHABLE),
         "When the network cannot be reached, do first what needs no network", passing=True),
    Rule("error_handling", 0.8, blamed(_is_command, _MISSING),
         "When a module or command is missing, install it and only then repeat the command", passing=True),
    Rule("error_handling", 0.8, blamed(_any, r"permission denied|not permitted|EACCES"),
         "When permission is denied, look at owner and mode instead of repeating the call"),
    Rule("error_handling", 0.8, blamed(_any, _REFUSED),
         "When a server refuses access, fix the credentials instead of trying other requests", passing=True),
    Rule("error_handling", 0.8, blamed(_any, r"(?:unknown|no such) tool|tool \S+ not found"),
         "When a tool does not exist, use one that is offered"),
    Rule("error_handling", 0.78, blamed(of_kind(Kind.INSTALL), _NO_PACKAGE),
         "When a package cannot be found, update the index and look up its exact name"),
    Rule("error_handling", 0.78, blamed(of_kind(Kind.WRITE), _UNMATCHED),
         "When the text to replace is missing or not unique, read the file and copy more of it exactly"),
    Rule("error_handling", 0.78,
         blamed(of_kind(Kind.WRITE), r"syntax error|IndentationError|\bE999\b|unexpected indent"),
         "When an edit is refused for its syntax, compare its indentation with the lines around it"),
    Rule("error_handling", 0.76, blamed(_is_command, r"SyntaxError|IndentationError|Unexpected token"),
         "When code does not parse, fix the line that the error names before running it"),
    Rule("error_handling", 0.75, blamed(_is_command, r"\bImportError"),
         "When an import fails, make sure that the name exists and the package is found from this folder"),
    Rule("error_handling", 0.74, blamed(of_kind(Kind.TEST), r"assert|\d+ failed|\bFAILED\b"),
         "When a test fails, read the failing assertion and change the code before testing again"),
    Rule("error_handling", 0.73, blamed(_is_command, _NO_OPTION),
         "When an option is unknown, read the help of the command"),
    Rule("error_handling", 0.72, blamed(_is_command, r"timed out|time limit|timeout expired"),
         "When a command takes too long, run a smaller part of it"),
    Rule("error_handling", 0.71, blamed(_is_command, _NO_PATH),
         "When a command names a path that is missing, list the folder and correct the path"),
    Rule("error_handling", 0.7, blamed(of_kind(Kind.READ), listed=False),
         "When a file cannot be read, list its directory to find the right path"),
    Rule("error_handling", 0.65, blamed(of_kind(Kind.READ), listed=True),
         "When a file cannot be read although its directory was listed, take the path as listed"),
    Rule("error_handling", 0.65, blamed(_is_command),
         "When a command fails, verify the environment (folder, tools, dependencies) first"),
    Rule("error_handling", 0.6, blamed(of_kind(Kind.WRITE, Kind.GIT_CHANGE)),
         "When a change fails, check its preconditions: that the file is there and as expected"),
    Rule("error_handling", 0.6, blamed(_answered),
         "When a tool refuses a call, correct the argument that its message names"),
)
# fmt: on
