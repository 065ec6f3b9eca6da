"""The request for the next call, at the end of a prompt. Pure text of a view.

What it says was decided by what small models then do (docs/measurements.md).
"""

import re
import sys

from clew_shared.prompt.check_notes import (
    AS_BEFORE,
    named_failure,
    note_text,
    same_failure,
    shows_what_fails,
    wrong_value,
)
from clew_shared.prompt.first_call import first_call
from clew_shared.prompt.view import PromptView
from clew_shared.text.shorten import without_middle
from clew_shared.tools import NO_EDIT, NO_LONGER, WRITE_ONLY_TOOLS
from clew_shared.wire.hello import Call, Entry

SPLIT_CHARS = 200
NAME_CHARS = 160

CHANGE = "Now change what is wrong: "
STEP = "Take the next step towards the goal."

_LOOKS = frozenset({"read_file", "list_files", "search", "recall"})
"""After a mere look small models that are asked whether the goal is done say yes."""

_NO_WORDS = re.compile(r"[\"'$()`;&|]+")
_THERE = re.compile(r"does not exist\. These do: ([^\n]+)")
_TEST_FILE = re.compile(r"(^|/)(test_[^/]*|[^/]*_test)\.py$")
_IMPORTS = re.compile(r"^(?:from|import) ([\w.]+)", re.MULTILINE)
_NOT_TESTED = sys.stdlib_module_names | {"pytest"}


def next_call(view: PromptView) -> str:
    """Return the request for the next call."""
    last = next((e for e in reversed(view.transcript) if isinstance(e, Call)), None)
    return first_call(view) if last is None else _ask_after(last, view)


def _ask_after(last: Call, view: PromptView) -> str:
    """Return the request for the next call, which depends on the result of the last one."""
    what, done = ("goal", "finish") if view.implicit else ("subtask", "complete_subtask")
    if last.name == "finish":  # not accepted, or the agent would have ended
        return "Look at what is wrong: read the file, or list the folder with run_cmd. Then correct it."
    if last.result == "blocked":
        return f"It was refused. If the {what} is done, call {done}. If not, call something else."
    if last.result != "success":
        return _ask_after_failure(last, view)
    unverified = not (view.implicit and view.checks) or _changed(view)
    if last.changed is False and last.name in WRITE_ONLY_TOOLS:
        end = f"If the {what} is done, call {done} now." if unverified else "Change something else."
        return f"Nothing changed: it was already so. {end}"
    if view.implicit and view.checks and (last.name in _LOOKS or not _changed(view)):
        return _next_step(last, view)
    return f"Is the {what} done now? If yes, call {done}. If not, call the next tool."


def _ask_after_failure(last: Call, view: PromptView) -> str:
    if last.name == "edit_file" and last.output.startswith(NO_EDIT):
        return _instead_of_no_edit(last, view)
    if tool := _tool_run_as_command(last, view):
        return f"{tool} is a tool and not a shell command: call {tool} itself instead of run_cmd."
    if there := _files_there(last, view):  # else they write without knowing what is there
        return f"First call read_file on {there}."
    if view.implicit and _is_a_check(last, view):
        return "This shows what is still wrong. Now change it."  # else small models run it again
    if view.implicit and shows_what_fails(view.transcript[-1]):  # run since it changed files
        return "It changed files, but the goal is not reached. Now change what is still wrong."
    return f"That did not work. {_split(last)}Correct the call, or try another way."


def _next_step(last: Call, view: PromptView) -> str:
    if not any(map(_may_have_changed, view.transcript)):
        change = _change(view) if any(map(_is_read, view.transcript)) else ""
        return f"Nothing is changed yet. {_to_what_it_tests(last) or change or STEP}"
    if view.transcript[-1] is last and not _changed(view):  # it has only looked
        return _change(view) or ("Now change what is wrong." if last.name in _LOOKS else STEP)
    if failure := same_failure(view.transcript[-1]):
        return f"{AS_BEFORE} {CHANGE}{failure}"
    if lost := _lost(last, view):  # they write a part of the file, and run it
        name = without_middle(str(last.args.get("path", "The file")), NAME_CHARS)
        return (
            f"{name} lacks lines that it had before. Put them back, unless they had to go: {lost}"
        )
    return _correction(last, view.transcript[-1]) or STEP


def _change(view: PromptView) -> str:
    """Return what to change after a look, "" where what fails is not known; else small models go on looking."""
    note = next(filter(shows_what_fails, reversed(view.transcript)), None)
    failure = note and (named_failure(note) or wrong_value(note))
    return f"{CHANGE}{failure}" if failure else ""


def _is_read(entry: Entry) -> bool:
    return isinstance(entry, Call) and entry.name == "read_file" and entry.result == "success"


