"""The transcript in a prompt: whole call/result pairs, and lines in the place of what is folded.

It grows at its end only; between two folds nothing in it changes, so that servers can cache it. Folding is
decided here, as a pure function of a view; how far it went is kept by who asks.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from clew_shared.prompt import reasoning
from clew_shared.prompt.view import Call, Entry, Said, View
from clew_shared.prompt.windows import Window
from clew_shared.record.progress import both_ends
from clew_shared.text.redact import redact

Message = dict[str, Any]

OUTPUT_CHARS = 2_400
WHOLE_OUTPUT_CHARS = 8_000
WHOLE = frozenset(("read_file", "recall"))
"""Tools that are called to see a text itself: a command's output tells the most at its two ends."""

OUTPUT_CHARS_MIN = 200
ARG_CHARS = 6_000
ARGS_SHARE = 3
"""So many times what one argument may have, all of a call may have together."""

FOLD_TO = 0.5
"""A fold is made in one go, down to this share of the room, so that the next one is far."""

FOLDED_SHARE = 0.25
FOLDED_CALLS_MAX = 400
FOLDED_FOUND_CHARS = 160
HEAD_CHARS = 200
"""So much is kept of the texts of a folded call."""

_DROPPED_FIRST = {"low": 0, "medium": 1, "high": 2}


def output_chars(max_tokens: int, tightness: int = 0, tool: str = "") -> int:
    """Return how much of one output is shown; it depends on the budget alone, so that it never changes."""
    most = WHOLE_OUTPUT_CHARS if tool in WHOLE else OUTPUT_CHARS
    return max(min(most, max_tokens) >> tightness, OUTPUT_CHARS_MIN)


def shortened(text: str, max_chars: int) -> str:
    """Keep the head and the tail of a text that is too long, and say how much is missing."""
    if len(text) <= max_chars:
        return text
    mark = f"\n[… {len(text) - max_chars} characters left out …]\n"
    room = max(max_chars - len(mark), 0)
    head = room * 2 // 3
    tail = room - head
    return (text[:head] + mark + (text[-tail:] if tail else ""))[: max(max_chars, 0)]


def arg_chars(max_tokens: int, tightness: int = 0) -> int:
    """Return how much of one argument is shown; like `output_chars` it depends on the budget alone."""
    return max(min(ARG_CHARS, max_tokens) >> tightness, OUTPUT_CHARS_MIN)


def plain_args(args: Mapping[str, Any], max_chars: int = ARG_CHARS) -> dict[str, Any]:
    """Return arguments as they are shown and recorded: no keys in them, long ones shortened.

    What is too long together stands as one shortened text. Doing it twice changes nothing more.
    """
    plain = {str(key): _plain(value, max_chars) for key, value in args.items()}
    text = to_json(plain)
    if len(text) <= ARGS_SHARE * max_chars:
        return plain
    return {"args": shortened(text, max_chars)}


def _plain(value: Any, max_chars: int) -> Any:
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return shortened(redact(value), max_chars)
    text = json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)
    clean = redact(text)
    return value if clean == text and len(text) <= max_chars else shortened(clean, max_chars)


# ---- what is shown


def live(view: View) -> list[Message]:
    """Write the entries that are not folded; the model's own words only in the first window."""
    messages: list[Message] = []
    for entry in view.transcript[view.folded :]:
        messages += _written(entry, view)
    return messages


def _written(entry: Entry, view: View) -> list[Message]:
    limit = output_chars(view.max_tokens, view.tightness, getattr(entry, "name", ""))
    if isinstance(entry, Call):
        return pair(entry, view.mode, limit, arg_chars(view.max_tokens, view.tightness))
    if entry.role == "assistant" and view.window > Window.FULL:
        return []
    return [{"role": entry.role, "content": shortened(entry.text, limit)}]


def pair(
    call: Call, mode: str, limit: int = OUTPUT_CHARS, arg_limit: int = ARG_CHARS
) -> list[Message]:
    """Write a call and its result."""
    text = result_text(call, limit)
    args = plain_args(call.args, arg_limit)
    if mode == "json":
        said = to_json({"tool": call.name, "args": args})
        return [{"role": "assistant", "content": said}, {"role": "user", "content": text}]
    call_id = _call_id(call.seq)
    function = {"name": call.name, "arguments": to_json(args)}
    call_message = {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": call_id, "type": "function", "function": function}],
    }
    return [call_message, {"role": "tool", "tool_call_id": call_id, "content": text}]


def _call_id(seq: int) -> str:
    """Name a call in nine letters and digits, which is the form that the strictest servers want."""
    return f"call{seq % 100_000:05d}" if seq >= 0 else f"note{-seq % 100_000:05d}"


