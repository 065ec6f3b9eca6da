"""The transcript in a prompt: whole call/result pairs, and lines in the place of folded entries.

It grows at its end only; between two folds nothing in it changes, so that servers can cache it. How much is folded
is decided here, as a pure function of a view; the caller keeps the result.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from clew_shared.gate.table import WHAT_ELSE
from clew_shared.prompt import reasoning
from clew_shared.prompt.view import PromptView
from clew_shared.prompt.windows import Window
from clew_shared.text.redact import redact
from clew_shared.text.shorten import both_ends, without_middle
from clew_shared.tools import BY_NAME
from clew_shared.wire.hello import Call, Entry, Said

Message = dict[str, Any]

FIXED_CHARS_PER_TOKEN = 3.0
"""For shares of the budget: calibrated counts would move what must stay the same."""

OUTPUT_CHARS = 2_400
WHOLE_OUTPUT_CHARS = 8_000
"""The limit for tools that show a text for its own sake; a command's output tells the most at its two ends."""

OUTPUT_CHARS_MIN = 200
ARG_CHARS = 6_000
ARGS_SHARE = 3
"""All arguments of a call together may have this many times the limit of one."""

FOLD_TO = 0.5
"""A fold leaves this share of the room, so that the next one is far away."""

FOLDED_SHARE = 0.25
FOLDED_CALLS_MAX = 400
FOLDED_FOUND_CHARS = 160
HEAD_CHARS = 200
"""How much of the texts of a folded call remains."""

NO_CALL = "You called no tool, so nothing was done. Call one tool now, or call finish."
EMPTY_ANSWER = "Your answer was empty. Call one tool now, or call finish."
CUT_OFF = "Your answer was cut off because it was too long. Make one short call."
_NUDGES = frozenset((NO_CALL, EMPTY_ANSWER, CUT_OFF))
"""What a model is told that made no call."""


def share_chars(max_tokens: int, share: float) -> int:
    """Return the characters of a share of the budget, at least 200."""
    return max(int(max_tokens * FIXED_CHARS_PER_TOKEN * share), 200)


def output_chars(max_tokens: int, tightness: int = 0, tool: str = "") -> int:
    """Return how much of one output is shown; it depends on the budget only, so that it never changes."""
    shows_text = tool in BY_NAME and BY_NAME[tool].shows_text
    most = WHOLE_OUTPUT_CHARS if shows_text else OUTPUT_CHARS
    return max(min(most, max_tokens) >> tightness, OUTPUT_CHARS_MIN)


def arg_chars(max_tokens: int, tightness: int = 0) -> int:
    """Return how much of one argument is shown; like `output_chars` it depends on the budget only."""
    return max(min(ARG_CHARS, max_tokens) >> tightness, OUTPUT_CHARS_MIN)


def plain_args(args: Mapping[str, Any], max_chars: int = ARG_CHARS) -> dict[str, Any]:
    """Return arguments as they are shown and recorded: without keys, long ones shortened.

    Arguments that are too long together become one shortened text. The function is idempotent.
    """
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


def unfolded_messages(view: PromptView) -> list[Message]:
    """Return the entries that are not folded; the model's own text only in the first window."""
    return [message for messages in _unfolded(view) for message in messages]


def _unfolded(view: PromptView) -> list[list[Message]]:
    """Return the messages of each entry that is not folded; none of an answer without a call before the last turn."""
    idle = idle_entries(view.transcript)
    return [
        [] if n in idle else _written(view.transcript[n], view)
        for n in range(view.folded, len(view.transcript))
    ]


def idle_entries(entries: Sequence[Entry]) -> set[int]:
    """Return the places of answers without a call, and of the requests for one, that the model has answered since."""
    idle: set[int] = set()
    answered, before_call, nudges = False, False, 0
    for n in range(len(entries) - 1, -1, -1):
        entry = entries[n]
        if isinstance(entry, Call):
            answered = before_call = True
        elif entry.warns:
            continue
        elif entry.role == "assistant":
            if not before_call and (answered or nudges > 1):
                idle.add(n)
            answered, before_call = True, False
        elif entry.text in _NUDGES:
            if answered or nudges:
                idle.add(n)
            before_call, nudges = False, nudges + 1
        else:
            before_call = False
    return idle


def _written(entry: Entry, view: PromptView) -> list[Message]:
    limit = output_chars(view.max_tokens, view.tightness, getattr(entry, "name", ""))
    if isinstance(entry, Call):
        shown = _with_fitting_advice(entry, view)
        return pair(shown, view.mode, limit, arg_chars(view.max_tokens, view.tightness))
    if entry.role == "assistant" and view.window > Window.FULL:
        return []
    return [{"role": entry.role, "content": without_middle(entry.text, limit)}]


def _with_fitting_advice(call: Call, view: PromptView) -> Call:
    """Leave out the advice of a refusal where it names a tool that is not offered: the state block has better."""
    if call.result != "blocked" or any(tool.name == "complete_subtask" for tool in view.tools):
        return call
    return replace(call, message=call.message.partition(f" {WHAT_ELSE}")[0])


