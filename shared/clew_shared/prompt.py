"""The prompt: a pure, byte-deterministic function of a view (design, "Context").

Most stable first, so that servers can cache the prefix: system · goal · finished subtasks · the
current subtask's transcript, append-only · last, the state block. It knows no clock, no socket and
no model.
"""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from clew_shared.prompt_tools import is_own, listing
from clew_shared.prompt_view import LAST_SHARE, URGENT_SHARE, Call, Entry, Said, View

Message = dict[str, Any]

RULES = (
    "You do a goal in a working folder by calling tools. "
    "Call one tool, read its result, then decide what is next. Use relative paths. "
    "Read a file before you change it. "
    "To create a file call write_file with its whole content; run_cmd is for commands and tests. "
    "Never repeat a call that succeeded: a call that brings nothing new is refused. "
    "When the goal is reached, call finish."
)
JSON_RULES = (
    'Answer with one JSON object and nothing else: {"tool": NAME, "args": {...}}\n'
    "The tools and their args (? = optional):"
)
OUTPUT_CHARS = 3_000
ARG_CHARS = 6_000
TRANSCRIPT_SHARE = 0.75
FOLD_TO = 0.5
FOLDED_ARGS_CHARS = 100
SUMMARY_CHARS = 300
FEEDBACK_SHOWN = 5
FEEDBACK_CHARS = 1_000
BLOCKED_SHOWN = 10
CHARS_PER_TOKEN_STEP = 0.5

_MENDING = re.compile(
    r"\b(fix|bugs?|fail(s|ed|ing)?|broken|repair|debug|change|update|rename|refactor|improve)\b",
    re.IGNORECASE,
)
"""Words of work on what exists already: small models overwrite it unread unless told to look."""


def build(view: View) -> list[Message]:
    """Write the messages of a view, as the chat completions API takes them.

    Calls and results come in whole pairs; no two messages of one role (but `tool`) stand together.
    """
    blocks = _blocks(view)
    return _merged([message for _, messages in blocks for message in messages])


def describe(view: View) -> dict[str, dict[str, int]]:
    """Give the size of each block of the prompt: `chars` and estimated `tokens`."""
    sizes = {name: sum(map(_chars, messages)) for name, messages in _blocks(view)}
    sizes["total"] = sum(sizes.values())
    per_token = _per_token(view)
    return {n: {"chars": c, "tokens": round(c / per_token)} for n, c in sizes.items()}


def size_chars(messages: Iterable[Message]) -> int:
    """Count the characters of messages: what `chars_per_token` is calibrated on."""
    return sum(map(_chars, messages))


def shortened(text: str, max_chars: int) -> str:
    """Keep the head and the tail of a text that is too long, and say how much is missing."""
    if len(text) <= max_chars:
        return text
    mark = f"\n[… {len(text) - max_chars} characters left out …]\n"
    room = max(max_chars - len(mark), 0)
    head = room * 2 // 3
    tail = room - head
    return (text[:head] + mark + (text[-tail:] if tail else ""))[: max(max_chars, 0)]


def _blocks(view: View) -> list[tuple[str, list[Message]]]:
    head = [
        ("system", [{"role": "system", "content": _system(view)}]),
        ("goal", [_user(_goal(view))]),
        ("finished", [_user(_finished(view))] if view.finished else []),
        ("subtask", [] if view.implicit or not view.subtask else [_user(_now(view))]),
    ]
    used = sum(_chars(m) for _, messages in head for m in messages)
    room = int(view.max_tokens * _per_token(view) * TRANSCRIPT_SHARE) - used
    room = max(room, 1_000) // 2**view.tightness
    return [
        *head,
        ("transcript", _transcript(view, room)),
        ("state", [_user(state_block(view))]),
    ]


def _system(view: View) -> str:
    parts = [RULES]
    if view.mode == "json":
        parts.append(JSON_RULES + "\n" + listing(view.steady_tools))
    if view.playbook.strip():
        parts.append(view.playbook.strip())
    return "\n\n".join(parts)


def _goal(view: View) -> str:
    parts = ["Goal: " + view.goal]
    if view.notes.strip() and view.notes.strip() != view.goal.strip():
        parts.append("Notes:\n" + view.notes.strip())
    if view.done_when.strip():
        parts.append("Done when:\n" + view.done_when.strip())
    if view.checks:
        lines = [f"- {name}: {command}" for name, command in view.checks.items()]
        parts.append("Checks that are run at the end and must exit 0:\n" + "\n".join(lines))
    return "\n\n".join(parts)


