"""Makes an answer fit one line of the protocol: old actions go first, then the middles of long texts."""

import json
from copy import deepcopy
from typing import Any

from clew_shared.prompt.messages import plain_args
from clew_shared.text.redact import redacted
from clew_shared.text.shorten import without_middle
from clew_shared.wire.hello import HelloAnswer
from clew_shared.wire.protocol import LINE_BYTES_MAX

Json = dict[str, Any]

ROOM_BYTES = LINE_BYTES_MAX - 50_000  # the rest: the envelope, the key, what is beside the goal
TEXT_CHARS = (20_000, 2_000, 200, 80)  # the longest text, until the answer fits
_RUN = {"steps", "checks", "tools", "options"}
_COMPARED = {"blocked_actions", "loop_counts", "signature", "workspace"}
WHOLE = _RUN | _COMPARED  # never shortened
LISTED = 100  # finished subtasks and strategies, where shorter texts are not enough


def fitted(answer: HelloAnswer) -> HelloAnswer:
    """Return the answer to `hello`, shortened step by step until it fits a line."""
    whole = answer.as_json()
    short = fitted_state(whole)
    return answer if short is whole else HelloAnswer.model_validate(short)


def published_state(state: Json) -> Json:
    """Return the content of `state.json`: without keys, and no larger than a line."""
    shown: Json = fitted_state({"state": redacted(state)})["state"]
    return shown


def fitted_state(answer: Json) -> Json:
    """Return the JSON of an answer that holds a state, shortened step by step until it fits a line."""
    if _bytes(answer) <= ROOM_BYTES:
        return answer
    short = deepcopy(answer)
    state = short["state"]
    here = state["current_task_idx"], state["current_subtask_idx"]
    for t, task in enumerate(state["goal"]["tasks"]):
        for s, subtask in enumerate(task["subtasks"]):
            subtask["actions"] = subtask["actions"] if (t, s) == here else []
    for chars in TEXT_CHARS:
        if _bytes(short) > ROOM_BYTES:
            short = _cut(short, chars)
    if _bytes(short) > ROOM_BYTES and "playbook" in short:  # to `hello`
        short["playbook"] = short["playbook"][:LISTED]
        short["state"]["finished"] = short["state"]["finished"][-LISTED:]
    over = _bytes(short) - ROOM_BYTES
    for entry in short["state"].get("transcript", ()):  # the oldest, which keep their positions
        if over > 0:
            over -= _bytes(entry)
            entry.clear()
            entry["role"] = "user"
            over += _bytes(entry)
    return short


def _bytes(value: Json) -> int:
    return len(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))


def _cut(value: Any, chars: int, key: str = "") -> Any:
    match value:
        case dict() if key == "args":  # of any shape, as an agent proposed them
            return plain_args(value, chars)
        case str():
            return without_middle(value, chars)
        case list():
            return [_cut(one, chars) for one in value]
        case dict():
            return {k: one if k in WHOLE else _cut(one, chars, k) for k, one in value.items()}
        case _:
            return value
