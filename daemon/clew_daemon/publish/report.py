"""The report on a goal in the outbox: text from the state, the last actions and loops, and its atomic write.

Texts of goals, agents and commands are escaped: they can add no headings, tables, HTML or links.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from textwrap import indent
from typing import Any

from clew_daemon.record import goal_view
from clew_daemon.record.comparison import ChangedFile, total
from clew_daemon.record.goal_status import answer, goal_detail
from clew_daemon.record.goal_view import GoalDetail, because, standing
from clew_daemon.record.goal_words import checks, facts, fresh_start, tree, unchecked
from clew_shared.files import write_whole
from clew_shared.record.model import GoalStatus
from clew_shared.record.moment import local
from clew_shared.record.state import State
from clew_shared.text import words
from clew_shared.text.plain import percent, visible
from clew_shared.text.redact import redact
from clew_shared.text.shorten import beginning, both_ends, is_told, one_line

LINE_CHARS, CHECK_CHARS, QUESTION_CHARS = 200, 400, 2_000
Entries = Sequence[Mapping[str, Any]]

_BLOCK = re.compile(r"\s*([#>+*=|~-]|\d{1,9}[.)](?!\S))")
# Code, or HTML, the end of a link's text (a report may put a colon behind it), and what would open code.
_MARKUP = re.compile(
    r"((?<![`\\])(`+)(?!`).+?(?<!`)\2(?!`))|(\\*)(<(?=[A-Za-z/!?])|\](?=[(\[:]|$)|`)"
)


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
    fence, space = _fence(line, 1), " " if "`" in (line[:1], line[-1:]) else ""
    return f"{fence}{space}{line}{space}{fence}"


def _fence(text: str, least: int) -> str:
    return "`" * max([least, *(len(one) + 1 for one in re.findall("`+", text))])


def printed(text: str, chars: int) -> str:
    """Return both ends of what a program printed: one line, or a block in a list, which the lines cannot close."""
    lines = "\n".join(visible(line) for line in text.splitlines() if line.strip())
    shown = both_ends(redact(lines), chars)
    fence = _fence(shown, 3)
    block = indent(f"\n\n{fence}\n{shown}\n{fence}", "  ")
    return block if "\n" in shown else f" {inline(shown, chars)}"


def quoted(text: str, chars: int = LINE_CHARS) -> str:
    """Return a text of several lines as a quotation, `chars` of each line, which stay lines of their own."""
    return "  \n".join(f"> {inline(line, chars)}".rstrip() for line in text.splitlines())


SPENT = ("working time", "LLM")  # these have a section of their own
TRIED_MAX, FRESH_STARTS_SHOWN, FILES_SHOWN = 40, 20, 20


def render(
    state: State, actions: Entries, loops: Entries, files: Sequence[ChangedFile] | None = None
) -> str:
    """Return the report; the last `TRIED_MAX` actions and loops are enough. `files` is None where it is not known."""
    detail = goal_detail(state, actions=False)
    advice = goal_view.after_failure(state.goal_id, state.spec.agent)[1:]
    sections = {
        "Your answer is needed": _question(state),
        "Tree": list(_tree(detail)),
        "Checks": list(_checks(detail)),
        "Files changed": _files(state, files),
        "What was tried": _tried(state, actions[-TRIED_MAX:]),
        "Loops": _loops(state, loops[-TRIED_MAX:]),
        "Restarts and attempts": list(_restarts(state, detail)),
        "Time and tokens": list(_spent(state)),
        "Feedback": [f"- {inline(text)}" for text in state.guidance.feedback],
        "Replaced by replans": [f"- {inline(text)}" for text in state.replaced],
        "What you can do": advice if state.goal.status == GoalStatus.FAILED else [],
    }
    parts = [f"## {title}\n\n" + "\n".join(lines) for title, lines in sections.items() if lines]
    head = f"# {inline(state.goal.description)}", _facts(state, detail)
    return redact(visible("\n\n".join([*head, *parts]))) + "\n"


def write(outbox: Path, state: State, text: str) -> Path:
    """Write the report to `outbox/<id>.md`, at once or not at all; raises OSError."""
    outbox.mkdir(parents=True, exist_ok=True)
    path = outbox / f"{state.goal_id}.md"
    write_whole(path, text)  # durable before the write is recorded
    return path


def _facts(state: State, detail: GoalDetail) -> str:
    made, (head, why) = state.proofs.made, because(detail)
    known = {name: inline(text) for name, text in facts(detail).items() if name not in SPENT}
    known["workspace"] = code(state.spec.workspace) if state.spec.workspace else ""
    if made and made.files:
        known["proof"] += f" ({', '.join(map(code, made.files))})"
    rows = {
        "status": f"**{inline(standing(detail))}**",
        head: inline(why),
        "summary": "" if is_told(state.summary, why) else inline(state.summary),
        "progress": percent(state.goal.progress()),
        **known,
        "last change": local(state.updated_at),
        "actions": f"{state.actions_total} allowed, {state.loops.blocked_total} refused",
        "iterations": str(state.iteration or ""),
        "unknown front-matter keys (ignored)": ", ".join(map(inline, state.spec.unknown_keys)),
    }
    return "\n".join(f"- {name}: {text}" for name, text in rows.items() if text)


def _question(state: State) -> list[str]:
    if state.goal.status != GoalStatus.BLOCKED:
        return []
    question = state.question or "How should it go on?"
    command = ["", f"    {answer(state)}"] if "`clew " not in question else []
    return [quoted(question, QUESTION_CHARS), *command]


def _tree(detail: GoalDetail) -> Iterator[str]:
    for task in tree(detail):
        yield f"- {task.mark} {inline(task.text)}{_in_brackets(task.done)}"
        for one in task.steps:
            yield f"  - {one.mark} {inline(one.text)}{_in_brackets(one.done)}"
            yield from (f"    {head}{inline(text)}" for head, text in one.notes)


def _in_brackets(text: str) -> str:
    return f" ({text})" if text else ""


def _checks(detail: GoalDetail) -> Iterator[str]:
    """Yield the checks with their results; how to add some where a completed goal has none."""
    for one in checks(detail):
        command = _in_brackets(one.command and code(one.command, CHECK_CHARS))
        said = one.output.strip() and f":{printed(one.output, CHECK_CHARS)}"
        yield f"- [{'x' if one.passed else ' '}] {inline(one.name)}{command}: {one.how}{said}"
    yield from (f"- {word}{code(cmd) if cmd else ''}" for word, cmd in unchecked(detail))


def _files(state: State, files: Sequence[ChangedFile] | None) -> list[str]:
    """Return the files that the goal changed, or why that is not known; [] where snapshots are not wanted."""
    known = state.snapshots
    if not known.first:
        return [f"not known: {inline(known.missing)}"] if known.missing else []
    if files is None:
        return [f"not known: the snapshots could not be read (`clew diff {state.goal_id}`)"]
    head = f"{total(files)} (`clew diff {state.goal_id}`)"
    lines = [head, "", *map(_file, files[:FILES_SHOWN])] if files else ["none"]
    if (more := len(files) - FILES_SHOWN) > 0:
        lines.append(f"- … {more} more")
    if known.left_out:
        count = words.counted(known.left_out, "file")
        lines += ["", f"{count} too large or not readable: changes there are not known"]
    return lines


def _file(one: ChangedFile) -> str:
    was = f" (was {code(one.old_path)})" if one.old_path else ""
    return f"- {code(one.path)}{was}, {one.how}"


def _tried(state: State, actions: Entries) -> list[str]:
    left_out = state.actions_total + state.loops.blocked_total - len(state.in_flight) - len(actions)
    earlier = f"- … {words.counted(left_out, 'earlier action')} (`clew history {state.goal_id}`)"
    lines = [earlier] if left_out > 0 else []
    for action in actions:
        shown = code(words.action_text(action["name"], action["args"]))
        lines.append(f"- #{action['seq']} {shown} → {words.outcome(action['result'])}")
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


def _restarts(state: State, detail: GoalDetail) -> Iterator[str]:
    yield f"- restarts: {state.restarts}"
    if state.epoch > state.restarts + 1:
        yield f"- workers: {state.epoch} (those after a stop and for a new attempt count, too)"
    yield from (f"- {inline(words.rerun_text(one))}" for one in detail["reruns"])
    if state.attempts.total:
        yield f"- fresh starts: {state.attempts.total}"
    for one in detail["attempts"][-FRESH_STARTS_SHOWN:]:
        yield f"- {'; '.join(word + inline(text) for word, text in fresh_start(one))}"


def _spent(state: State) -> Iterator[str]:
    cost = state.cost
    calls = f", {cost.llm_s:.1f} s of it in {words.counted(cost.calls, 'LLM call')}"
    yield f"- working time: {cost.active_s:.1f} s{calls if cost.calls else ''}"
    if cost.calls:
        split = f"{cost.tokens_in} in ({cost.tokens_cached} cached), {cost.tokens_out} out"
        yield f"- tokens: {cost.tokens}: {split}"