def pair(
    call: Call, mode: str, limit: int = OUTPUT_CHARS, arg_limit: int = ARG_CHARS
) -> list[Message]:
    """Return a call and its result as two messages."""
    text = result_text(call, limit)
    args = plain_args(call.args, arg_limit)
    if mode == "json":
        asked = f'{{"tool": {json.dumps(call.name, ensure_ascii=False)}, "args": {to_json(args)}}}'
        return [{"role": "assistant", "content": asked}, {"role": "user", "content": text}]
    call_id = _call_id(call.seq)
    function = {"name": call.name, "arguments": to_json(args)}
    call_message = {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": call_id, "type": "function", "function": function}],
    }
    return [call_message, {"role": "tool", "tool_call_id": call_id, "content": text}]


def _call_id(seq: int) -> str:
    """Return an id of nine letters and digits, the form that the strictest servers require."""
    return f"call{seq % 100_000:05d}" if seq >= 0 else f"note{-seq % 100_000:05d}"


def result_text(call: Call, limit: int = OUTPUT_CHARS) -> str:
    """Return the result of a call as the model reads it."""
    if call.result == "blocked":
        return f"REFUSED, not carried out. {without_middle(call.message, limit)}".strip()
    if call.result == "interrupted":
        return (
            f"#{call.seq} interrupted: a crash cut it off and its effect is unknown. "
            "Look at the files before you do it again."
        )
    output = without_middle(call.output, limit)
    if call.seq < 0:  # the agent's own answer, not a recorded action
        return output
    code = f" (exit code {call.exit_code})" if call.exit_code else ""
    return f"#{call.seq} {call.result}{code}:\n{output or '(no output)'}"


def folded_entry(entry: Entry) -> Entry:
    """Return an entry shortened to what is shown of it once folded: a call's line, a warning, a late thought."""
    if isinstance(entry, Said):
        keeps = entry.warns or entry.role == "assistant"
        return replace(entry, text=entry.text[: 2 * HEAD_CHARS] if keeps else "")
    return _folded_call(entry)


def _folded_call(call: Call) -> Call:
    return replace(
        call,
        args=plain_args(call.args, HEAD_CHARS),
        output=both_ends(call.output, HEAD_CHARS),
        message=call.message[:HEAD_CHARS],
        insight=call.insight[:HEAD_CHARS],
    )


def folded_lines(view: PromptView, room: int) -> list[str]:
    """Return the folded calls, a line each: by relevance, in order of time within it.

    Where there is no room for all, the least relevant are dropped first, and of those the oldest.
    """
    calls = [entry for entry in view.transcript[: view.folded] if isinstance(entry, Call)]
    calls = calls[-FOLDED_CALLS_MAX:]
    return reasoning.relevant_lines([(c.relevance, _folded_line(c)) for c in calls], room)


def _folded_line(whole: Call) -> str:
    call = _folded_call(whole)
    number = f"#{call.seq} " if call.seq > 0 else ""
    did = reasoning.did(call.name, call.args)
    came = reasoning.found(call.insight, "", call.result, call.output or call.message)
    return f"- {number}{reasoning.reasoning_line(did, both_ends(came, FOLDED_FOUND_CHARS))}"


# ---- what is folded


def entries_to_fold(view: PromptView, room: int) -> int:
    """Return how many of the oldest entries are to be folded: at least as many as are folded already.

    What is stale is folded first. Otherwise nothing is folded until the room (characters) is full, then half of it is
    freed at once; in the last window all but the last results are folded. The newest entry is never folded.
    """
    sizes = _sizes(view)
    stale = stale_entries(view)
    count = max(view.folded, stale)
    total = sum(sizes[count - view.folded :])
    if total > room:
        while count < len(view.transcript) - 1 and total > room * FOLD_TO:
            total -= sizes[count - view.folded]
            count += 1
    if view.window is Window.EMERGENCY:
        count = max(count, _before_last(view.transcript, view.windows.emergency_results))
    return count


def stale_entries(view: PromptView) -> int:
    """Return how many of the oldest entries are up to the last one that is too old.

    Age is the time on record between a result and the last result, so that the same record gives the same prompt.
    """
    times = [entry.at if isinstance(entry, Call) else None for entry in view.transcript]
    known = [(n, at) for n, at in enumerate(times) if at is not None]
    if not (view.stale_after_s and known):
        return 0
    last = known[-1][1]
    return max((n + 1 for n, at in known if last - at > view.stale_after_s), default=0)


def _sizes(view: PromptView) -> list[int]:
    return [chars(messages) for messages in _unfolded(view)]


def _before_last(entries: Sequence[Entry], results: int) -> int:
    """Return the number of entries before the last `results` calls."""
    at = [n for n, entry in enumerate(entries) if isinstance(entry, Call)]
    return at[-results] if len(at) > results else 0


def warnings(view: PromptView, count: int) -> list[str]:
    """Return the last interventions among the folded entries."""
    texts = [e.text for e in view.transcript[: view.folded] if isinstance(e, Said) and e.warns]
    return [text[: 2 * HEAD_CHARS] for text in texts[-count:]]


def to_json(value: Mapping[str, Any]) -> str:
    """Return JSON that is the same for equal values."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def chars(messages: Iterable[Message]) -> int:
    """Return the characters of messages, on which `chars_per_token` is calibrated."""
    return sum(_chars(message) for message in messages)


def _chars(message: Message) -> int:
    calls = message.get("tool_calls") or ()
    return len(message["content"]) + sum(
        len(c["function"]["name"]) + len(c["function"]["arguments"]) for c in calls
    )
