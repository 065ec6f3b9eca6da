"""What `clew undo` shows: the plan, what is left and why, how it ended, and how to go on."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from clew_daemon.reading.output import Line, columns
from clew_daemon.reading.sanitize import clean, counted

if TYPE_CHECKING:
    from collections.abc import Sequence

UndoView = Mapping[str, Any]
"""The daemon's answer to `undo`."""

SHOWN_MAX = 200
"""How many names each list shows; `--json` has more."""

ACTION_STYLE = {"restore": "yellow", "remove": "red", "create": "green"}
REASONS = {
    "shared": "someone else changed it too",
    "unknown": "it is not known who changed it",
    "later": "it was changed again later",
    "left_out": "no snapshot has it, or what is in it",
    "repository": "a git repository: an undo removes none",
    "commits": "a git repository with other commits than before",
}
WHY_GONE = {
    "large": "above [snapshots] max_file_mb",
    "ignored": "ignored by git",
    "unreadable": "it could not be read",
    "changing": "it did not stop changing",
    "deep": "its path was too long",
    "fifo": "a FIFO",
    "socket": "a socket",
    "device": "a device",
}
RESUME = "The goal has not ended: `clew continue` continues after the steps that are undone; it does not repeat them."
GIT_GONE = (
    "The git repository is gone, and `.git` is in no snapshot: commits, stashes and what was staged are not restored."
    " Get `.git` back from a clone or a backup."
)
GIT_MADE = "There was no git repository before. It stays: `rm -rf .git` removes it."
STAGED = "What is staged in git has changed. An undo leaves that to you."
STASHES_SHOWN = 5
IGNORED = "Ignored files are in no snapshot: they stay as they are."


def plan_lines(answer: UndoView, again: str, *, theirs: bool) -> list[Line]:
    """Return what an undo would do; `again` is the command without options."""
    if answer["moved"]:
        return moved_lines(answer)
    if not (answer["entries_total"] or answer["left_total"]):
        return _nothing_lines(answer)
    return [
        *_gone_lines(answer),
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
            *_gone_lines(answer),
            [("Nothing was restored.", "bold")],
            *_left_lines(answer, again, overwritten=False),
            *_git_lines(answer),
        ]
    plan = [
        *_gone_lines(answer),
        *_entry_lines(answer, f"Undo of {_what(answer)}:"),
        *_left_lines(answer, again, overwritten=answer["overwritten"]),
        *_limit_lines(answer),
        *_resume_lines(answer),
    ]
    return [
        *([] if shown else plan),
        *_trouble_lines(answer),
        _restored_line(answer),
        *_again_lines(answer, again),
    ]


def _resumed_lines(answer: UndoView) -> list[Line]:
    """Return that an undo which had been cut off is complete; nothing else was done."""
    head = f"The undo of {_what(answer)} was interrupted, and is complete now."
    return [[(head, "bold")], *_trouble_lines(answer), _restored_line(answer)]


def _again_lines(answer: UndoView, again: str) -> list[Line]:
    """Return what the same command does next, where it can do something."""
    if answer["can_retry"]:
        return [[("To restore the rest: ", "bold"), (f"`{clean(again)}` again tries it.", "")]]
    failed = any("stays" not in one for one in answer["failed"])
    if failed or not (answer["restored"] or answer["folders"]):
        return []
    return [[("To take this back: ", "bold"), (f"`{clean(again)}` again reverts this undo.", "")]]


def _restored_line(answer: UndoView) -> Line:
    restored = _counted(answer["restored"], answer["folders"])
    return [(f"{restored} restored", "bold green"), (f" in {clean(answer['workspace'])}.", "")]


def _counted(files: int, folders: int) -> str:
    """Return how many files and empty folders, without the folders where there are none."""
    parts = [counted(files, "file")] if files or not folders else []
    parts += [counted(folders, "empty folder")] if folders else []
    return " and ".join(parts)


def theirs_question(answer: UndoView) -> str:
    """Return the second question of `--theirs`."""
    files = counted(answer["theirs_total"], "file")
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
    ways = columns([[(f"  {cmd}", ""), (what, "dim")] for cmd, what in _ways(moved)])
    then = "Once HEAD is where it was, the same undo restores the files."
    return [*lines, *ways, [(then, "")]]


