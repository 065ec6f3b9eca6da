"""The request for the next call, at the end of a prompt. Pure text of a conversation.

`Guided` goes by the facts of the conversation: which files are there, what the last call brought, and what
the checks found. It goes by no word of the goal, so it is the same for a goal in any language. `Plain` only asks for
the next call. `[context] guidance`, or the profile of a model, chooses.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Protocol

from clew_shared.guidance.notes import (
    AS_BEFORE,
    last_failure,
    same_failure,
    shows_what_fails,
    wrong_value,
)
from clew_shared.text.shorten import without_middle
from clew_shared.tools import NO_EDIT, NO_LONGER, WRITE_ONLY_TOOLS, Tool
from clew_shared.wire.hello import Call, Entry, Said

NAME_CHARS = 160
NAMED_SHOWN = 3
WRONG = "Now change what is wrong"
STEP = "Take the next step towards the goal."
_LOOKS = frozenset({"read_file", "list_files", "search", "recall"})
"""After a mere look small models that are asked whether the goal is done say yes."""

_NO_WORDS = re.compile(r"[\"'$()`;&|]+")
_FENCED = re.compile(r"\s*```[^\n]*\n.*```\s*", re.DOTALL)


class Conversation(Protocol):
    """What a request is made from, as a prompt's view has it: its texts, the tools on offer, and what was called."""

    @property
    def goal(self) -> str: ...
    @property
    def subtask(self) -> str: ...
    @property
    def implicit(self) -> bool: ...
    @property
    def checks(self) -> Mapping[str, str]: ...
    @property
    def tools(self) -> Sequence[Tool]: ...
    @property
    def there(self) -> Sequence[str]: ...
    @property
    def transcript(self) -> Sequence[Entry]: ...


def request(view: Conversation, *, guided: bool) -> str:
    """Return what the model is asked to do now, as the last line of its prompt."""
    asking = Guided() if guided else Plain()
    last = next((e for e in reversed(view.transcript) if isinstance(e, Call)), None)
    return asking.first(view) if last is None else asking.next(view, last)


class Plain:
    """Asks for the next call, whatever the last one brought."""

    def first(self, view: Conversation) -> str:
        """Return the request for the first call of a conversation."""
        plan = any(tool.name == "plan" for tool in view.tools)
        return "Call plan, or begin with another tool." if plan else "Begin: call a tool."

    def next(self, view: Conversation, last: Call) -> str:
        """Return the request for the next call, given the last one."""
        what, done = ("goal", "finish") if view.implicit else ("subtask", "complete_subtask")
        if last.name == "finish":  # not accepted, or the agent would have ended
            return "Look at what is wrong: read the file, or list the folder with run_cmd. Then correct it."
        if last.result == "blocked":
            return (
                f"It was refused. If the {what} is done, call {done}. If not, call something else."
            )
        if last.result != "success":
            return "That did not work. Correct the call, or try another way."
        return f"Is the {what} done now? If yes, call {done}. If not, call the next tool."


class Guided(Plain):
    """Asks for what the facts call for; each line was seen to help small models."""

    def first(self, view: Conversation) -> str:
        """Ask for a look at what is there: else small models overwrite files unread."""
        there = [name for name in view.there if not name.endswith("/")]
        named = [name for name in there if _mentions(view.subtask or view.goal, name)]
        if named:
            names = " and ".join(named[:NAMED_SHOWN])
            return f"First look: call read_file on {names}, before you change anything."
        if any(tool.name == "plan" for tool in view.tools) or not there:
            return super().first(view)
        return "First look: search the files with run_cmd (grep -rn) or call read_file, before you change anything."

    def next(self, view: Conversation, last: Call) -> str:
        """Return the request for the next call, which depends on the result of the last one."""
        if last.name == "finish" or last.result == "blocked":
            return super().next(view, last)
        if last.result != "success":
            return _after_failure(view, last) or super().next(view, last)
        checked = bool(view.implicit and view.checks)
        if last.changed is False and last.name in WRITE_ONLY_TOOLS:
            done = "finish" if view.implicit else "complete_subtask"
            asked = f"If it is done, call {done} now." if _changed(view) or not checked else ""
            return f"Nothing changed: it was already so. {asked or 'Change something else.'}"
        if checked and (last.name in _LOOKS or not _changed(view)):
            return _next_step(view, last)
        return super().next(view, last)


# ---- after a call that failed


