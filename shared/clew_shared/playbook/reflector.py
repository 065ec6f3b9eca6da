"""Draws a lesson from a run of tool calls, with the calls that show it as evidence.

Of the rules that a run triggers, the surest is taken, else the first; one that ended in an error teaches only how to
meet that error.
"""

import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import combinations
from pathlib import PurePosixPath
from typing import Any

from clew_shared.text.shorten import in_one_line


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call as it was made, with its `result` where the caller knows it."""

    name: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    result: str = ""


Kind = Enum("Kind", "LIST READ WRITE SEARCH TEST INSTALL BUILD RUN GIT_LOOK GIT_CHANGE OTHER")
"""What a step does."""


@dataclass(frozen=True, slots=True)
class ToolStep:
    """One step of a call, which has a number from 1; `is_shell`: it is a command line."""

    kind: Kind
    target: str
    shown: str
    number: int
    call: ToolCall
    is_shell: bool

    @property
    def failed(self) -> bool:
        return self.call.result.casefold() in _FAILED

    @property
    def touches_test(self) -> bool:
        return _is_test(self.target)


_TEST_NAME = re.compile(r"(^|[_.-])(tests?|spec)([_.-]|$)")


def _is_test(path: str) -> bool:
    where = PurePosixPath(path)
    return bool(_TEST_NAME.search(where.name) or {"tests", "test"} & {*where.parts[:-1]})


_TOOLS = {
    Kind.RUN: "run_cmd run_command bash shell sh terminal execute execute_command execute_bash run_shell"
    " run_shell_command exec run command",
    Kind.LIST: "list_files list_directory list_dir ls glob tree find_files",
    Kind.READ: "read_file read view_file view open_file cat read_files open",
    Kind.WRITE: "write_file edit_file create_file create write edit apply_patch patch str_replace insert multi_edit",
    Kind.SEARCH: "search search_dir search_file find_file search_code grep grep_search rg search_files find",
    Kind.TEST: "run_tests test pytest",
    Kind.INSTALL: "install_package install_dependencies install",
    Kind.BUILD: "build compile",
    Kind.GIT_LOOK: "git_status git_diff git_log git_show",
    Kind.GIT_CHANGE: "git_commit git_add git_push git_merge git_checkout",
}
"""The names of tools; those of `RUN` are shells."""

_COMMANDS = {
    Kind.INSTALL: "pip install, uv sync, uv add, poetry install, npm install, npm ci, pnpm install, yarn add,"
    " apt install, apt-get install, brew install, bundle install, gem install, cargo add, go get, make install",
    Kind.TEST: "pytest, unittest, tox, nox, npm test, npm run test, pnpm test, yarn test, jest, npx jest, vitest,"
    " cargo test, go test, mvn test, gradle test, dotnet test, make test, make check, rake test, ctest, rspec",
    Kind.BUILD: "build, make, cmake, ninja, npm run build, pnpm build, yarn build, cargo build, go build,"
    " gradle build, dotnet build, docker build, mvn package, tsc, gcc, g++, clang, javac",
    Kind.RUN: "python, node, deno, ruby, perl, java, php, bash, sh, npm start, npm run, cargo run, go run, uv run",
    Kind.GIT_LOOK: "git status, git diff, git log, git show",
    Kind.GIT_CHANGE: "git commit, git add, git push, git pull, git merge, git rebase, git reset, git checkout",
    Kind.LIST: "ls, tree, find, fd",
    Kind.SEARCH: "grep, rg, ag, git grep",
    Kind.READ: "cat, head, tail, less",
}
"""The first words of commands, without flags, versions and `python -m`; the longest match wins."""

_KIND_OF_TOOL = {name: kind for kind, names in _TOOLS.items() for name in names.split()}
_KIND_OF_COMMAND = {
    words: kind for kind, listed in _COMMANDS.items() for words in re.split(", *", listed.strip())
}
_LONGEST_PREFIX = 3
_SEPARATOR = re.compile(r"&&|\|\||;|\n")
_PREFIX = re.compile(r"^(sudo |time |env |[A-Z_][A-Z0-9_]*=\S* )+")
_VERSION = re.compile(r"[\d.]+$")
_WRITTEN = re.compile(r"(?:(?:cat|echo|printf)\b.*?>>?|tee(?: -a)?|sed -i.*) *(?P<target>[^\s>]+)$")
_PATH = re.compile(r"[\w.~/+-]*[./][\w.~/+-]*")
_EDITORS = ("str_replace_editor", "str_replace_based_edit_tool", "text_editor")
_SHOWN_CHARS = 60
_PATH_NAMES = ("path", "file_path", "filename", "file", "directory", "dir", "folder")
_COMMAND_NAMES = ("cmd", "command", "script", "code")
_SEARCH_NAMES = ("pattern", "query", "regex", "keyword", "text", "symbol")
_FAILED = frozenset(("failure", "error", "timeout", "interrupted", "failed"))


def steps(tool_calls: Iterable[ToolCall]) -> list[ToolStep]:
    """Return the steps of the calls in order; a shell command with several parts is several steps."""
    found = []
    for number, call in enumerate(tool_calls, start=1):
        tool = _KIND_OF_TOOL.get(call.name.casefold(), Kind.OTHER)
        line = _parameter(call, _COMMAND_NAMES)
        if call.name.casefold() in _EDITORS:
            verb, _, line = line.partition(" ")
            tool = Kind.READ if verb == "view" else Kind.WRITE
        elif tool is Kind.OTHER and set(call.parameters) == {"cmd"}:  # it is itself a program
            tool, line = Kind.RUN, f"{call.name} {line}"
        is_shell = tool is Kind.RUN
        if is_shell:
            parts = [(*_command_kind(part), part) for part in _commands(line)]
        else:
            target = _parameter(call, _SEARCH_NAMES if tool is Kind.SEARCH else _PATH_NAMES)
            target = target or (line if tool is Kind.SEARCH else _path_in(line))
            parts = [(tool, target, f"{call.name} {target}")]
        for kind, target, text in parts:
            shown = in_one_line(text, _SHOWN_CHARS)
            found.append(ToolStep(kind, target, shown, number, call, is_shell))
    return found


def _commands(line: str) -> list[str]:
    plain = line.partition("<<")[0]  # a here-document follows
    parts = [_PREFIX.sub("", part.strip()) for part in _SEPARATOR.split(plain)]
    return [part for part in parts if part and not part.startswith(("cd ", "#"))]


def _path_in(text: str) -> str:
    """Return the path that a command starts with, or "" where it starts with something else."""
    first = next(iter(text.split()), "").strip("'\"")
    return first if _PATH.fullmatch(first) else ""


def _parameter(call: ToolCall, names: Iterable[str]) -> str:
    value = next((call.parameters[name] for name in names if call.parameters.get(name)), "")
    return shlex.join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def _command_kind(part: str) -> tuple[Kind, str]:
    """Return the kind and the target of one simple command."""
    if written := _WRITTEN.match(part):
        return Kind.WRITE, written["target"]
    program, *rest = part.split()
    words = [_VERSION.sub("", PurePosixPath(program).name), *rest]
    is_module = words[0] == "python" and words[1:2] == ["-m"]
    plain = [word for word in (words[2:] if is_module else words) if not word.startswith("-")]
    for length in range(min(_LONGEST_PREFIX, len(plain)), 0, -1):
        kind = _KIND_OF_COMMAND.get(" ".join(plain[:length]))
        if kind is None:
            continue
        target = plain[-1] if len(plain) > length else ""
        if kind is Kind.SEARCH:
            target = " ".join(word.strip("'\"").rstrip("/") for word in plain[length:])
        tests = kind is Kind.RUN and _is_test(target)
        return (Kind.TEST if tests else kind), target
    return (Kind.RUN if is_module or program.startswith("./") else Kind.OTHER), ""


Trigger = Callable[[Sequence[ToolStep]], Sequence[ToolStep]]
"""Finds the steps of a run that a rule is about, none where it is not about the run."""
Matcher = Callable[[ToolStep], bool]


@dataclass(frozen=True, slots=True)
class Rule:
    """A tip, its confidence (0 to 1), and the trigger that finds it in a run."""

    category: str
    confidence: float
    trigger: Trigger
    tip: str


_SHOWN_STEPS = 4


@dataclass(frozen=True, slots=True)
class Reflection:
    """A lesson: one sentence with its evidence, its confidence (0 to 1), and the calls, from 1, that show it."""

    category: str
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
        calls = list(tool_calls)
        if len(calls) < self.min_tool_calls:
            return None
        done = steps(calls)
        for rule in sorted(_rules(str(outcome).casefold()), key=lambda rule: -rule.confidence):
            if rule.confidence >= self.min_confidence and (seen := rule.trigger(done)):
                shown = " → ".join(step.shown for step in seen[:_SHOWN_STEPS])
                numbers = ", ".join(f"call {step.number} {step.shown!r}" for step in seen)
                asked = " ".join(str(query or "").split())[:80]
                why = f"{numbers}, of {len(calls)} calls; outcome {outcome}; asked: {asked!r}"
                numbered = tuple(dict.fromkeys(step.number for step in seen))
                content = f"{rule.tip} (seen: {shown})"
                return Reflection(rule.category, content, rule.confidence, why, numbered)
        return None


def _rules(outcome: str) -> Sequence[Rule]:
    if outcome in ("error", "failure", "failed", "timeout"):
        return ERROR_RULES
    return SUCCESS_RULES if outcome in ("success", "completed", "ok") else ()


# ---- what finds a rule in a run


def of_kind(*kinds: Kind) -> Callable[..., bool]:
    """Return what tells whether a step, or the later one of a pair, is of one of these kinds."""
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


def in_order(first: Matcher, then: Callable[[ToolStep, ToolStep], bool]) -> Trigger:
    """Find a step, and a later one that belongs to it by what `then` says of both; none of them failed."""

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
    if code is None or writes[0] is code or not code.target:
        return ()
    run = next((s for s in done[done.index(code) + 1 :] if s.kind is Kind.TEST), None)
    return [writes[0], code, run] if run else ()


def blamed(matches: Matcher) -> Trigger:
    """Find the failed step that a run is blamed on, if it matches."""

    def find(done: Sequence[ToolStep]) -> Sequence[ToolStep]:
        step = _to_blame(done)
        return (step,) if step and matches(step) else ()

    return find


def _to_blame(done: Sequence[ToolStep]) -> ToolStep | None:
    """Return the last step that failed and did not succeed later; the last of all where no result is known."""
    known = any(step.call.result for step in done)
    last = {(step.shown, step.target): step for step in done}
    ended = (step for step in reversed(done) if step is last[step.shown, step.target])
    return next((step for step in ended if step.failed or not known), None)


def _is_command(step: ToolStep) -> bool:
    return step.is_shell or step.kind in (Kind.TEST, Kind.INSTALL, Kind.BUILD)


# fmt: off
SUCCESS_RULES: tuple[Rule, ...] = (
    Rule("testing", 0.85, wrote_test_first, "Write a test first, then the code, then run it"),
    Rule("testing", 0.8, in_order(of_kind(Kind.WRITE), of_kind(Kind.TEST)), "Run tests after code changes"),
    Rule("file_operations", 0.8, in_order(of_kind(Kind.READ), write_same_path), "Read a file before changing it"),
    Rule("code_navigation", 0.8, in_order(of_kind(Kind.SEARCH), of_kind(Kind.READ)),
         "Search for keywords before reading files"),
    Rule("file_operations", 0.75, in_order(of_kind(Kind.LIST), read_inside), "List directory before reading files"),
    Rule("shell_commands", 0.75, in_order(of_kind(Kind.INSTALL), of_kind(Kind.RUN, Kind.TEST, Kind.BUILD)),
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
    Rule("error_handling", 0.7, blamed(of_kind(Kind.READ)),
         "When a file cannot be read, list its directory to find the right path"),
    Rule("error_handling", 0.65, blamed(_is_command),
         "When a command fails, verify the environment (folder, tools, dependencies) first"),
    Rule("error_handling", 0.6, blamed(of_kind(Kind.WRITE, Kind.GIT_CHANGE)),
         "When a change fails, check its preconditions: that the file is there and as expected"),
)
# fmt: on
