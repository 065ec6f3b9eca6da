"""What `clew undo` shows: the plan, what is left and why, how it ended, and how to go on."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from clew_daemon.cli.display.output import Line, columns
from clew_daemon.cli.display.sanitize import clean
from clew_daemon.cli.display.units import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

UndoView = Mapping[str, Any]
"""The daemon's answer to `undo`."""

SHOWN_MAX = 200
"""How many names each list shows; `--json` has more."""

ACTION_STYLE = {"restore": "yellow", "remove": "red", "create": "green"}
REASONS = {
    "shared": "someone else changed it too",
    "unknown": "it is not known who changed it, or what it was before",
    "later": "it was changed again later",
}
RESUME = "The goal has not ended: `clew resume` continues after the steps that are undone; it does not repeat them."
GIT_GONE = (
    "The git repository is gone, and `.git` is in no snapshot: commits, stashes and what was staged are not restored."
    " Get `.git` back from a clone or a backup."
)
IGNORED = "Ignored files are in no snapshot: they stay as they are."


def plan_lines(answer: UndoView, again: str, *, theirs: bool) -> list[Line]:
    """Return what an undo would do; `again` is the command without options."""
    if answer["moved"]:
        return moved_lines(answer)
    if not (answer["entries_total"] or answer["left_total"]):
        return _nothing_lines(answer)
    return [
        *_entry_lines(answer, _would_be(answer)),
        *_left_lines(answer, again, overwritten=theirs),
        *_limit_lines(answer),
        *_resume_lines(answer),
    ]


def done_lines(answer: UndoView, again: str, *, shown: bool) -> list[Line]:
    """Return what an undo has done, or why it has not; `again` is the command without options.

    `shown`: the plan was shown before, and is not listed once more.
    """
    if answer["resumed"]:
        return _resumed_lines(answer)
    if answer["moved"]:
        return moved_lines(answer)
    if not (answer["entries_total"] or answer["left_total"]):
        return _nothing_lines(answer)
    if not answer["done"]:
        return [
            [("Nothing was restored.", "bold")],
            *_left_lines(answer, again, overwritten=False),
        ]
    overwritten = answer["restored"] > answer["entries_total"]
    plan = [
        *_entry_lines(answer, f"Undo of {_what(answer)}:"),
        *_left_lines(answer, again, overwritten=overwritten),
        *_limit_lines(answer),
        *_resume_lines(answer),
    ]
    return [
        *([] if shown else plan),
        *_trouble_lines(answer),
        _restored_line(answer),
        _again_line(answer, again),
    ]


def _resumed_lines(answer: UndoView) -> list[Line]:
    """Return that an undo which had been cut off is complete; nothing else was done."""
    head = f"The undo of {_what(answer)} was interrupted, and is complete now."
    return [[(head, "bold")], *_trouble_lines(answer), _restored_line(answer)]


def _again_line(answer: UndoView, again: str) -> Line:
    """Return what the same command does next."""
    if answer["failed"]:
        return [("To restore the rest: ", "bold"), (f"`{clean(again)}` again tries it.", "")]
    return [("To get them back: ", "bold"), (f"`{clean(again)}` again reverts this undo.", "")]


def _restored_line(answer: UndoView) -> Line:
    return [
        (f"{counted(answer['restored'], 'file')} restored", "bold green"),
        (f" in {clean(answer['workspace'])}.", ""),
    ]


def theirs_question(answer: UndoView) -> str:
    """Return the second question of `--theirs`."""
    files = counted(answer["left_total"], "file")
    return f"Overwrite the {files} listed as changed by someone else or later, too?"


def moved_lines(answer: UndoView) -> list[Line]:
    """Return how the user's repository has moved, and the git commands that would go back."""
    moved = answer["moved"]
    before, now = moved["before"], moved["now"]
    lines: list[Line] = [
        [("Nothing is restored: ", "bold red"), ("the git repository is not where it was.", "")],
        [("Files alone would not bring it back, but these git commands can:", "")],
    ]
    lines += [
        [("  before: ", "bold"), (_place(before), "")],
        [("  now:    ", "bold"), (_place(now), "")],
    ]
    if moved["staged"]:
        lines.append([("  the index differs: ", "bold"), ("something was staged or unstaged.", "")])
    lines += [[("  commits since:", "bold")]] if moved["commits"] else []
    lines += [[(f"    {clean(line)}", "dim")] for line in moved["commits"]]
    lines.append([(f"In {clean(answer['workspace'])}:", "bold")])
    return [*lines, *columns([[(f"  {cmd}", ""), (what, "dim")] for cmd, what in _ways(moved)])]