def _finished(view: View) -> str:
    lines = []
    for done in view.finished:
        said = " ".join(done.summary.split())
        mark = "x" if done.status in ("completed", "skipped") else done.status
        tail = f": {shortened(said, SUMMARY_CHARS)}" if said else ""
        lines.append(f"- [{mark}] {done.description}{tail}")
    return "Finished before:\n" + "\n".join(lines)


def _now(view: View) -> str:
    part_of = "" if view.task in ("", view.subtask, view.goal) else f' (part of "{view.task}")'
    return f"Your subtask now: {view.subtask}{part_of}"


# ---- the transcript


def _transcript(view: View, room: int) -> list[Message]:
    """Write the transcript; over its room, the older part is folded into one line a call."""
    output_chars = max(min(OUTPUT_CHARS, room // 3), 200)
    groups = [_pair(entry, view.mode, output_chars) for entry in view.transcript]
    folded = folded_count([sum(map(_chars, group)) for group in groups], room)
    lines = [_folded_line(e) for e in view.transcript[:folded] if isinstance(e, Call)]
    kept = [message for group in groups[folded:] for message in group]
    if not folded:
        return kept
    head = "Earlier in this subtask (#N: recall shows the output again):\n"
    return [_user(shortened(head + "\n".join(lines), max(room // 3, 300))), *kept]


def folded_count(sizes: list[int], room: int) -> int:
    """Say how many of the oldest entries are folded, given all sizes and the room, in characters.

    As if it had been asked after each entry: nothing until the room is full, then at once down to
    half of it. So the prompt's prefix stays the same between two folds. The newest entry is never
    folded.
    """
    folded, total = 0, 0
    for count, size in enumerate(sizes, start=1):
        total += size
        if total <= room:
            continue
        while folded < count - 1 and total > room * FOLD_TO:
            total -= sizes[folded]
            folded += 1
    return folded


def _pair(entry: Entry, mode: str, output_chars: int) -> list[Message]:
    if isinstance(entry, Said):
        return [{"role": entry.role, "content": shortened(entry.text, output_chars)}]
    text = result_text(entry, output_chars)
    args = {key: _arg(value) for key, value in entry.args.items()}
    if mode == "json":
        call = _json({"tool": entry.name, "args": args})
        return [{"role": "assistant", "content": call}, _user(text)]
    call_id = _call_id(entry.seq)
    function = {"name": entry.name, "arguments": _json(args)}
    call_message = {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": call_id, "type": "function", "function": function}],
    }
    return [call_message, {"role": "tool", "tool_call_id": call_id, "content": text}]


def _call_id(seq: int) -> str:
    """Name a call in nine letters and digits, which is the form that the strictest servers want."""
    return f"call{seq % 100_000:05d}" if seq >= 0 else f"note{-seq % 100_000:05d}"


def result_text(call: Call, output_chars: int = OUTPUT_CHARS) -> str:
    """Say what came of a call, as the model reads it."""
    if call.result == "blocked":
        return f"REFUSED, not carried out. {call.message}".strip()
    if call.result == "interrupted":
        return (
            f"#{call.seq} interrupted: a crash cut it off and its effect is unknown. "
            "Look at the files before you do it again."
        )
    output = shortened(call.output, output_chars)
    if call.seq < 0:  # an answer of the agent itself, not an action on record
        return output
    code = f" (exit code {call.exit_code})" if call.exit_code else ""
    return f"#{call.seq} {call.result}{code}:\n{output or '(no output)'}"


def _folded_line(call: Call) -> str:
    args = _json({key: _arg(value) for key, value in call.args.items()})
    if len(args) > FOLDED_ARGS_CHARS:
        args = args[:FOLDED_ARGS_CHARS] + "…"
    return f"- #{call.seq} {call.name} {args}: {call.result}"


def _arg(value: Any) -> Any:
    return shortened(value, ARG_CHARS) if isinstance(value, str) else value


# ---- the state block


def state_block(view: View) -> str:
    """Write what the model reads last: where it stands and what is asked of it now."""
    lines = [*_standing(view), *_limits(view)]
    own = tuple(t for t in view.tools if is_own(t))
    if own and view.mode == "json":
        lines.append("Also there now:\n" + listing(own))
    if view.replan:
        lines.append(_replan(view))
    elif not view.subtask_open:
        lines.append("Every subtask is over. Mend what is missing, then call finish.")
    else:
        lines.append(_ask(view))
    return "\n".join(lines)


def _standing(view: View) -> list[str]:
    lines = []
    if view.attempts and view.subtask_open:
        why = f" It failed with: {shortened(view.last_failure, 400)}" if view.last_failure else ""
        lines.append(f"This is attempt {view.attempts + 1}.{why}")
    if view.next_subtask:
        lines.append(f"After this subtask: {view.next_subtask}")
    if view.probes:
        marks = (f"{name} {'✓' if ok else '✗'}" for name, ok in sorted(view.probes.items()))
        lines.append("Known: " + ", ".join(marks))
    if view.blocked:
        names = "; ".join(shortened(name, 120) for name in view.blocked[-BLOCKED_SHOWN:])
        lines.append(f"Refused from now on: {names}")
    said = (shortened(text, FEEDBACK_CHARS) for text in view.feedback[-FEEDBACK_SHOWN:])
    return [*lines, *(f"A person says: {text}" for text in said)]


def _limits(view: View) -> list[str]:
    if view.iteration < view.progress_from:
        return []
    counts = f"Iteration {view.iteration}/{view.max_iterations} | {view.tools_used} tools used"
    lines = [f"[PROGRESS: {counts}]"]
    if view.iteration >= view.max_iterations * LAST_SHARE:
        lines.append("These are your last turns: call finish now if the goal is reached.")
    elif view.iteration >= view.max_iterations * URGENT_SHARE:
        lines.append("Few turns are left: do only what the goal needs.")
    return lines


def _replan(view: View) -> str:
    what = "this task" if view.replan == "task" else "the rest of the goal"
    why = f" Last failure: {shortened(view.last_failure, 400)}" if view.last_failure else ""
    form = "exactly one task, with new subtasks" if view.replan == "task" else "new tasks"
    return (
        f'The subtask "{view.subtask}" does not work this way and is closed.{why} '
        f"Find another way to do {what}: call plan with {form}."
    )


def _ask(view: View) -> str:
    """Ask for the next call, in the light of what the last one did."""
    goal_only = view.implicit
    what = "goal" if goal_only else "subtask"
    done = "finish" if goal_only else "complete_subtask"
    last = next((e for e in reversed(view.transcript) if isinstance(e, Call)), None)
    if last is None:
        return _ask_first(view)
    if last.name == "finish":  # it was not accepted, or it would be over
        return "Do what is missing: write or change a file, or call another tool."
    if last.result == "blocked":
        return f"It was refused. If the {what} is done, call {done}. If not, call something else."
    if last.result != "success":
        return "That did not work. Find out why, then call another tool."
    if last.changed is False and last.name in ("write_file", "edit_file"):
        return f"Nothing changed: it was already so. If the {what} is done, call {done} now."
    return f"Is the {what} done now? If yes, call {done}. If not, call the next tool."


def _ask_first(view: View) -> str:
    if _MENDING.search(view.subtask or view.goal):
        return "First look: call read_file on what this is about, before you change anything."
    plan = "Call plan, or the first tool."
    return plan if _offers(view, "plan") else "Call the first tool."


def _offers(view: View, name: str) -> bool:
    return any(tool.name == name for tool in view.tools)


# ---- messages


def _user(content: str) -> Message:
    return {"role": "user", "content": content}


def _merged(messages: list[Message]) -> list[Message]:
    """Join what follows in one role, since many chat templates insist on turns.

    Words after a tool's result are put into that result for the same reason.
    """
    merged: list[Message] = []
    for message in messages:
        last = merged[-1] if merged else None
        if last and message["role"] == "user" and last["role"] in ("user", "tool"):
            joined = last["content"] + "\n\n" + message["content"]
            merged[-1] = {**last, "content": joined}
        elif last and message["role"] == last["role"] == "assistant" and "tool_calls" not in last:
            joined = (last["content"] + "\n\n" + message["content"]).strip()
            merged[-1] = {**message, "content": joined}
        else:
            merged.append(message)
    return merged


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def _chars(message: Message) -> int:
    calls = message.get("tool_calls") or ()
    return len(message["content"]) + sum(
        len(c["function"]["name"]) + len(c["function"]["arguments"]) for c in calls
    )


def _per_token(view: View) -> float:
    """Give the calibration in steps, so that a small drift does not move the folds."""
    steps = round(view.chars_per_token / CHARS_PER_TOKEN_STEP)
    return max(steps, 2) * CHARS_PER_TOKEN_STEP
