"""Makes an answer fit one line of the protocol: old actions, long texts and finished work are shortened first."""

import json
from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from typing import Any

from clew_shared.prompt.messages import plain_args
from clew_shared.text.redact import redacted
from clew_shared.text.shorten import without_middle
from clew_shared.wire.hello import HelloAnswer
from clew_shared.wire.protocol import LINE_BYTES_MAX

Json = dict[str, Any]
_Step = Callable[[Json], None]

ROOM_BYTES = LINE_BYTES_MAX - 50_000  # the rest: the envelope, the key, what is beside the goal
TRANSCRIPT_BYTES, WHOLE_ENTRIES_BYTES = 600_000, 300_000
TEXT_CHARS = 200
NOTES_CHARS = 20_000
NAME_CHARS = 80
FINISHED_KEPT = 100


def fitted(answer: HelloAnswer) -> HelloAnswer:
    """Return the answer to `hello`, shortened step by step until it fits a line."""
    whole = answer.as_json()
    short = _shortened(whole, (_arguments, _old_actions, _transcript, _texts, _names))
    return answer if short is whole else HelloAnswer.model_validate(short)


def fitted_state(answer: Json) -> Json:
    """Return the JSON of an answer that holds a state, shortened step by step until it fits a line."""
    return _shortened(answer, (_arguments, _old_actions, _names))


def published_state(state: Json) -> Json:
    """Return the content of `state.json`: without keys, and no larger than a line."""
    shown: Json = fitted_state({"state": redacted(state)})["state"]
    return shown


def _shortened(answer: Json, steps: Iterable[_Step]) -> Json:
    short = answer
    for step in steps:
        if _bytes(short) <= ROOM_BYTES:
            break
        short = deepcopy(answer) if short is answer else short
        step(short)
    return short


def _bytes(value: Json) -> int:
    return len(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))


def _subtasks(answer: Json) -> Iterator[tuple[Json, bool]]:
    """Yield each subtask, and whether it is the current one."""
    state = answer["state"]
    here = state["current_task_idx"], state["current_subtask_idx"]
    for t, task in enumerate(state["goal"]["tasks"]):
        for s, subtask in enumerate(task["subtasks"]):
            yield subtask, (t, s) == here


def _cut(entry: Json, chars: int, *keys: str) -> None:
    """Shorten the texts and arguments that an entry has by these keys, in place."""
    for key in keys:
        if value := entry.get(key):
            is_text = isinstance(value, str)
            entry[key] = without_middle(value, chars) if is_text else plain_args(value, chars)


def _arguments(answer: Json) -> None:
    for subtask, _ in _subtasks(answer):
        for action in subtask["actions"]:
            _cut(action, TEXT_CHARS, "args")


def _old_actions(answer: Json) -> None:
    for subtask, is_current in _subtasks(answer):
        subtask["actions"] = subtask["actions"] if is_current else []


def _transcript(answer: Json) -> None:
    """Shorten all but the newest entries, and empty the oldest, which keep their positions, if that is not enough."""
    used = 0
    for entry in reversed(answer["state"]["transcript"]):
        if used + _bytes(entry) > WHOLE_ENTRIES_BYTES:
            _cut(entry, TEXT_CHARS, "text", "output", "message", "args")
        if used + _bytes(entry) > TRANSCRIPT_BYTES:
            entry.clear()
            entry["role"] = "user"
        used += _bytes(entry)


def _texts(answer: Json) -> None:
    _cut(answer, NOTES_CHARS, "notes")
    _cut(answer["spec"], NOTES_CHARS, "done_when")
    answer["feedback"] = [without_middle(text, TEXT_CHARS * 5) for text in answer["feedback"]]
    answer["playbook"] = answer["playbook"][:FINISHED_KEPT]
    finished = answer["state"]["finished"] = answer["state"]["finished"][-FINISHED_KEPT:]
    for one in finished:
        _cut(one, TEXT_CHARS, "summary")


def _names(answer: Json) -> None:
    for subtask, _ in _subtasks(answer):
        _cut(subtask, NAME_CHARS, "description")
        _cut(subtask, TEXT_CHARS, "last_failure")
