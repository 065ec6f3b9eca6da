"""The transcript in a prompt: whole call/result pairs, and lines in the place of folded entries.

It grows at its end only; between two folds nothing in it changes, so that servers can cache it. How much is folded
is decided here, as a pure function of a view; the caller keeps the result.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from clew_shared.gate.rules import WHAT_ELSE
from clew_shared.prompt import reasoning
from clew_shared.prompt.view import PromptView
from clew_shared.prompt.windows import Window
from clew_shared.text.redact import redact
from clew_shared.text.shorten import both_ends, without_middle, without_own_files
from clew_shared.tools import TEXT_TOOLS
from clew_shared.wire.hello import Call, Entry, Said

Message = dict[str, Any]

OUTPUT_CHARS, OUTPUT_CHARS_MIN = 2_400, 200
WHOLE_OUTPUT_CHARS = 8_000
"""The limit for tools that show a text for its own sake; a command's output tells the most at its two ends."""

ARG_CHARS = 6_000
ARGS_SHARE = 3  # all arguments of a call together may have this many times the limit of one
FOLD_TO = 0.5  # a fold leaves this share of the room, so that the next one is far away
FOLDED_SHARE = 0.25
FOLDED_CALLS_MAX, FOLDED_FOUND_CHARS = 400, 160
HEAD_CHARS = 200  # how much of the texts of a folded call remains
NO_CALL = "You called no tool, so nothing was done. Call one tool now, or call finish."
EMPTY_ANSWER = "Your answer was empty. Call one tool now, or call finish."
CUT_OFF = "Your answer was cut off because it was too long. Make one short call."
_NUDGES = (NO_CALL, EMPTY_ANSWER, CUT_OFF)


def output_chars(max_tokens: int, tightness: int = 0, tool: str = "") -> int:
    """Return how much of one output is shown; it depends on the budget only, so that it never changes."""
    most = WHOLE_OUTPUT_CHARS if tool in TEXT_TOOLS else OUTPUT_CHARS
    return max(min(most, max_tokens) >> tightness, OUTPUT_CHARS_MIN)


def plain_args(args: Mapping[str, Any], max_chars: int = ARG_CHARS) -> dict[str, Any]:
    """Return arguments as they are shown and recorded: without keys, shortened, one text if they are long together."""
    plain = {str(key): _plain(value, max_chars) for key, value in args.items()}
    text = to_json(plain)
    if len(text) <= ARGS_SHARE * max_chars:
        return plain
    return {"args": without_middle(text, max_chars)}


def _plain(value: Any, max_chars: int) -> Any:
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return without_middle(redact(value), max_chars)
    text = json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)
    clean = redact(text)
    return value if clean == text and len(text) <= max_chars else without_middle(clean, max_chars)


# ---- what is shown


def unfolded(view: PromptView) -> list[list[Message]]:
    """Return the messages of each entry that is not folded; a request for a call only until one was made."""
    entries = view.state.transcript
    last = max((n for n, e in enumerate(entries) if isinstance(e, Call)), default=-1)
    return [
        [] if n < last and isinstance(e, Said) and e.text in _NUDGES else _written(e, view)
        for n, e in enumerate(entries)
        if n >= view.folded
    ]


def _written(entry: Entry, view: PromptView) -> list[Message]:
    """Return an entry as messages; the model's own text only in the first window."""
    limit = output_chars(view.max_tokens, view.tightness, getattr(entry, "name", ""))
    if isinstance(entry, Said):
        hidden = entry.role == "assistant" and view.window > Window.FULL
        content = without_middle(entry.text, limit)
        return [] if hidden else [{"role": entry.role, "content": content}]
    if entry.result == "blocked" and all(tool.name != "complete_subtask" for tool in view.tools):
        # its advice names a tool that is not offered: the state block has better
        entry = replace(entry, message=entry.message.partition(f" {WHAT_ELSE}")[0])
    arg_limit = max(min(ARG_CHARS, view.max_tokens) >> view.tightness, OUTPUT_CHARS_MIN)
    return _pair(entry, view.mode, limit, arg_limit)