def _ways(moved: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the git commands that would look at what was moved, and go back, each with what it does."""
    old, new = (clean(moved[when]["commit"])[:12] for when in ("before", "now"))
    branch = clean(moved["before"]["branch"])
    if moved["before"]["branch"] != moved["now"]["branch"]:
        back = shlex.quote(branch) if branch else f"--detach {old}"
        return [(f"git switch {back}", "back to where it was; the branch keeps its commits")]
    if not old:
        return [("git update-ref -d HEAD", "takes back all commits; files stay as they are")]
    soft = (f"git reset --soft {old}", "takes back the commits; files stay as they are")
    if not new:
        return [soft]
    return [
        (f"git log {old}..{new}", "the commits"),
        soft,
        (f"git revert {old}..{new}", "new commits that take them back"),
        (f"git reset --hard {old}", "DISCARDS the commits and all work not committed"),
    ]


def _place(place: Mapping[str, str]) -> str:
    commit = f"commit {clean(place['commit'])[:12]}" if place["commit"] else "no commit"
    return f"branch {clean(place['branch'])}, {commit}" if place["branch"] else commit


def _nothing_lines(answer: UndoView) -> list[Line]:
    what = answer["subtask"] or "the goal"
    why = "what it changed is as before, or in no snapshot"
    nothing = f"Nothing is left to undo of {what}: {why}."
    return [*_gone_lines(answer), [(nothing, "")], *_limit_lines(answer)]


def _what(answer: UndoView) -> str:
    """Return what is undone."""
    what = {
        "undo": "the last undo",
        "subtask": f"subtask {answer['subtask']}",
        "attempt": "the last attempt at a subtask",
    }
    return what.get(answer["scope"], "the whole goal")


def _would_be(answer: UndoView) -> str:
    files = answer["entries_files"]
    would = _counted(files, answer["entries_total"] - files)
    where = clean(answer["workspace"])
    return f"{would} would be restored in {where} (undo of {_what(answer)}):"


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
    """Return what was left, and of that what `--theirs` has overwritten."""
    over = [one for one in answer["left"] if overwritten and "stays" not in one]
    left = [one for one in answer["left"] if not overwritten or "stays" in one]
    lines: list[Line] = []
    if over:
        total = answer["theirs_total"]
        rows = [
            [(f"  {one['action']}", ACTION_STYLE[one["action"]]), *_reason(one)]
            for one in over[:SHOWN_MAX]
        ]
        head = f"{counted(total, 'file')} overwritten, too (--theirs):"
        lines += [[(head, "bold")], *columns(rows), *_more_lines(total, rows)]
    if left:
        total = answer["left_total"] - (answer["theirs_total"] if overwritten else 0)
        rows = [[("  ", ""), *_reason(one)] for one in left[:SHOWN_MAX]]
        head = "1 left as it is:" if total == 1 else f"{total} left as they are:"
        lines += [[(head, "bold")], *columns(rows), *_more_lines(total, rows)]
    if answer["theirs_total"] and not overwritten:
        count = answer["theirs_total"]
        some = counted(count, "file") if count < answer["left_total"] else ""
        what = f"{some} of these" if some else "it" if count == 1 else "them"
        lines.append([(f"  `{clean(again)} --theirs` overwrites {what}, too.", "dim")])
    return lines


def _reason(one: Mapping[str, str]) -> list[tuple[str, str]]:
    return [(_name(one), ""), (REASONS[one["reason"]], "magenta")]


def _gone_lines(answer: UndoView) -> list[Line]:
    """Return what is gone and no undo can bring back, before anything else."""
    rows = answer["gone"][:SHOWN_MAX]
    lines: list[Line] = [[("GONE: ", "bold red"), (_gone(one), "")] for one in rows]
    if lines:
        lines += _more_lines(answer["gone_total"], rows)
        lines.append([("No snapshot has what is gone: it cannot be restored.", "bold")])
    return lines


def _gone(one: Mapping[str, Any]) -> str:
    mb = one.get("bytes", 0) / (1 << 20)
    size = [f"{mb:,.0f} MB" if mb >= 10 else f"{mb:.1f} MB"] if mb else []
    why = WHY_GONE.get(one["why"], "in no snapshot")
    return ", ".join([_name(one), *size, why])


def _trouble_lines(answer: UndoView) -> list[Line]:
    """Return what was changed, or could not be written, while the undo was performed."""
    rows = [(_name(one), "it was changed while the undo went on") for one in answer["changed"]]
    rows += [(_name(one), one["reason"]) for one in answer["failed"]]
    if not rows:
        return []
    shown = [[(f"  {path}", ""), (clean(why), "red")] for path, why in rows[:SHOWN_MAX]]
    return [[("Not restored:", "bold red")], *columns(shown), *_more_lines(len(rows), shown)]


def _git_lines(answer: UndoView) -> list[Line]:
    """Return what is left to do in git."""
    lines: list[Line] = []
    if answer["git_gone"] and answer["git_found"]:
        places = [_name(one) for one in answer["git_found"]]
        lines.append(
            [(f"The git repository is at {', '.join(places)} now, and stays.", "bold red")]
        )
        lines.append([(f"  mv {shlex.quote(places[0])} .git   puts it back", "")])
    elif answer["git_gone"]:
        lines.append([(GIT_GONE, "bold red")])
    if answer["git_made"]:
        lines.append([(GIT_MADE, "yellow")])
    if staged := answer["staged"]:
        lines.append([(STAGED, "yellow")])
        lines += [[(f"  staged {when}: {_staged(staged[when])}", "")] for when in staged]
    for one in answer["stashes"][:STASHES_SHOWN]:
        lines.append([("New in the stash: ", "yellow"), (clean(one), "")])
    if answer["stashes"]:
        lines.append([("  git stash pop   takes the newest out; git stash drop removes it", "")])
    if answer["lost_stash"]:
        lines.append(
            [("A stash is no longer in the list. ", "yellow"), ("While git keeps it:", "")]
        )
        lines.append([(f"  git stash apply {answer['lost_stash']}", "")])
    return lines


def _staged(staged: Mapping[str, Any]) -> str:
    """Return what is staged, cut as the record of it."""
    if staged["total"] is None:
        return "not known"
    names = [_name(one) for one in staged["names"]]
    more = staged["total"] - len(names)
    return ", ".join([*names, *([f"{more} more"] if more else [])]) or "nothing"


def _limit_lines(answer: UndoView) -> list[Line]:
    """Return what no undo restores."""
    left_out = answer["left_out"]
    lines = _git_lines(answer)
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
