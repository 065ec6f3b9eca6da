"""`clew diff` and `clew undo`: `undo` shows what the daemon would restore, asks, and has the daemon restore it."""

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, cast

import click

from clew_daemon.cli import parameters
from clew_daemon.reading import diff as views
from clew_daemon.reading.client import NoAnswer, call
from clew_daemon.reading.errors import CliError, print_note
from clew_daemon.reading.instance import Instance
from clew_daemon.reading.output import Line, columns, on_terminal, print_json, print_lines, show
from clew_daemon.reading.sanitize import clean
from clew_daemon.undo.view import MovedView, NameView, UndoView
from clew_shared.text.words import counted, put_back

DEADLINE_S = 1800.0  # How long an answer may take: a snapshot takes up to minutes, and so does each batch of entries


@parameters.command(
    parameters.goal,
    parameters.subtask,
    parameters.flag("--stat", "Show the files with counts of lines instead."),
    parameters.as_json,
)
def diff(instance: Instance, goal: str, subtask: str | None, stat: bool, as_json: bool) -> None:
    """Show what a goal, or one of its subtasks, changed in its workspace, as a unified diff.

    On a terminal, a long one is shown page by page: `q` leaves it.
    """
    if stat and as_json:
        raise click.UsageError("use one of --stat and --json")
    at = parameters.position(instance, goal, subtask)
    views.hide_keys(instance)
    with views.goal_diff(instance, goal, at) as found:
        if as_json:
            print_json(views.json_view(found, at))
            return
        texts = (views.DiffLine("stat", text) for text in views.stat_lines(found))
        lines = texts if stat else views.diff_lines(found)
        if on_terminal():
            os.environ.setdefault("LESS", "FRX")  # colours, and an end at once where all fits
            said = (views.DiffLine("note", text) for text in views.notes(found))
            shown = "\n".join(map(_coloured, chain(lines, said)))  # the pager ends the last line
            click.echo_via_pager(shown, color=True)
            return
        for line in lines:  # as it is, with the blanks at the ends of lines
            print(line.text)
        for note in views.notes(found):
            print_note(note)


_CODES = {"green": 32, "red": 31, "cyan": 36, "bold": 1, "dim": 2}


def _coloured(line: views.DiffLine) -> str:
    code = None if os.environ.get("NO_COLOR") else _CODES.get(views.STYLES[line.kind])
    return f"\x1b[{code}m{line.text}\x1b[m" if code and line.text else line.text


@parameters.command(
    parameters.goal,
    parameters.subtask,
    parameters.flag("--yes", "Do not ask, for scripts."),
    parameters.as_json,
)
def undo(instance: Instance, goal: str, subtask: str | None, yes: bool, as_json: bool) -> None:
    """Restore what a goal, or one of its subtasks, has changed in the workspace.

    At a terminal it shows what it will do, and asks first. The same command again reverts the undo, if nothing else
    is left to undo. With --json and without --yes it only shows.

    An edit that is made while a step runs cannot be told from the step's own, and is undone with it. Files above
    `[snapshots] max_file_mb` are in no snapshot: they are not restored.
    """
    at = parameters.position(instance, goal, subtask)
    meant = {"goal": goal, "subtask": at}
    again = f"clew undo {goal}" + (f" {at[0] + 1}.{at[1] + 1}" if at else "")
    if yes or as_json:
        answer = _ask(instance, **meant, perform=yes)
        text = done_lines(answer, again, shown=False)
    else:
        answer, text = _converse(instance, meant, again)
    failed = bool(answer["moved"] or answer["failed"] or answer["changed"])
    if (yes or not as_json) and not answer["restored"]:  # and should have
        failed = failed or bool(answer["left_total"] or answer["entries_total"])
    show(answer, text, as_json=as_json, failed=failed)


def _ask(instance: Instance, **meant: Any) -> UndoView:
    try:
        return cast("UndoView", call(instance.socket, "undo", within_s=DEADLINE_S, **meant))
    except NoAnswer as error:
        message = f"{error.message}\nThe undo goes on meanwhile, and is completed in any case."
        raise CliError(message) from None


