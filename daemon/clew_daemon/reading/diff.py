"""What a goal, or one of its subtasks, changed in its workspace, by its snapshots; redacted, and in bounded memory."""

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from clew_daemon.host.git import program
from clew_daemon.host.keys import Keys
from clew_daemon.reading.errors import CliError
from clew_daemon.reading.instance import Instance
from clew_daemon.reading.output import columns
from clew_daemon.reading.queries import goal_state, open_ledger
from clew_daemon.reading.sanitize import clean
from clew_daemon.record.comparison import ChangedFile, Comparison, comparison, total
from clew_daemon.record.goal_status import path_view
from clew_daemon.undo.planning import Rows, Span, Spans, UndoRefused
from clew_shared.record import snapshot_events as snap
from clew_shared.record.codec import decode
from clew_shared.record.moment import iso, local
from clew_shared.record.state import State
from clew_shared.snapshots.entries import differences
from clew_shared.snapshots.plan import PLAN_S, listed, own_changes
from clew_shared.snapshots.store import StoreError, StoreSlowError, at
from clew_shared.text.redact import redact
from clew_shared.text.shorten import beginning
from clew_shared.text.words import counted

Position = tuple[int, int]  # a task's index and that of a subtask in it, from 0


@dataclass(frozen=True)
class GoalDiff:
    """The changes between two snapshots on record; `foreign` counts the files that someone else changed."""

    state: State
    first: snap.SnapshotTaken
    last: snap.SnapshotTaken
    files: list[ChangedFile]
    foreign: int
    compared: Comparison


@contextlib.contextmanager
def goal_diff(instance: Instance, goal: str, subtask: Position | None) -> Iterator[GoalDiff]:
    """Yield what a goal or a subtask changed; raises CliError where there is no snapshot, or it cannot be read."""
    state = goal_state(instance, goal)
    with open_ledger(instance) as reader:
        rows = [(row.seq, decode(row.body)) for row in reader.read(goal)]
    span = _span(state, rows, subtask)
    rows = [row for row in rows if row[0] <= (span.last or row[0])]
    taken = {seq: event for seq, event in rows if isinstance(event, snap.SnapshotTaken)}
    first, last = taken[span.first], taken[max(taken)]
    try:
        store = at(instance.places.snapshots / goal, program(instance.env)).within(PLAN_S)
        if not store.exists:
            raise CliError(f"the snapshots of {goal} are gone: there is no {store.folder}")
        list_of = listed(store)
        own = own_changes(rows, list_of, span.first)
        foreign = len(differences(list_of(first.tree), list_of(last.tree)).keys() - own.keys())
        with comparison(store, first.tree, own) as compared:
            yield GoalDiff(state, first, last, compared.files(), foreign, compared)
    except StoreSlowError:
        raise CliError(f"reading the snapshots of {goal} took more than {PLAN_S:.0f} s") from None
    except StoreError as error:
        raise CliError(f"the snapshots of {goal} cannot be read: {error}") from None


def _span(state: State, rows: Rows, subtask: Position | None) -> Span:
    if not state.snapshots.first:
        why = state.snapshots.missing or "it has not started, or ran with an earlier version"
        raise CliError(f"{state.goal_id} has no snapshot: {why}")
    try:
        return Spans(rows).of(subtask)
    except UndoRefused as error:
        raise CliError(f"{state.goal_id}: {error}; `clew diff {state.goal_id}` shows all") from None


LEFT_OUT_SHOWN = 10
IGNORED = "Ignored files are in no snapshot, so they are not compared."
BYTES_MAX = 64 << 20  # a larger diff is cut, with a note
BLOCK_CHARS, BLOCK_CHARS_MAX = 1 << 16, 4 << 20
"""A text is redacted in blocks, which end before a file or a hunk, so that no key is cut in two."""

TOO_LARGE = f"… the rest is left out, of more than {BYTES_MAX >> 20} MiB; --stat lists all files"
_HUNK, _FILE = "@@ ", "diff --git "
_KEY, _KEY_LINES = "-----BEGIN ", 300
_KINDS = {"+": "added", "-": "removed", "@": "hunk"}
STYLES = {"": "", "added": "green", "removed": "red", "hunk": "cyan", "file": "bold"}
STYLES |= {"note": "dim", "stat": ""}  # of rich, for each kind of line


class DiffLine(NamedTuple):
    """A line of the difference; `kind` is added, removed, hunk, file, or "" for one that stayed."""

    kind: str
    text: str


def json_view(found: GoalDiff, subtask: Position | None) -> dict[str, object]:
    """Return the files, from when to when, and what is not among them."""
    return {
        "goal": found.state.goal_id,
        "subtask": f"{subtask[0] + 1}.{subtask[1] + 1}" if subtask else None,
        "from": _point(found.first),
        "to": _point(found.last),
        "files": [_file(one) for one in found.files],
        "foreign": found.foreign,
        "left_out": [{**path_view(one.path), "why": one.why} for one in found.last.left_out],
        "left_out_total": found.last.left_out_total,
        "missing": found.state.snapshots.missing,
    }