def result_text(call: Call, limit: int = OUTPUT_CHARS) -> str:
    """Say what came of a call, as the model reads it."""
    if call.result == "blocked":
        return f"REFUSED, not carried out. {shortened(call.message, limit)}".strip()
    if call.result == "interrupted":
        return (
            f"#{call.seq} interrupted: a crash cut it off and its effect is unknown. "
            "Look at the files before you do it again."
        )
    output = shortened(call.output, limit)
    if call.seq < 0:  # an answer of the agent itself, not an action on record
        return output
    code = f" (exit code {call.exit_code})" if call.exit_code else ""
    return f"#{call.seq} {call.result}{code}:\n{output or '(no output)'}"


def beheaded(entry: Entry) -> Entry:
    """Keep of a folded entry what is still shown of it: a call's line, a warning, the last thoughts."""
    if isinstance(entry, Said):
        keeps = entry.warns or entry.role == "assistant"
        return replace(entry, text=entry.text[: 2 * HEAD_CHARS] if keeps else "")
    return _beheaded_call(entry)


def _beheaded_call(call: Call) -> Call:
    return replace(
        call,
        args=plain_args(call.args, HEAD_CHARS),
        output=both_ends(call.output, HEAD_CHARS),
        message=call.message[:HEAD_CHARS],
        insight=call.insight[:HEAD_CHARS],
    )


def folded_lines(view: View, room: int) -> list[str]:
    """Write what is folded, a line a call: by relevance, in order of time within it.

    Over its room the least relevant go first, of those the oldest. Source: the reasoning context of the
    two-layer reflection design.
    """
    calls = [entry for entry in view.transcript[: view.folded] if isinstance(entry, Call)]
    calls = calls[-FOLDED_CALLS_MAX:]
    lines = [(call, _folded_line(call)) for call in calls]
    size = sum(len(line) + 1 for _, line in lines)
    order = sorted(range(len(lines)), key=lambda n: _DROPPED_FIRST[_relevance(calls[n])])
    dropped: set[int] = set()
    for n in order:
        if size <= room:
            break
        size -= len(lines[n][1]) + 1
        dropped.add(n)
    kept = [pair for n, pair in enumerate(lines) if n not in dropped]
    return [line for _, line in reasoning.by_relevance(kept, lambda pair: _relevance(pair[0]))]


def _relevance(call: Call) -> str:
    return call.relevance if call.relevance in _DROPPED_FIRST else "medium"


def _folded_line(whole: Call) -> str:
    call = _beheaded_call(whole)
    number = f"#{call.seq} " if call.seq > 0 else ""
    did = reasoning.did(call.name, call.args)
    came = reasoning.found(call.insight, "", call.result, call.output or call.message)
    return f"- {number}{reasoning.reasoning_line(did, both_ends(came, FOLDED_FOUND_CHARS))}"


# ---- what is folded


def settled(view: View, room: int) -> int:
    """Say how many of the oldest entries are to be folded now: never fewer than there are.

    Nothing until the room (characters) is full, then at once down to half of it; in the last window all but
    the last results. The newest entry is never folded.
    """
    sizes = _sizes(view)
    count, total = view.folded, sum(sizes)
    if total > room:
        while count < len(view.transcript) - 1 and total > room * FOLD_TO:
            total -= sizes[count - view.folded]
            count += 1
    if view.window is Window.EMERGENCY:
        count = max(count, _before_last(view.transcript, view.windows.emergency_results))
    return count


def _sizes(view: View) -> list[int]:
    return [chars(_written(entry, view)) for entry in view.transcript[view.folded :]]


def _before_last(entries: Sequence[Entry], results: int) -> int:
    """Count the entries before the last `results` calls."""
    at = [n for n, entry in enumerate(entries) if isinstance(entry, Call)]
    return at[-results] if len(at) > results else 0


def warnings(view: View, count: int) -> list[str]:
    """Return the last interventions that are folded: what must stay, stays."""
    said = [e.text for e in view.transcript[: view.folded] if isinstance(e, Said) and e.warns]
    return [text[: 2 * HEAD_CHARS] for text in said[-count:]]


def to_json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def chars(messages: Iterable[Message]) -> int:
    """Count the characters of messages: what `chars_per_token` is calibrated on."""
    return sum(_chars(message) for message in messages)


def _chars(message: Message) -> int:
    calls = message.get("tool_calls") or ()
    return len(message["content"]) + sum(
        len(c["function"]["name"]) + len(c["function"]["arguments"]) for c in calls
    )
