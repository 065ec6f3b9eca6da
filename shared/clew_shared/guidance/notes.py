"""What the results of checks say, as they stand in a conversation. Pure."""

import posixpath
import re
from collections.abc import Iterable, Sequence

from clew_shared.judge.reading import outcome_of
from clew_shared.text.shell_tests import SILENT, said_why
from clew_shared.text.shorten import in_one_line, without_middle
from clew_shared.wire.answers import FailingCheck, Finished
from clew_shared.wire.hello import Entry, Said

CODE_CHARS = 120
LINE_CHARS = 320  # the longest line of a failure that is said again
CHECK_OUTPUT_CHARS = 1_500
NOT_THERE = " does not exist"
NOT_YET = "The goal is not reached yet."  # begins the note of an agent that had the checks run after a change
AS_BEFORE = "It fails as before your change."
"""Follows it where the checks fail with the same last line as before: small models do the same again unless told."""

_IN_LIBRARY = r"(?:<frozen |[^\"\n]*?(?:/lib(?:64)?/python\d|/(?:site|dist)-packages/))[^\"\n]*"
_FRAME = re.compile(
    rf'^( *)File "(?!{_IN_LIBRARY}")([^"\n]*)", line (\d+).*\n((?:\1 +.*\n)*)', re.MULTILINE
)
_FILE = re.compile(r"(?:^|[\s<>])([\w/-]+\.[a-z]\w{0,4})(?=[\s);&|]|$)", re.IGNORECASE)
_ELSEWHERE = re.compile(r"\bcd |-c\b")  # names in another folder, or of another language
# ENOENT, as programs in C, shells and Python say it.
_MISSING = re.compile(
    r"([^\s':]+)'?: (?:\[Errno 2\] )?No such file|No such file or directory: '([^'\n]+)'"
)
_FROM_ITSELF = re.compile(
    r"cannot import name '(\w+)' from partially initialized module '([\w.]+)'"
)
_ERROR = re.compile(r"[A-Za-z_][\w.]*(Error|Exception|Exit|Interrupt|Warning)\b.*")


def located_error(text: str) -> str:
    """Return the error at the end of a text with the last line of code that led to it, "" for no error of Python.

    As in: a.py line 1, `def main()`: SyntaxError: expected ':'. Told the error alone, small models change another line.
    """
    error = _last_line(text)
    frames = [frame for frame in _FRAME.finditer(text) if frame[4].strip()]
    if not frames or not _ERROR.fullmatch(error):
        return ""
    _, file, line, code = frames[-1].groups()
    shown = in_one_line(code.strip().splitlines()[0], CODE_CHARS)
    found = _FROM_ITSELF.search(error)
    if found and posixpath.basename(file) == f"{found[2].rpartition('.')[2]}.py":
        error = f"{file} imports {found[1]} from itself instead of defining it"
    return f"{file} line {line}, `{shown}`: {error}"


class CheckNotes:
    """Puts failing checks into words for one conversation; the same failure again with its end only."""

    def __init__(self) -> None:
        self._failing = ""
        self._ends: tuple[str, ...] = ()

    def unfinished(self, finished: Finished, workspace: str) -> str:
        """Return the answer to a request to finish that is not accepted: what fails, is refused, or is still open."""
        if not finished.failing_checks:
            left = ["this is still open:", *(f"- {name}" for name in finished.open_subtasks[:10])]
            return "Not finished: " + (finished.message or "\n".join(left))
        before, shown = self._failing, self._shown(finished.failing_checks, workspace)
        why = ", the goal is not reached yet."
        if self._failing == before:
            why = ": nothing is better than before. Do something else."
        return f"Not finished{why}\n{shown}\n{finished.message}".rstrip()

    def unasked(self, checks: Sequence[FailingCheck], workspace: str) -> str:
        """Return the note on checks that ran without being asked for, and fail."""
        before, shown = self._ends, self._shown(checks, workspace)
        as_before = f" {AS_BEFORE}" if self._ends == before else ""
        return f"{NOT_YET}{as_before}\n{shown}"

    def _shown(self, checks: Sequence[FailingCheck], workspace: str) -> str:
        """Show what checks ran and printed, with paths as the model is to give them: relative to the workspace."""
        shown = "\n".join(map(_check_text, checks))
        self._ends = tuple(map(_in_short, checks))
        before, self._failing = self._failing, outcome_of("failure", shown)
        if self._failing == before:
            shown = "\n".join(self._ends)
        folder = workspace.rstrip("/")
        return shown.replace(f"{folder}/", "") if folder else shown


def absent(checks: Iterable[str], there: Sequence[str]) -> tuple[str, ...]:
    """Return the files that checks name and that are not among the paths in a workspace; () where nothing is known."""
    names = {posixpath.basename(path) for path in there}
    plain = (check for check in checks if not _ELSEWHERE.search(check))
    found = dict.fromkeys(name for check in plain for name in _FILE.findall(check))
    return tuple(name for name in found if names and posixpath.basename(name) not in names)


def failure_text(entry: Entry) -> str:
    """Return what checks found: after a change, or at a `finish` that was not accepted; "" for another entry."""
    if isinstance(entry, Said):
        return entry.text if entry.text.startswith(NOT_YET) else ""
    return entry.output if entry.name == "finish" else ""


def same_failure(note: Entry) -> str:
    """Return the last line of the failure that a note says is as before, "" for another note."""
    as_before = isinstance(note, Said) and note.text.startswith(f"{NOT_YET} {AS_BEFORE}")
    return _last_line(failure_text(note)) if as_before else ""


def last_failure(note: Entry) -> str:
    """Return the failure that a note of checks ends with, in a line; "" where it is none that is understood."""
    text = failure_text(note)
    return located_error(text) or (_last_line(text) if SILENT in text else _missing_file(text))


def _missing_file(text: str) -> str:
    missing = _MISSING.search(_last_line(text))
    return f"{missing[1] or missing[2]}{NOT_THERE}" if missing else ""


def _last_line(text: str) -> str:
    return without_middle(text.rstrip().rpartition("\n")[2], LINE_CHARS)


def _check_text(check: FailingCheck) -> str:
    end = "" if check.exit_code is None else f" with exit code {check.exit_code}"
    output = without_middle(check.output.strip(), CHECK_OUTPUT_CHARS)
    return f"Check failed{end}: {check.cmd or check.name}\n{output or '(no output)'}"


def _in_short(check: FailingCheck) -> str:
    output = check.output
    why = without_middle(said_why(output), LINE_CHARS) if output.startswith(SILENT) else ""
    end = why or _last_line(output)
    return located_error(output) or f"`{check.cmd}`: {end or '(no output)'}"
