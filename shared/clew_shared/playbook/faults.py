"""What a run that ended in an error teaches: how to meet that error, by what failed and what it said.

The step that is blamed is one that is known to have failed and was not made good later; only where no
result is known at all it is the last. Nothing here is drawn from what went well.
"""

import re
from collections.abc import Callable, Sequence

from clew_shared.playbook.patterns import Finder, Pattern
from clew_shared.playbook.steps import Kind, Step


def _blamed(done: Sequence[Step]) -> Step | None:
    if not any(step.is_known for step in done):
        return done[-1] if done else None
    good = {(step.shown, step.target): at for at, step in enumerate(done) if not step.failed}
    for at in range(len(done) - 1, -1, -1):
        step = done[at]
        if step.failed and good.get((step.shown, step.target), -1) < at:
            return step
    return None


def _failing(holds: Callable[[Step], bool], said: str = "", listed: bool | None = None) -> Finder:
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


def _any(_: Step) -> bool:
    return True


def _reads(step: Step) -> bool:
    return step.kind is Kind.READ


def _writes(step: Step) -> bool:
    return step.kind is Kind.WRITE


def _changes(step: Step) -> bool:
    return step.kind in {Kind.WRITE, Kind.GIT_CHANGE}


def _tests(step: Step) -> bool:
    return step.kind is Kind.TEST


def _runs(step: Step) -> bool:
    return step.is_command or step.is_shell


def _answers(step: Step) -> bool:
    return step.kind is Kind.OTHER and not step.is_shell and bool(step.output)


_MISSING = r"command not found|No module named|ModuleNotFoundError|Cannot find module"
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

PASSING_FAULT = re.compile(f"{_LIMITED}|{_UNREACHABLE}|command not found", re.IGNORECASE)
"""Words of a fault of the environment (network, limits, a missing tool): what is learned of it expires."""


def _fault(
    confidence: float,
    sentence: str,
    holds: Callable[[Step], bool],
    said: str = "",
    *,
    listed: bool | None = None,
    passing: bool = False,
) -> Pattern:
    find = _failing(holds, said, listed)
    return Pattern("error_handling", confidence, sentence, find, passing)


FAULTS: tuple[Pattern, ...] = (
    _fault(
        0.85,
        "When a server limits the rate, wait before the next request instead of repeating it",
        _any,
        _LIMITED,
        passing=True,
    ),
    _fault(
        0.85,
        "When the network cannot be reached, do first what needs no network",
        _any,
        _UNREACHABLE,
        passing=True,
    ),
    _fault(
        0.8,
        "When a module or command is missing, install it and only then repeat the command",
        _runs,
        _MISSING,
        passing=True,
    ),
    _fault(
        0.8,
        "When permission is denied, look at owner and mode instead of repeating the call",
        _any,
        r"permission denied|not permitted|EACCES",
    ),
    _fault(
        0.8,
        "When a server refuses access, fix the credentials instead of trying other requests",
        _any,
        r"\b40[13] (?:unauthori[sz]ed|forbidden)|invalid api key|authentication failed",
        passing=True,
    ),
    _fault(
        0.8,
        "When a tool does not exist, use one that is offered",
        _any,
        r"(?:unknown|no such) tool|tool \S+ not found",
    ),
    _fault(
        0.78,
        "When a package cannot be found, update the index and look up its exact name",
        lambda step: step.kind is Kind.INSTALL,
        r"unable to locate package|no matching distribution|404 not found|no candidate",
    ),
    _fault(
        0.78,
        "When the text to replace is missing or not unique, read the file and copy more of it exactly",
        _writes,
        _UNMATCHED,
    ),
    _fault(
        0.78,
        "When an edit is refused for its syntax, compare its indentation with the lines around it",
        _writes,
        r"syntax error|IndentationError|\bE999\b|unexpected indent",
    ),
    _fault(
        0.76,
        "When code does not parse, fix the line that the error names before running it",
        _runs,
        r"SyntaxError|IndentationError|Unexpected token",
    ),
    _fault(
        0.75,
        "When an import fails, make sure that the name exists and the package is found from this folder",
        _runs,
        r"\bImportError",
    ),
    _fault(
        0.74,
        "When a test fails, read the failing assertion and change the code before testing again",
        _tests,
        r"assert|\d+ failed|\bFAILED\b",
    ),
    _fault(
        0.73,
        "When an option is unknown, read the help of the command",
        _runs,
        r"unrecognized arguments|(?:unknown|invalid|unrecognized) option|no such option",
    ),
    _fault(
        0.72,
        "When a command takes too long, run a smaller part of it",
        _runs,
        r"timed out|time limit|timeout expired",
    ),
    _fault(
        0.71,
        "When a command names a path that is missing, list the folder and correct the path",
        _runs,
        r"No such file or directory|FileNotFoundError|cannot (?:access|stat|open)",
    ),
    _fault(
        0.7,
        "When a file cannot be read, list its directory to find the right path",
        _reads,
        listed=False,
    ),
    _fault(
        0.65,
        "When a file cannot be read although its directory was listed, take the path as listed",
        _reads,
        listed=True,
    ),
    _fault(
        0.65,
        "When a command fails, verify the environment (folder, tools, dependencies) first",
        _runs,
    ),
    _fault(
        0.6,
        "When a change fails, check its preconditions: that the file is there and as expected",
        _changes,
    ),
    _fault(
        0.6,
        "When a tool refuses a call, correct the argument that its message names",
        _answers,
    ),
)
