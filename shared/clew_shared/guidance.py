"""What a model is asked to do next, at the end of its prompt, and what it is told of its checks. Pure text.

With guidance a request goes by the facts of the conversation: which files are there, what the last call brought, and
what the checks found. It goes by no word of the goal, so it is the same for a goal in any language. Without, it only
asks for the next call. `[context] guidance`, or the profile of a model, chooses.
"""

import posixpath
import re
from collections.abc import Iterable, Sequence

from clew_shared.judge.reading import outcome_of
from clew_shared.text.shorten import in_one_line, without_middle
from clew_shared.text.words import GOT, SILENT, said_why
from clew_shared.tools import NO_EDIT, NO_LONGER, WRITE_ONLY_TOOLS
from clew_shared.wire.answers import FailingCheck, Finished
from clew_shared.wire.hello import Call, Entry, HelloAnswer, Said

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


# ---- the request for the next call

NAME_CHARS = 160
NAMED_SHOWN = 3
WRONG = "Now change what is wrong"
STEP = "Take the next step towards the goal."
_LOOKS = frozenset({"read_file", "list_files", "search", "recall"})
"""After a mere look small models that are asked whether the goal is done say yes."""

_NO_WORDS = re.compile(r"[\"'$()`;&|]+")
_FENCED = re.compile(r"\s*```[^\n]*\n.*```\s*", re.DOTALL)


def request(hello: HelloAnswer, *, implicit: bool, plans: bool) -> str:
    """Return what the model is asked to do now; `implicit`: the goal has no plan, `plans`: `plan` is offered."""
    guided = hello.options.context.guidance
    what, done = ("goal", "finish") if implicit else ("subtask", "complete_subtask")
    last = next((e for e in reversed(hello.state.transcript) if isinstance(e, Call)), None)
    if last is None:
        plain = "Call plan, or begin with another tool." if plans else "Begin: call a tool."
        return (_first_look(hello, plans=plans) if guided else "") or plain
    if last.name == "finish":  # not accepted, or the agent would have ended
        return "Look at what is wrong: read the file, or list the folder with run_cmd. Then correct it."
    if last.result == "blocked":
        return f"It was refused. If the {what} is done, call {done}. If not, call something else."
    if guided and (asked := _Guided(hello, implicit=implicit).next(last, done)):
        return asked
    if last.result != "success":
        return "That did not work. Correct the call, or try another way."
    return f"Is the {what} done now? If yes, call {done}. If not, call the next tool."


def _first_look(hello: HelloAnswer, *, plans: bool) -> str:
    """Ask for a look at what is there: else small models overwrite files unread."""
    state = hello.state
    about = state.subtask.description or state.goal.description
    there = [name for name in state.there if not name.endswith("/")]
    look = "list or search the files with run_cmd (ls, grep -rn) or call read_file"
    if named := [name for name in there if _mentions(about, name)]:
        look = f"call read_file on {' and '.join(named[:NAMED_SHOWN])}"
    elif plans or not there:
        return ""
    return f"First look: {look}, before you change anything."