def _converse(
    instance: Instance, meant: Mapping[str, Any], again: str
) -> tuple[UndoView, list[Line]]:
    """Show the plan, ask, and have it done as it was shown; return the last answer and its lines."""
    plan = _ask(instance, **meant)
    if plan["resumed"]:
        return plan, done_lines(plan, again, shown=False)
    would, where = counted(plan["entries_total"], "file"), clean(plan["workspace"])
    head = f"Undo of {_what(plan)} would change {would} in {where}:"
    print_lines(_nothing_lines(plan) or _plan(plan, head))
    if plan["moved"] or not plan["entries_total"]:
        return plan, []
    if not parameters.confirmed("Undo this?"):
        raise CliError("nothing was changed")
    shown = plan["plan"]
    answer = _ask(instance, **meant, perform=True, expected=shown)
    if not (answer["resumed"] or answer["done"] or answer["moved"] or answer["plan"] == shown):
        what = "meanwhile something has changed, and nothing was restored"
        raise CliError(f"{what}: `{again}` shows what it would be now")
    return answer, done_lines(answer, again, shown=True)


SHOWN_MAX = 200  # how many names each list shows; `--json` has more
ACTION_STYLE = {"restore": "yellow", "remove": "red", "create": "green"}
REASONS = {
    "shared": "someone else changed it too",
    "unknown": "it is not known who changed it",
    "later": "it was changed again later",
    "left_out": "no snapshot has it, or what is in its folder",
    "repository": "a git repository: an undo removes none",
}
WHY_GONE = {
    "large": "above [snapshots] max_file_mb",
    "ignored": "ignored by git",
    "unreadable": "it could not be read",
    "changing": "it did not stop changing",
    "special": "a FIFO, a socket or a device",
}
SCOPES = {"undo": "the last undo", "attempt": "the last attempt at a subtask"}


def done_lines(answer: UndoView, again: str, *, shown: bool) -> list[Line]:
    """Return what an undo has done, or why it has not; `shown`: the plan was shown before, and is not listed again."""
    why = "it was changed while the undo went on"
    changed = [cast("NameView", {**one, "reason": why}) for one in answer["changed"]]
    faults = [*changed, *answer["failed"]]
    done = put_back(answer["restored"], answer.get("removed"))  # an earlier daemon does not say it
    ended = [
        *_rows("Not put back:", faults, len(faults), action=False),
        _bold(f"{done} in {clean(answer['workspace'])}.", "green"),
    ]
    if answer["resumed"]:
        return [_bold(f"The undo of {_what(answer)} was interrupted, and is complete now."), *ended]
    if nothing := _nothing_lines(answer):
        return nothing
    if not answer["done"]:
        left = _left_lines(answer)
        return [*_gone_lines(answer), _bold("Nothing was restored."), *left, *_git_lines(answer)]
    if not shown:
        ended = [*_plan(answer, f"Undo of {_what(answer)}:"), *ended]
    if answer["failed"]:
        ended.append([(f"`{clean(again)}` again tries to restore the rest.", "")])
    elif answer["restored"]:
        ended.append([(f"`{clean(again)}` again reverts this undo.", "")])
    return ended


def _nothing_lines(answer: UndoView) -> list[Line]:
    """Return why nothing is undone, [] if something is."""
    if answer["moved"]:
        return _moved_lines(answer["moved"], answer["workspace"])
    if answer["entries_total"] or answer["left_total"]:
        return []
    why = "what it changed is as before, or in no snapshot"
    nothing = f"Nothing is left to undo of {answer['subtask'] or 'the goal'}: {why}."
    return [*_gone_lines(answer), [(nothing, "")], *_limit_lines(answer)]


