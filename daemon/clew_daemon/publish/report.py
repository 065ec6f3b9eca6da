"""The report on a goal in the outbox: text from the state, the last actions and loops, and its atomic write.

Texts of goals, agents and commands are escaped: they can add no headings, tables, HTML or links.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from clew_daemon.record import goal_view
from clew_daemon.record.comparison import ChangedFile
from clew_daemon.record.goal_status import answer, status_view
from clew_daemon.record.goal_view import is_told, standing
from clew_shared.files import write_whole
from clew_shared.proof import label
from clew_shared.record.model import GoalStatus, StepStatus, Subtask
from clew_shared.record.moment import local
from clew_shared.record.state import AttemptState, CheckResult, State
from clew_shared.text import words
from clew_shared.text.plain import percent
from clew_shared.text.redact import redact
from clew_shared.text.shorten import beginning, both_ends, one_line

LINE_CHARS = 200
Entries = Sequence[Mapping[str, Any]]

_INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # controls, C1 included
    "\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff"  # reordering and invisible ones
    "\ud800-\udfff\U000e0000-\U000e007f]"
)
_BLOCK = re.compile(r"\s*([#>+*=|~-]|\d{1,9}[.)](?!\S))")
# Code, or HTML, the end of a link's text (a report may put a colon behind it), and what would open code.
_MARKUP = re.compile(
    r"((?<![`\\])(`+)(?!`).+?(?<!`)\2(?!`))|(\\*)(<(?=[A-Za-z/!?])|\](?=[(\[:]|$)|`)"
)


def visible(text: str) -> str:
    """Return the text with a replacement character for every invisible or reordering character."""
    return _INVISIBLE.sub("\N{REPLACEMENT CHARACTER}", text)


def inline(text: str, chars: int = LINE_CHARS) -> str:
    """Return one line of at most `chars` characters that begins no block and has no HTML, no link and no open code."""
    line = _line(text, chars)
    if begun := _BLOCK.match(line):
        line = f"{line[: begun.end() - 1]}\\{line[begun.end() - 1 :]}"
    # a backslash in the text must not escape ours
    return _MARKUP.sub(lambda found: found[1] or f"{found[3] * 2}\\{found[4]}", line)


def _line(text: str, chars: int) -> str:
    return beginning(redact(one_line(visible(text))), chars)


def code(text: str, chars: int = LINE_CHARS) -> str:
    """Return one line as code, which it cannot close."""
    line = _line(text, chars)
    fence = "`" * (1 + max(map(len, re.findall("`+", line)), default=0))
    space = " " if "`" in (line[:1], line[-1:]) else ""
    return f"{fence}{space}{line}{space}{fence}"


def quoted(text: str, chars: int = LINE_CHARS) -> str:
    """Return a text of several lines as a quotation, `chars` of each line, which stay lines of their own."""
    return "  \n".join(f"> {inline(line, chars)}".rstrip() for line in text.splitlines())


WORKERS = "- workers: {} (also after a stop, a death of the daemon, or a new attempt: these are no restarts)"
TRIED_MAX, FRESH_STARTS_SHOWN, FILES_SHOWN = 40, 20, 20
CHECK_CHARS, QUESTION_CHARS = 400, 2_000
HOW_TO_CHECK = (
    "This goal has no checks: that it is done is the agent's word alone. A check is a command that must exit 0 "
    "before a goal counts as completed: `checks:` in the goal file, or `clew submit --check`."
)


def render(
    state: State, actions: Entries, loops: Entries, files: Sequence[ChangedFile] | None = None
) -> str:
    """Return the report; the last `TRIED_MAX` actions and loops are enough. `files` is None where it is not known."""
    advice = goal_view.after_failure(state.goal_id, state.spec.agent)[1:]
    sections = {
        "Your answer is needed": _question(state),
        "Tree": _tree(state),
        "Checks": _checks(state),
        "Files changed": _files(state, files),
        "What was tried": _tried(state, actions[-TRIED_MAX:]),
        "Loops": _loops(state, loops[-TRIED_MAX:]),
        "Restarts and attempts": _restarts(state),
        "Time and tokens": _spent(state),
        "Feedback": [f"- {inline(text)}" for text in state.guidance.feedback],
        "Replaced by replans": [f"- {inline(text)}" for text in state.replaced],
        "What you can do": advice if state.goal.status == GoalStatus.FAILED else [],
    }
    parts = [f"## {title}\n\n" + "\n".join(lines) for title, lines in sections.items() if lines]
    head = f"# {inline(state.goal.description)}", _facts(state)
    return redact(visible("\n\n".join([*head, *parts]))) + "\n"


def write(outbox: Path, state: State, text: str) -> Path:
    """Write the report to `outbox/<id>.md`, at once or not at all; raises OSError."""
    outbox.mkdir(parents=True, exist_ok=True)
    path = outbox / f"{state.goal_id}.md"
    write_whole(path, text)  # durable before the write is recorded
    return path


def _facts(state: State) -> str:
    made, question = state.proofs.made, state.question if _is_asked(state) else ""
    files = f" ({', '.join(map(code, made.files))})" if made and made.files else ""
    said = made and inline(label.words(made.label, made.why, made.accepted))
    status = standing(status_view(state))
    told = is_told(state.reason.removeprefix("budget: "), state.summary, question, status)
    rows = [
        ("status", f"**{status}**"),
        ("proof", said and f"{said}{files}; more: `clew proof {state.goal_id}`"),
        ("note", inline(words.passed_before(state.passed_before))),
        ("reason", "" if told else inline(state.reason)),
        ("summary", inline(state.summary)),
        ("progress", percent(state.goal.progress())),
        ("accepted", local(state.accepted_at)),
        ("last change", local(state.updated_at)),
        ("workspace", code(state.spec.workspace) if state.spec.workspace else ""),
        ("agent", inline(state.spec.agent)),
        ("actions", f"{state.actions_total} allowed, {state.loops.blocked_total} refused"),
        ("iterations", str(state.iteration)),
        ("unknown front-matter keys (ignored)", ", ".join(map(inline, state.spec.unknown_keys))),
    ]
    return "\n".join(f"- {name}: {value}" for name, value in rows if value)


def _is_asked(state: State) -> bool:
    return state.goal.status == GoalStatus.BLOCKED


def _question(state: State) -> list[str]:
    if not _is_asked(state):
        return []
    question = state.question or "How should it go on?"
    command = ["", f"    {answer(state)}"] if "`clew " not in question else []
    return [quoted(question, QUESTION_CHARS), *command]


def _tree(state: State) -> list[str]:
    lines = []
    for task in state.goal.tasks:
        lines.append(f"- {_mark(task.status, state)} {inline(task.description)}")
        lines += [f"  {line}" for one in task.subtasks for line in _subtask(state, one)]
    return lines


def _mark(status: str, state: State) -> str:
    return f"[{goal_view.MARKS[goal_view.step_status(status, state.goal.status)]}]"


def _subtask(state: State, subtask: Subtask) -> list[str]:
    counts = {"proposed action": subtask.actions_total, "failed attempt": subtask.attempts}
    notes = ", ".join(_counted(count, what) for what, count in counts.items() if count)
    suffix = f" ({notes})" if notes else ""
    lines = [f"- {_mark(subtask.status, state)} {inline(subtask.description)}{suffix}"]
    if subtask.summary and not is_told(subtask.summary, state.summary):
        lines.append(f"  {inline(subtask.summary)}")
    lines += [f"  found: {inline(text)}" for text in subtask.insights]
    failure = subtask.last_failure if subtask.status != StepStatus.COMPLETED else ""
    if failure and not is_told(failure, state.reason, state.question, state.summary):
        lines.append(f"  last failure: {inline(failure)}")
    return lines


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _checks(state: State) -> list[str]:
    """Return the checks with their results; how to add some where a completed goal has none."""
    names = {**state.proofs.checks, **state.spec.checks}
    if not names and state.goal.status == GoalStatus.COMPLETED:
        suggested = (f"- suggested: {code(cmd)}" for cmd in state.proofs.suggested.values())
        return [HOW_TO_CHECK, "", *suggested]
    return [_check(state, name, state.proofs.checks.get(name)) for name in names]


def _check(state: State, name: str, check: CheckResult | None) -> str:
    cmd = state.spec.checks.get(name, "")
    named = f"{inline(name)} ({code(cmd, CHECK_CHARS)})" if cmd else inline(name)
    if check is None:
        return f"- [ ] {named}: not run"
    ends = "" if check.passed else both_ends(one_line(check.output), CHECK_CHARS)
    how = "passed" if check.passed else "failed"
    how += ", as before any work: it proves nothing" if name in state.passed_before else ""
    output = f": {inline(ends, 2 * CHECK_CHARS)}" if ends else ""
    return f"- [{'x' if check.passed else ' '}] {named}: {how}{output}"


def _files(state: State, files: Sequence[ChangedFile] | None) -> list[str]:
    """Return the files that the goal changed, or why that is not known; [] where snapshots are not wanted."""
    known = state.snapshots
    if not known.first:
        return [f"not known: {inline(known.missing)}"] if known.missing else []
    if files is None:
        return [f"not known: the snapshots could not be read (`clew diff {state.goal_id}`)"]
    total = f"{_counted(len(files), 'file')}{_plus_minus(files)} (`clew diff {state.goal_id}`)"
    lines = [total, "", *map(_file, files[:FILES_SHOWN])] if files else ["none"]
    if (more := len(files) - FILES_SHOWN) > 0:
        lines.append(f"- … {more} more")
    if known.left_out:
        count = _counted(known.left_out, "file")
        lines += ["", f"{count} too large or not readable: changes there are not known"]
    return lines


def _file(one: ChangedFile) -> str:
    was = f" (was {code(one.old_path)})" if one.old_path else ""
    counts = ", binary" if one.binary else _plus_minus([one])
    unknown = ", left out of the snapshot" if one.left_out else ""
    return f"- {code(one.path)}{was}{counts}{unknown}"


def _plus_minus(files: Sequence[ChangedFile]) -> str:
    added, removed = sum(one.added for one in files), sum(one.removed for one in files)
    return f", +{added} -{removed}" if added or removed else ""


def _tried(state: State, actions: Entries) -> list[str]:
    left_out = state.actions_total + state.loops.blocked_total - len(state.in_flight) - len(actions)
    earlier = f"- … {_counted(left_out, 'earlier action')} (`clew history {state.goal_id}`)"
    lines = [earlier] if left_out > 0 else []
    for action in actions:
        shown = code(words.action_text(action["name"], action["args"]))
        result = words.RESULTS.get(action["result"], action["result"])
        lines.append(f"- {action['seq']} {shown} → {result}")
    return lines


def _loops(state: State, entries: Entries) -> list[str]:
    """Return how often the agent was told or refused something, and the last loops."""
    refused = sum(one.refused for one in state.loops.findings)
    counts = {"told": len(state.loops.findings) - refused, "refused a new loop": refused}
    often = "; ".join(f"{what} {words.times(count)}" for what, count in counts.items() if count)
    head = [f"{often} (`clew loops {state.goal_id}`)", ""] if often else []
    return [*head, *map(_loop, entries)]


def _loop(entry: Mapping[str, Any]) -> str:
    signature, count = entry["action_signature"], entry["attempt_count"]
    what = f" {code(words.signature_text(signature))}" if signature else ""
    said = f": {inline(entry['evidence'])}" if entry["escalated_to"] else ""
    often = f", {words.times(count)}" if count and words.times(count) not in said else ""
    at = f"{local(entry['timestamp'])}, {entry['task_idx'] + 1}.{entry['subtask_idx'] + 1}"
    return f"- {at}: {words.loop(entry['kind'])}{what}{often}{said}"


def _restarts(state: State) -> list[str]:
    continued = state.attempts.actions_granted > 0
    failed = [
        f"- {t}.{s} {words.failed_times(subtask.attempts, continued=continued)}"
        for t, task in enumerate(state.goal.tasks, 1)
        for s, subtask in enumerate(task.subtasks, 1)
        if subtask.attempts
    ]
    again = [f"- {inline(words.rerun_text(asdict(one)))}" for one in state.attempts.reruns]
    begun = state.attempts.fresh_starts[-FRESH_STARTS_SHOWN:]
    total = [f"- fresh starts: {state.attempts.total}"] if begun else []
    known = [f"- restarts: {state.restarts}"]
    known += [WORKERS.format(state.epoch)] if state.epoch > state.restarts + 1 else []
    return [*known, *again, *failed, *total, *map(_fresh_start, begun)]


def _fresh_start(one: AttemptState) -> str:
    place = f"{one.place[0] + 1}.{one.place[1] + 1}"
    ground = goal_view.ground_facts(one.restored, one.kept, one.left)
    facts = "; ".join(inline(fact) for fact in (one.rung, *ground) if fact)
    ended = f"attempt {one.number - 1} ended: {inline(words.ending(one.reason))}"
    return f"  - {place} attempt {one.number}{f' ({facts})' if facts else ''}, after {ended}"


def _spent(state: State) -> list[str]:
    cost = state.cost
    if not cost.calls:
        return [f"- working time: {cost.active_s:.1f} s"]
    split = f"{cost.tokens_in} in ({cost.tokens_cached} cached), {cost.tokens_out} out"
    return [
        f"- working time: {cost.active_s:.1f} s, {cost.llm_s:.1f} s of it in {_counted(cost.calls, 'LLM call')}",
        f"- tokens: {cost.tokens}: {split}",
    ]