def _ways(moved: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the git commands that would look at what was moved, and go back, each with what it does."""
    old, new = (clean(moved[when]["commit"])[:12] for when in ("before", "now"))
    branch = clean(moved["before"]["branch"])
    if moved["before"]["branch"] != moved["now"]["branch"] and branch:
        return [
            (
                f"git switch {shlex.quote(branch)}",
                "back to the branch; the other one keeps its commits",
            )
        ]
    if old != new and old:
        return [
            (f"git log {old}..{new}", "the commits"),
            (f"git revert {old}..{new}", "new commits that take them back"),
            (f"git reset --hard {old}", "DISCARDS the commits and all work not committed"),
        ]
    return [
        ("git diff --cached", "what is staged"),
        ("git restore --staged .", "unstages everything; files stay as they are"),
    ]


def _place(place: Mapping[str, str]) -> str:
    commit = f"commit {clean(place['commit'])[:12]}" if place["commit"] else "no commit"
    return f"branch {clean(place['branch'])}, {commit}" if place["branch"] else commit


def _nothing_lines(answer: UndoView) -> list[Line]:
    what = answer["subtask"] or "the goal"
    why = "what it changed is as before, or in no snapshot"
    return [[(f"Nothing is left to undo of {what}: {why}.", "")], *_limit_lines(answer)]


def _what(answer: UndoView) -> str:
    """Return what is undone."""
    what = {"undo": "the last undo", "subtask": f"subtask {answer['subtask']}"}
    return what.get(answer["scope"], "the whole goal")


def _would_be(answer: UndoView) -> str:
    files = counted(answer["entries_total"], "file")
    where = clean(answer["workspace"])
    return f"{files} would be restored in {where} (undo of {_what(answer)}):"


def _name(one: Mapping[str, str]) -> str:
    """Return a name that can be told from any other."""
    return clean(one.get("quoted") or one["path"])


def _entry_lines(answer: UndoView, head: str) -> list[Line]:
    total = answer["entries_total"]
    if not total:
        return []
    rows = [
        [(f"  {one['action']}", ACTION_STYLE[one["action"]]), (_name(one), "")]
        for one in answer["entries"][:SHOWN_MAX]
    ]
    return [[(head, "bold")], *columns(rows), *_more_lines(total, rows)]


def _left_lines(answer: UndoView, again: str, *, overwritten: bool) -> list[Line]:
    total = answer["left_total"]
    if not total:
        return []
    files = counted(total, "file")
    head = f"{files} overwritten, too (--theirs):" if overwritten else f"{files} left as they are:"
    if total == 1 and not overwritten:
        head = "1 file left as it is:"
    rows = [
        [(_name(one), ""), (REASONS[one["reason"]], "magenta")]
        for one in answer["left"][:SHOWN_MAX]
    ]
    for row, one in zip(rows, answer["left"], strict=False):
        done = (f"  {one['action']}", ACTION_STYLE[one["action"]]) if overwritten else ("  ", "")
        row.insert(0, done)
    how = f"  `{clean(again)} --theirs` overwrites {'it' if total == 1 else 'them'}, too."
    tail: list[Line] = [] if overwritten else [[(how, "dim")]]
    return [[(head, "bold")], *columns(rows), *_more_lines(total, rows), *tail]


def _trouble_lines(answer: UndoView) -> list[Line]:
    """Return what was changed, or could not be written, while the undo was performed."""
    rows = [(_name(one), "it was changed while the undo went on") for one in answer["changed"]]
    rows += [(_name(one), one["reason"]) for one in answer["failed"]]
    if not rows:
        return []
    shown = [[(f"  {path}", ""), (clean(why), "red")] for path, why in rows[:SHOWN_MAX]]
    return [[("Not restored:", "bold red")], *columns(shown), *_more_lines(len(rows), shown)]


def _limit_lines(answer: UndoView) -> list[Line]:
    """Return what no undo restores."""
    left_out = answer["left_out"]
    lines: list[Line] = [[(GIT_GONE, "bold red")]] if answer["git_gone"] else []
    lines.append([(IGNORED, "dim")])
    if left_out:
        names = [f"{_name(one)} ({clean(one['why'])})" for one in answer["left_out_names"]]
        names += [f"{left_out - len(names)} more"] if left_out > len(names) else []
        are = "1 more file is" if left_out == 1 else f"{left_out} more files are"
        why = f"{are} in no snapshot (too large, unreadable or special): {', '.join(names)}"
        lines.append([(why, "dim")])
    return lines


def _resume_lines(answer: UndoView) -> list[Line]:
    """Return how a goal goes on that is not at its end."""
    if answer["ended"]:
        return []
    return [[(RESUME, "yellow")]]


def _more_lines(total: int, shown: Sequence[object]) -> list[Line]:
    more = total - len(shown)
    return [[(f"  … {more} more (--json lists up to 5,000)", "dim")]] if more > 0 else []
