"""Codes and actions that are recorded, in the words that people read. Pure."""

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from signal import SIGKILL
from typing import Any

from clew_shared.exit_codes import SIGNAL_BASE
from clew_shared.text.shorten import beginning

ACTION_CHARS = 200
NEW_LINE = " ⏎ "  # stands for the end of a line where a text of several lines is shown in one
ENDINGS = {  # why a worker or an attempt ended, or an action was cut off
    "exited_unfinished": "the agent ended before the goal was done",
    "no_hello": "its program ended without speaking to clew (it does not say hello)",
    "left_instead_of_replanning": "the agent ended where a new plan was needed",
    "daemon_died": "the daemon died",
    "stopped": "it was stopped",
    "finished": "it was done",
    "attempt": "a new attempt begins",
    "hung": "the agent gave no sign of life",
    "stalled": "the agent got no further",
    "deaf": "the agent took no answer",
    "memory": "the worker used too much memory",
    "protocol": "the agent sent what clew cannot read",
    "executor": "the process that runs the actions died",
    "executor_died": "the process that runs the actions died",
    "closed": "the program that used clew closed it",
    "start": "the worker could not be started",
    "spawn": "the worker could not be started",
    "workspace": "the workspace could not be entered",
    "nursery": "the process that starts workers was not ready",
    "internal": "an unexpected error in clew",
    "ledger": "the record could not be read or written",
    "killed by SIGKILL": "killed by SIGKILL (signal 9, perhaps out of memory)",
    "nothing_new": "it was told that it brings nothing new, and continued in the same way",
}
REFUSALS = {  # why an action was refused
    "repetition": "repetition of the same action",
    "alternation": "alternation of the same two actions",
    "cycle": "cycle of the same actions",
    "crash": "the worker died while it ran",
    "blocked_action": "nothing has changed since it was refused",
    "replan_required": "a new plan is needed first",
    "budget": "a limit of the goal is reached",
    "stopped": "the goal is not at work",
    "person": "a person has blocked it",
}
WARNINGS = {  # what the agent is warned of
    "theme": "its thoughts repeat one another",
    "repeated_planning": "it thinks again and again without doing anything",
    "repetition": "it does the same again and learns nothing new",
    "no_progress": "its last turns brought nothing new",
    "nothing_new": "its last steps brought nothing new",
    "same_error": "the same error comes back",
    "stuck": "it says itself that it is stuck",
}
SAME_ANSWER = "the same answer comes back, whatever it does"  # what the agent is warned of where one answer stays
# What is found to repeat itself.
LOOPS = {**REFUSALS, **WARNINGS, "repetition": REFUSALS["repetition"], "failures": "a failure"}
RESULTS = {  # what came of an action, as the end of a sentence; `outcome` is the same for a list
    "success": "worked",
    "failure": "failed",
    "error": "failed",
    "timeout": "ran out of time",
    "blocked": "was refused",
    "interrupted": "was interrupted, so that its effect is unknown",
}
LOGINS = {  # what a person types to log in with a coding agent; the sources are their own manuals
    "codex": "`codex login`",
    "claude": "`claude`, and in it `/login`",
    "opencode": "`opencode auth login`",
}
LOG_IN = "log in with"


def log_in(cli: str) -> str:
    """Return what to do where a coding agent has no login, as a clause."""
    return f"{LOG_IN} {cli} itself, outside of clew: {LOGINS.get(cli, f'`{cli}`')}"


def exit_text(code: int | None) -> str:
    """Return an exit code in brackets, with the signal that it stands for; "" for none and for 0."""
    number = (code or 0) - SIGNAL_BASE
    killed = f", killed by signal {number}" if 0 < number < SIGNAL_BASE // 2 else ""
    memory = ", perhaps out of memory" if number == SIGKILL else ""
    return f" (exit code {code}{killed}{memory})" if code else ""


def passed_before(checks: Sequence[str]) -> str:
    """Return that checks passed before any work, "" for none."""
    named = ", ".join(checks)
    if len(checks) == 1:
        return f"check {named} passed before any work: it proves nothing"
    return f"checks {named} passed before any work: they prove nothing" if checks else ""


def ending(reason: str) -> str:
    """Return why a worker or an attempt ended, or an action was cut off; a reason that is no code as it is."""
    return ENDINGS.get(reason, re.sub(r"\Aexit (?=\d+\Z)", "exit code ", reason))


def cut_off(reason: str) -> str:
    """Return why an action was cut off, and who died where the reason only says how."""
    told = ending(reason)
    if reason.startswith(("killed by", "exit ")):
        return f"its worker {'was' if reason.startswith('killed') else 'ended with'} {told}"
    return {"stopped": "its worker was stopped", "paused": "the goal was paused"}.get(reason, told)


def outcome(result: str | None) -> str:
    """Return what came of an action in a word or two, as in `worked`, `refused`; `running` while that is not known."""
    return (
        RESULTS.get(result, result).removeprefix("was ").partition(",")[0] if result else "running"
    )


def refusal(reason: str) -> str:
    return REFUSALS.get(reason, reason)


def why_refused(reason: str, count: int = 0, said: str = "") -> str:
    """Return in a line why an action was refused, at its `count`-th try, and what it had said the last time."""
    again = reason == "repetition" and count > 1
    why = f"{ordinal(count)} time the same" if again else refusal(reason)
    return f"{why}; last: {said}" if said else why