class _Guided:
    """Asks for what the facts call for; each line was seen to help small models."""

    def __init__(self, hello: HelloAnswer, *, implicit: bool) -> None:
        self._hello = hello
        self._entries = hello.state.transcript
        self._calls = [entry for entry in self._entries if isinstance(entry, Call)]
        self._implicit = implicit

    def next(self, last: Call, done: str) -> str:
        """Return the request that depends on the result of the last call, "" where the plain one fits."""
        if last.result != "success":
            return self._after_failure(last)
        checked = self._implicit and self._hello.checks
        changed = self._changed()
        if last.changed is False and last.name in WRITE_ONLY_TOOLS:
            asked = f"If it is done, call {done} now." if changed or not checked else ""
            return f"Nothing changed: it was already so. {asked or 'Change something else.'}"
        if checked and (last.name in _LOOKS or not changed):
            return self._next_step(last)
        return ""

    def _after_failure(self, last: Call) -> str:
        same = [(e.name, e.args.get("path"), e.result) for e in self._calls[-2:]]
        again = same == [(last.name, last.args.get("path"), "error")] * 2
        nothing = again or last.output.startswith(NO_EDIT)
        if last.name == "edit_file" and nothing:  # else they repeat it
            failure = self._known_failure()
            what, end = _path(last), f"as it should be{': ' if failure else '.'}{failure}"
            if missing := self._missing():
                what, end = f"{missing}:", "it does not exist."
            return f"Nothing was edited. Call write_file with the whole file {what} {end}"
        command = f" {_words(str(last.args.get('cmd', '')))} "
        shown = (*self._hello.checks.values(), *map(failure_text, self._entries))
        is_a_check = any(command in f" {_words(one)} " for one in shown)
        if self._implicit and last.result == "failure" and is_a_check:
            # else small models run it again
            return "This shows what is still wrong. Now change it."
        if self._implicit and failure_text(self._entries[-1]):
            return "It changed files, but the goal is not reached. Now change what is still wrong."
        return ""

    def _next_step(self, last: Call) -> str:
        entries, failure = self._entries, self._known_failure()
        if not any(map(_may_have_changed, entries)):
            read = any(call.name == "read_file" for call in self._calls)
            return f"Nothing is changed yet. {_correct(failure) if read and failure else STEP}"
        if entries[-1] is last and not self._changed():  # it has only looked
            if failure:
                return _correct(failure)
            return f"{WRONG}." if last.name in _LOOKS else STEP
        return self._slip(last) or self._after_checks(entries[-1], last, failure)

    def _after_checks(self, note: Entry, last: Call, failure: str) -> str:
        if before := same_failure(note):  # else they do the same again
            return f"{AS_BEFORE} {WRONG}: {before}"
        if failure_text(note) and failure.startswith(GOT):  # unnamed, they look in another file
            return f"Now correct {_path(last) or 'what is wrong'}: {failure}"
        return _correct(failure) if failure else STEP

    def _slip(self, last: Call) -> str:
        """Return what went wrong in writing a file: a fence around it, or lines of others that it lost."""
        if last.name == "write_file" and _FENCED.fullmatch(str(last.args.get("content", ""))):
            return f"{_path(last)} begins and ends with ```. Write it without, unless they belong there."
        path = str(last.args.get("path", ""))
        written = (call for call in self._calls if _wrote(call, path))
        lost = last.output.partition(NO_LONGER)[2] if last is next(written, None) else ""
        lacks = "lacks lines that it had before. Put them back, unless they had to go:"
        return f"{_path(last)} {lacks} {lost}" if lost else ""

    def _known_failure(self) -> str:
        """Return what the last checks found in a line, "" where that is not known."""
        note = next(filter(failure_text, reversed(self._entries)), None)
        if note:
            return last_failure(note)
        missing = self._missing()
        return f"{missing}{NOT_THERE}" if missing else ""

    def _missing(self) -> str:
        """Return a file that the checks name, and that neither was there at the start nor was written since."""
        if any(map(failure_text, self._entries)):  # the checks have said more
            return ""
        named = absent(self._hello.checks.values(), self._hello.state.there)
        return next((n for n in named if not any(_wrote(e, n) for e in self._calls)), "")

    def _changed(self) -> bool:
        for entry in reversed(self._entries):
            if failure_text(entry):
                return False
            if _may_have_changed(entry):
                return True
        return False


def _correct(failure: str) -> str:
    """Return the request to correct a failure; of a missing file a small model changes another one unless told."""
    name = failure.removesuffix(NOT_THERE)
    missing = name != failure
    return f"{failure}. Now call write_file with path {name}." if missing else f"{WRONG}: {failure}"


def _may_have_changed(entry: Entry) -> bool:
    return isinstance(entry, Call) and entry.result == "success" and entry.changed is not False


def _wrote(call: Call, path: str) -> bool:
    """Return whether a call may have changed a file: it was about it, or is a command that names it."""
    is_about = call.args.get("path") == path or path in str(call.args.get("cmd", ""))
    return is_about and _may_have_changed(call)


def _words(command: str) -> str:
    return " ".join(_NO_WORDS.sub(" ", command).split())


def _path(call: Call) -> str:
    return without_middle(str(call.args.get("path", "")), NAME_CHARS)


def _mentions(text: str, name: str) -> bool:
    return bool(re.search(rf"(?<![\w./-]){re.escape(name)}(?![\w/-])", text))