def _correction(last: Call, note: Entry) -> str:
    """Return what to correct where the checks fail in a new way after a call, "" where that is not known."""
    if failure := named_failure(note):
        return f"{CHANGE}{failure}"  # else they run the program that has just run
    if failure := wrong_value(note):  # without the name they look in another file
        what = without_middle(str(last.args.get("path", "what is wrong")), NAME_CHARS)
        return f"Now correct {what}: {failure}"
    return ""


def _to_what_it_tests(last: Call) -> str:
    """Return the way from a test, which was just read, to what it imports first; "" for any other call.

    A small model that has read the test alone changes the test.
    """
    if last.name != "read_file" or not _TEST_FILE.search(str(last.args.get("path", ""))):
        return ""
    modules = (m for m in _IMPORTS.findall(last.output) if m.partition(".")[0] not in _NOT_TESTED)
    files = (f"{module.replace('.', '/')}.py" for module in modules)
    return next(
        (f"This tests {file}: read that, or write it if it is missing." for file in files), ""
    )


def _instead_of_no_edit(last: Call, view: PromptView) -> str:
    """Return what to do instead of an edit that changes nothing: small models repeat it, or try to count by it."""
    if failure := _change(view).removeprefix(CHANGE):
        name = without_middle(str(last.args.get("path")), NAME_CHARS)
        return f"Call write_file with the whole file {name} as it should be: {failure}"
    return (
        "edit_file only changes files. To count or compute something, or to write a result into another file, "
        "call run_cmd."
    )


def _files_there(last: Call, view: PromptView) -> str:
    """Return the few files that are there where the agent has read none and asked for one that is not; "" else."""
    found = _THERE.search(last.output) if last.name == "read_file" else None
    known = any(isinstance(e, Call) and e.result == "success" for e in view.transcript)
    files = [one for one in found[1].split(", ") if not one.endswith("/")] if found else []
    return "" if known else ", ".join(files)


def _lost(last: Call, view: PromptView) -> str:
    """Return which lines of others the file of the last call has lost; what the agent wrote itself may go."""
    path = str(last.args.get("path", ""))
    written = [e for e in view.transcript if isinstance(e, Call) and _may_have_written(e, path)]
    if last not in written or (last.name == "write_file" and last != written[0]):
        return ""
    since = view.transcript[view.transcript.index(written[0]) + 1 : -1]
    told = any(shows_what_fails(e) and not same_failure(e) for e in since)
    return "" if told else written[0].output.partition(NO_LONGER)[2]


def _may_have_written(call: Call, path: str) -> bool:
    """Return whether a call may have changed a file: it was about it, or is a command that names it."""
    is_about = call.args.get("path") == path or path in str(call.args.get("cmd", ""))
    return is_about and _may_have_changed(call)


def _tool_run_as_command(call: Call, view: PromptView) -> str:
    """Return the name of a tool that a shell was asked for and did not find, "" for none."""
    names = [tool.name for tool in view.tools if tool.name in str(call.args.get("cmd", ""))]
    found = (n for n in names if re.search(rf"\b{n}: (command )?not found", call.output))
    return next(found, "")


def _is_a_check(call: Call, view: PromptView) -> bool:
    """Return whether a failed command is, but for quotes, a part of a shown check, or of its trace."""
    words = _words(str(call.args.get("cmd", "")))
    traced = (note_text(e) for e in view.transcript if shows_what_fails(e))
    shown = (*view.checks.values(), *traced)
    return call.result == "failure" and any(f" {words} " in f" {_words(one)} " for one in shown)


def _words(command: str) -> str:
    return " ".join(_NO_WORDS.sub(" ", command).split())


def _split(call: Call) -> str:
    r"""Return how a failed command fell into lines, if it did.

    JSON has no `\;`: a model whose answers must be JSON writes a line break in its place, and does not see why the
    command fails.
    """
    command = str(call.args.get("cmd", "")).strip()
    if "\n" not in command or "<<" in command:
        return ""
    first = without_middle(command.splitlines()[0], SPLIT_CHARS)
    return (
        f"Your cmd has a line break, so the shell ran this alone: {first}\n"
        "In JSON a backslash is written twice, as in \\\\; or \\\\. or \\\\(. "
    )


def _changed(view: PromptView) -> bool:
    """Return whether a call may have changed something since checks last failed."""
    for entry in reversed(view.transcript):
        if shows_what_fails(entry):
            return False
        if _may_have_changed(entry):
            return True
    return False


def _may_have_changed(entry: Entry) -> bool:
    return isinstance(entry, Call) and entry.result == "success" and entry.changed is not False