def warned(kind: str) -> str:
    return WARNINGS.get(kind, kind)


def loop(kind: str) -> str:
    return LOOPS.get(kind, kind)


def counted(count: int, one: str) -> str:
    """Return a count with its noun: `1 goal`, `2 goals`."""
    return f"{count} {one}{'' if count == 1 else 's'}"


def changes(files: int, added: int, removed: int) -> str:
    """Return how many files changed, and how many lines were added and removed: `2 files, +3 -1`."""
    return f"{counted(files, 'file')}, +{added} -{removed}"


def put_back(count: int, removed: int | None = None) -> str:
    """Return what became of the files of an undo: `3 files put back, 2 removed`; how many of each may be unknown."""
    if not removed:
        return f"{counted(count, 'file')} put back{' or removed' if removed is None else ''}"
    if count == removed:
        return f"{counted(count, 'file')} removed"
    return f"{counted(count - removed, 'file')} put back, {removed} removed"


def duration(seconds: float, *, whole: bool = False) -> str:
    """Return a time in its two largest units: `3.2 s`, `4 min 10 s`, `2 h 5 min`, `3 d 4 h`; `whole` drops tenths."""
    seconds = int(seconds) if whole else round(seconds, 1)
    if seconds < 60:
        return f"{seconds} s" if whole else f"{seconds:.1f} s"
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    if days:
        return f"{days} d {hour} h"
    return f"{hours} h {minute} min" if hours else f"{minutes} min {second} s"


def thousands(count: int) -> str:
    """Return a number of tokens in about three digits: `812`, `3.4k`, `34k`."""
    if count < 1_000:
        return str(count)
    return f"{count / 1000:.1f}k" if count < 9_950 else f"{count / 1000:.0f}k"


def times(count: int) -> str:
    """Return how often, as in `once`, `twice`, `3 times`."""
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def ordinal(count: int) -> str:
    """Return a position, as in `1st`, `2nd`, `13th`."""
    ending_ = "th" if count % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(count % 10)
    return f"{count}{ending_ or 'th'}"


_SHOWN = {  # the arguments by which a person recognises an action of a built-in tool
    "run_cmd": ("cmd",),
    **dict.fromkeys(("read_file", "write_file", "edit_file", "list_files"), ("path",)),
    "search": ("pattern", "path"),
    "wait": ("why",),
    "recall": ("seq",),
    "finish": (),
}
_COMMANDS = frozenset(("command", "cmd", "script"))  # a description beside one says nothing


def one_line(text: str) -> str:
    return re.sub(r"\s*\n\s*", NEW_LINE, text.strip())


def action_text(name: str, args: Mapping[str, Any], max_chars: int = ACTION_CHARS) -> str:
    """Return the beginning of a command as it was proposed; of any other action the tool, and what it is about."""
    is_command = not _COMMANDS.isdisjoint(args)
    keys = _SHOWN.get(name, tuple(key for key in args if key != "description" or not is_command))
    named = name not in _SHOWN and len(keys) > 1
    alone = _COMMANDS if len(keys) > 1 else keys  # as they were given
    shown = {key: _value(args[key], quoted=key not in alone) for key in keys if key in args}
    values = [f"{key}={value}" if named else value for key, value in shown.items()]
    text = " ".join(values if name == "run_cmd" and values else [name, *values])
    return beginning(one_line(text), max_chars)


def signature_text(signature: str, max_chars: int = ACTION_CHARS) -> str:
    """Return the action of a signature as `action_text` does; of one that cannot be read its beginning."""
    name, _, args = signature.partition("::{")
    try:
        return action_text(name, json.loads("{" + args), max_chars)
    except ValueError:
        return beginning(signature, max_chars)


def _value(value: Any, *, quoted: bool) -> str:
    match value:
        case str():
            return shlex.quote(value) if quoted else value
        case [*words] if all(isinstance(word, str) for word in words):
            return shlex.join(words)
        case _:
            return json.dumps(value, ensure_ascii=False, default=str)


def rerun_text(rerun: Mapping[str, Any]) -> str:
    """Return which action ran more than once, and what came of each run but the last, as in the view of a goal."""
    place = f"{rerun['task_idx'] + 1}.{rerun['subtask_idx'] + 1} `{rerun['action']}`"
    runs = ", ".join(
        f"#{seq} {outcome(result)}"
        for seq, result in zip(rerun["seqs"], rerun["results"], strict=False)
    )
    earlier = "…, " if rerun["times"] > len(rerun["seqs"]) else ""
    return f"{place} ran {times(rerun['times'])}: {earlier}{runs}, then #{rerun['seqs'][-1]}"


_TELLS = re.compile(
    r"error|exception|fail|fatal|not found|no such|denied|cannot|can't|refused|stopped after",
    re.IGNORECASE,
)


def key_line(output: str, max_chars: int = ACTION_CHARS) -> str:
    """Return the line of an output that says what came out: the last that names an error, else the last one."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    last = lines[-1] if lines else ""
    return beginning(next(filter(_TELLS.search, reversed(lines)), last), max_chars)


SILENT = "It printed nothing. This command failed:\n+ "
GOT = "got "  # begins the reason where a value that was computed is not the expected one


def said_why(output: str) -> str:
    """Return the reason in the output of a failed check: all of it, or only the reason of an explanation."""
    if not output.startswith(SILENT):
        return output
    return output.removeprefix(SILENT).strip().partition("\n")[2]