def _point(taken: snap.SnapshotTaken) -> dict[str, str]:
    return {"at": iso(taken.at), "moment": taken.moment, "tree": taken.tree}


def _file(one: ChangedFile) -> dict[str, object]:
    return {
        **path_view(one.path),
        **({"old_path": path_view(one.old_path)["path"]} if one.old_path else {}),
        "status": one.status,
        "added": one.added,
        "removed": one.removed,
        "binary": one.binary,
        **({"left_out": True} if one.left_out else {}),
        "modes": [f"{mode:o}" if mode else None for mode in one.modes],
    }


def stat_lines(found: GoalDiff) -> Iterator[str]:
    """Yield each file with its counts, and their sums."""
    rows = []
    for one in found.files:
        was = f"{_name(one.old_path)} -> " if one.old_path else ""
        rows.append([(one.status, ""), (f"{was}{_name(one.path)}", ""), (one.how, "")])
    yield from ("".join(text for text, _ in line) for line in columns(rows))
    yield total(found.files)


def diff_lines(found: GoalDiff) -> Iterator[DiffLine]:
    """Yield the unified diff, and what git has no lines for: permissions, and files in no snapshot."""
    in_hunk = False
    with found.compared.patch() as lines:
        for block in _blocks(lines):
            for line in redact(block).removesuffix("\n").split("\n"):
                in_hunk = not line.startswith(_FILE) and (in_hunk or line.startswith(_HUNK))
                end = "\r" if line.endswith("\r") else ""
                shown = "\t".join(map(clean, line.removesuffix("\r").split("\t"))) + end
                yield DiffLine(_KINDS.get(line[:1], "") if in_hunk else "file", shown)
    for one in found.files:
        if one.left_out:
            yield DiffLine("file", f"{one.status}, {one.how}: {_name(one.path)}")
        elif one.status == "mode" and one.modes[0] & 0o100 == one.modes[1] & 0o100:
            yield DiffLine("file", f"mode {one.how}: {_name(one.path)}")
    if not found.files:
        yield DiffLine("file", "no changes")


def _blocks(lines: Iterable[bytes]) -> Iterator[str]:
    """Join the lines of a diff, other bytes than UTF-8 spelled out, to blocks; end with a note if they are too many."""
    block: list[str] = []
    size = total = 0
    for raw in lines:
        line = raw.decode(errors="backslashreplace")
        ends = size > BLOCK_CHARS and line.startswith((_FILE, _HUNK))
        if size > BLOCK_CHARS_MAX:
            ends = not any(_KEY in one for one in block[-_KEY_LINES:])
        if ends:
            yield "".join(block)
            block, size = [], 0
        total += len(raw)
        if total > BYTES_MAX:
            block.append(TOO_LARGE)
            break
        block.append(line)
        size += len(line)
    if block:
        yield "".join(block)


def notes(found: GoalDiff) -> Iterator[str]:
    """Yield what the diff does not show, and why."""
    state, last = found.state, found.last
    if state.working and not state.ended:
        yield f"As of {local(last.at)}, the last snapshot: the goal is at work."
    if found.foreign:
        are = "is" if found.foreign == 1 else "are"
        yield f"{counted(found.foreign, 'file')} that someone else changed meanwhile {are} not shown."
    if last.left_out_total:
        shown = [f"{clean(redact(one.path))} ({clean(one.why)})" for one in last.left_out]
        more = last.left_out_total - LEFT_OUT_SHOWN
        tail = f", and {more} more" if more > 0 else ""
        yield f"In no snapshot: {', '.join(shown[:LEFT_OUT_SHOWN])}{tail}."
    if state.snapshots.missing:
        yield f"No snapshot was taken since {local(last.at)}: {clean(state.snapshots.missing)}."
    yield IGNORED


def _name(path: str) -> str:
    return clean(redact(path))


LINES_MAX = 5_000
LINE_CHARS = 2_000
FILES_MAX = 500


def shown_diff(instance: Instance, goal: str) -> list[DiffLine]:
    """Return what a goal changed, as much as one looks at: files with counts, the difference, notes; or why not."""
    hide_keys(instance)
    try:
        with goal_diff(instance, goal, None) as found:
            counts = list(islice(stat_lines(found), FILES_MAX)) if found.files else []
            shown = islice(diff_lines(found), LINES_MAX)
            lines = [DiffLine(kind, beginning(text, LINE_CHARS)) for kind, text in shown]
            said = ["", *notes(found)]
            if len(lines) == LINES_MAX or len(counts) == FILES_MAX:
                said.insert(1, f"The rest is left out: `clew diff {goal}` shows all of it.")
            stat = [DiffLine("stat", one) for one in counts]
            return [*stat, *lines, *(DiffLine("note", one) for one in said)]
    except CliError as error:
        return [DiffLine("note", error.message)]


def hide_keys(instance: Instance) -> None:
    """Let no key of an agent be shown, as far as the keys can be read here."""
    try:
        Keys(instance.env, instance.config.parent).hide(instance.settings)
    except CliError:  # a broken config: what looks like a key is still not shown
        return