def _moved_lines(moved: MovedView, workspace: str) -> list[Line]:
    """Return how the user's repository has moved, and the git command that goes back."""
    before, now = moved["before"], moved["now"]
    old, branch = clean(before["commit"])[:12], clean(before["branch"])
    if before["branch"] != now["branch"]:
        back = f"git switch {shlex.quote(branch) if branch else f'--detach {old}'}"
    else:
        back = f"git reset --soft {old}" if old else "git update-ref -d HEAD"
    known = [(clean(at["branch"]) or "none", clean(at["commit"])[:12]) for at in (before, now)]
    places = [f"branch {branch}, commit {commit or 'none'}" for branch, commit in known]
    commits: list[Line] = [[(f"    {clean(line)}", "dim")] for line in moved["commits"]]
    return [
        _bold("Nothing is restored: the git repository is not where it was.", "red"),
        [(f"  before: {places[0]}", "")],
        [(f"  now:    {places[1]}", "")],
        *([[("  commits since:", "")], *commits] if commits else []),
        [(f"In {clean(workspace)}, this goes back; then the same undo restores the files:", "")],
        [(f"  {back}", "")],
    ]


def _plan(answer: UndoView, head: str) -> list[Line]:
    resume = "The goal has not ended: `clew continue` continues after the steps that are undone."
    return [
        *_gone_lines(answer),
        *_rows(head, answer["entries"], answer["entries_total"]),
        *_left_lines(answer),
        *_limit_lines(answer),
        *([] if answer["ended"] else [[(resume, "yellow")]]),
    ]


def _left_lines(answer: UndoView) -> list[Line]:
    total = answer["left_total"]
    head = "1 left as it is:" if total == 1 else f"{total} left as they are:"
    return _rows(head, answer["left"], total, action=False)


def _git_lines(answer: UndoView) -> Iterator[Line]:
    """Yield what is left to a person to do in git."""
    if answer["git_gone"]:
        gone = "The git repository is gone, in no snapshot: `.git` may have been renamed, or a clone has it."
        yield _bold(gone, "red")
    if answer["staged"]:
        yield [("What is staged in git has changed. An undo leaves that to you.", "yellow")]


def _gone_lines(answer: UndoView) -> Iterator[Line]:
    rows = answer["gone"][:SHOWN_MAX]
    for one in rows:
        mb = one.get("bytes", 0) / (1 << 20)
        size = f", {mb:,.{0 if mb >= 10 else 1}f} MB" if mb else ""
        why = WHY_GONE.get(one.get("why", ""), "in no snapshot")
        yield [("GONE: ", "bold red"), (f"{_name(one)}{size}, {why}", "")]
    if rows:
        yield from _more_lines(answer["gone_total"], rows)
        yield _bold("No snapshot has what is gone: it cannot be restored.")


def _limit_lines(answer: UndoView) -> Iterator[Line]:
    yield from _git_lines(answer)
    yield [("Ignored files are in no snapshot: they stay as they are.", "dim")]
    if left_out := answer["left_out"]:
        names = [f"{_name(one)} ({clean(one.get('why', ''))})" for one in answer["left_out_names"]]
        names += [f"{left_out - len(names)} more"] if left_out > len(names) else []
        yield [(f"In no snapshot either: {', '.join(names)}", "dim")]


def _rows(head: str, entries: Sequence[NameView], total: int, *, action: bool = True) -> list[Line]:
    """Return a list of names with what is done to each, or why it is left; nothing for none."""
    rows: list[Line] = []
    for one in entries[:SHOWN_MAX]:
        reason = one.get("reason", "")
        is_told = reason or not action
        why = [(clean(REASONS.get(reason, reason)), "magenta")] if is_told else []
        done = one.get("action", "") if action else ""
        rows.append([(f"  {done}", ACTION_STYLE.get(done, "")), (_name(one), ""), *why])
    return [_bold(head), *columns(rows), *_more_lines(total, rows)] if rows else []


def _more_lines(total: int, shown: Sequence[object]) -> list[Line]:
    more = total - len(shown)
    return [[(f"  … {more} more (--json lists up to 5,000)", "dim")]] if more > 0 else []


def _what(answer: UndoView) -> str:
    if answer["scope"] == "subtask":
        return f"subtask {answer['subtask']}"
    return SCOPES.get(answer["scope"], "the whole goal")


def _bold(text: str, colour: str = "") -> Line:
    return [(text, f"bold {colour}".strip())]


def _name(one: NameView) -> str:
    """Return a name that can be told from any other."""
    return clean(one.get("quoted") or one.get("path", ""))