def _after_failure(view: Conversation, last: Call) -> str:
    if last.name == "edit_file" and last.output.startswith(NO_EDIT):  # else they repeat it
        failure = _known_failure(view)
        end = f"as it should be: {failure}" if failure else "as it should be."
        return f"Nothing was edited. Call write_file with the whole file {_path(last)} {end}"
    if tool := _tool_run_as_command(view, last):
        return f"{tool} is a tool and not a shell command: call {tool} itself instead of run_cmd."
    if view.implicit and _is_a_check(view, last):
        return "This shows what is still wrong. Now change it."  # else small models run it again
    if view.implicit and shows_what_fails(view.transcript[-1]):  # run since it changed files
        return "It changed files, but the goal is not reached. Now change what is still wrong."
    return ""


def _tool_run_as_command(view: Conversation, call: Call) -> str:
    """Return the name of a tool that a shell was asked for and did not find, "" for none."""
    names = [tool.name for tool in view.tools if tool.name in str(call.args.get("cmd", ""))]
    found = (n for n in names if re.search(rf"\b{n}: (command )?not found", call.output))
    return next(found, "")


def _is_a_check(view: Conversation, call: Call) -> bool:
    """Return whether a failed command is, but for quotes, a part of a shown check, or of its trace."""
    words = _words(str(call.args.get("cmd", "")))
    traced = (_text(e) for e in view.transcript if shows_what_fails(e))
    shown = (*view.checks.values(), *traced)
    return call.result == "failure" and any(f" {words} " in f" {_words(one)} " for one in shown)


def _words(command: str) -> str:
    return " ".join(_NO_WORDS.sub(" ", command).split())


def _text(entry: Entry) -> str:
    return entry.text if isinstance(entry, Said) else entry.output


# ---- after a call that left the goal's checks failing


def _next_step(view: Conversation, last: Call) -> str:
    failure = _known_failure(view)
    if not any(map(_may_have_changed, view.transcript)):
        read = any(isinstance(e, Call) and e.name == "read_file" for e in view.transcript)
        return f"Nothing is changed yet. {f'{WRONG}: {failure}' if read and failure else STEP}"
    if view.transcript[-1] is last and not _changed(view):  # it has only looked
        if failure:
            return f"{WRONG}: {failure}"
        return f"{WRONG}." if last.name in _LOOKS else STEP
    return _after_checks(view, last, failure)


def _after_checks(view: Conversation, last: Call, failure: str) -> str:
    """Return what to do about checks that have just failed after a change."""
    if slip := _slip(view, last):
        return slip
    if before := same_failure(view.transcript[-1]):  # else they do the same again
        return f"{AS_BEFORE} {WRONG}: {before}"
    if value := wrong_value(view.transcript[-1]):  # without the name they look in another file
        return f"Now correct {_path(last) or 'what is wrong'}: {value}"
    return f"{WRONG}: {failure}" if failure else STEP


def _slip(view: Conversation, last: Call) -> str:
    """Return what went wrong in writing a file whose checks then fail: a fence around it, or lines that it lost."""
    if last.name == "write_file" and _FENCED.fullmatch(str(last.args.get("content", ""))):
        return (
            f"{_path(last)} begins and ends with ```. Write it without, unless they belong there."
        )
    if lost := _lost(view, last):
        return f"{_path(last)} lacks lines that it had before. Put them back, unless they had to go: {lost}"
    return ""


def _lost(view: Conversation, last: Call) -> str:
    """Return which lines of others the file of the last call has lost; what the agent wrote itself may go."""
    path = str(last.args.get("path", ""))
    written = (e for e in view.transcript if isinstance(e, Call) and _may_have_written(e, path))
    return last.output.partition(NO_LONGER)[2] if last is next(written, None) else ""


def _may_have_written(call: Call, path: str) -> bool:
    """Return whether a call may have changed a file: it was about it, or is a command that names it."""
    is_about = call.args.get("path") == path or path in str(call.args.get("cmd", ""))
    return is_about and _may_have_changed(call)


# ---- facts of a conversation


def _known_failure(view: Conversation) -> str:
    """Return what the last checks found in a line, "" where that is not known."""
    note = next(filter(shows_what_fails, reversed(view.transcript)), None)
    return last_failure(note) if note else ""


def _changed(view: Conversation) -> bool:
    """Return whether a call may have changed something since checks last failed."""
    for entry in reversed(view.transcript):
        if shows_what_fails(entry):
            return False
        if _may_have_changed(entry):
            return True
    return False


def _may_have_changed(entry: Entry) -> bool:
    return isinstance(entry, Call) and entry.result == "success" and entry.changed is not False


def _path(call: Call) -> str:
    return without_middle(str(call.args.get("path", "")), NAME_CHARS)


def _mentions(text: str, name: str) -> bool:
    return bool(re.search(rf"(?<![\w./-]){re.escape(name)}(?![\w/-])", text))