def _pair(call: Call, mode: str, limit: int, arg_limit: int) -> list[Message]:
    text, args = _result_text(call, limit), to_json(plain_args(call.args, arg_limit))
    if mode == "json":
        asked = f'{{"tool": {json.dumps(call.name, ensure_ascii=False)}, "args": {args}}}'
        return [{"role": "assistant", "content": asked}, {"role": "user", "content": text}]
    # nine letters and digits: the form of an id that the strictest servers require
    call_id = f"{'call' if call.seq >= 0 else 'note'}{abs(call.seq) % 100_000:05d}"
    function = {"name": call.name, "arguments": args}
    asks = [{"id": call_id, "type": "function", "function": function}]
    return [
        {"role": "assistant", "content": "", "tool_calls": asks},
        {"role": "tool", "tool_call_id": call_id, "content": text},
    ]


def _result_text(call: Call, limit: int) -> str:
    if call.result == "blocked":
        return f"REFUSED, not carried out. {without_middle(call.message, limit)}".strip()
    if call.result == "interrupted":
        cut_off = f"#{call.seq} interrupted: a crash cut it off and its effect is unknown."
        return f"{cut_off} Look at the files before you do it again."
    output = without_middle(without_own_files(call.output), limit)
    if call.seq < 0:  # the agent's own answer, not a recorded action
        return output
    code = f" (exit code {call.exit_code})" if call.exit_code else ""
    return f"#{call.seq} {call.result}{code}:\n{output or '(no output)'}"


def folded_entry(entry: Entry) -> Entry:
    """Return an entry shortened to what is shown of it once folded: a call's line, a warning, a late thought."""
    if isinstance(entry, Said):
        keeps = entry.warns or entry.role == "assistant"
        return replace(entry, text=entry.text[: 2 * HEAD_CHARS] if keeps else "")
    args, output = plain_args(entry.args, HEAD_CHARS), both_ends(entry.output, HEAD_CHARS)
    message, insight = entry.message[:HEAD_CHARS], entry.insight[:HEAD_CHARS]
    return replace(entry, args=args, output=output, message=message, insight=insight)


def folded_lines(view: PromptView, room: int) -> list[str]:
    """Return the folded calls that fit, a line each: by relevance, in order of time within it."""
    entries = map(folded_entry, view.state.transcript[: view.folded])
    lines = []
    for call in [e for e in entries if isinstance(e, Call)][-FOLDED_CALLS_MAX:]:
        number = f"#{call.seq} " if call.seq > 0 else ""
        did = reasoning.did(call.name, call.args)
        came = reasoning.found(call.insight, "", call.result, call.output or call.message)
        line = reasoning.reasoning_line(did, both_ends(came, FOLDED_FOUND_CHARS))
        lines.append((call.relevance, f"- {number}{line}"))
    return reasoning.relevant_lines(lines, room)


def merged(messages: Iterable[Message]) -> list[Message]:
    """Join adjacent messages of one role, and a user's text to a tool's result: many chat templates insist on turns."""
    joined: list[Message] = []
    for message in messages:
        last = joined[-1] if joined else None
        if last and message["role"] == "user" and last["role"] in ("user", "tool"):
            joined[-1] = {**last, "content": last["content"] + "\n\n" + message["content"]}
        elif last and message["role"] == last["role"] == "assistant" and "tool_calls" not in last:
            content = (last["content"] + "\n\n" + message["content"]).strip()
            joined[-1] = {**message, "content": content}
        else:
            joined.append(message)
    return joined


# ---- what is folded


def entries_to_fold(view: PromptView, room: int) -> int:
    """Return how many of the oldest entries to fold: none until the room is full, then half of it is freed at once."""
    sizes = [chars(messages) for messages in unfolded(view)]
    count, total = view.folded, sum(sizes)
    if total > room:
        while count < len(view.state.transcript) - 1 and total > room * FOLD_TO:
            total -= sizes[count - view.folded]
            count += 1
    if view.window is Window.EMERGENCY:
        results = view.hello.options.context.recent_actions
        calls = [n for n, entry in enumerate(view.state.transcript) if isinstance(entry, Call)]
        count = max(count, calls[-results] if len(calls) > results else 0)
    return count


def to_json(value: Mapping[str, Any]) -> str:
    """Return JSON that is the same for equal values."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def chars(messages: Iterable[Message]) -> int:
    """Return the characters of messages, on which `chars_per_token` is calibrated."""
    total = 0
    for message in messages:
        total += len(message["content"])
        for function in (call["function"] for call in message.get("tool_calls") or ()):
            total += len(function["name"]) + len(function["arguments"])
    return total


def warning(message: str) -> Said:
    return Said("user", f"Note: {message}", warns=True)
