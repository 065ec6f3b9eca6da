"""Makes an answer fit one line of the protocol, however large its goal has become.

What can be found elsewhere is shortened first: old actions, long texts, finished work. Runbook steps and indices
are never touched.
"""

from __future__ import annotations

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

ROOM_BYTES = LINE_BYTES_MAX - 50_000
"""The rest is for the envelope, the key, and the fields beside the goal."""

TEXT_CHARS = 200
NOTES_CHARS = 20_000
NAME_CHARS = 80
FINISHED_KEPT = 100


def fitted(answer: HelloAnswer) -> HelloAnswer:
    """Return the answer to `hello`, shortened step by step until it fits a line."""
    whole = answer.as_json()
    steps = (_arguments, _old_actions, _transcript, _texts, _names)
    short = _shortened(whole, steps)
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
        if len(json.dumps(short, ensure_ascii=False).encode("utf-8", "replace")) <= ROOM_BYTES:
            break
        short = deepcopy(answer) if short is answer else short
        step(short)
    return short


def _subtasks(answer: Json) -> Iterator[tuple[Json, bool]]:
    """Yield each subtask, and whether it is the current one."""
    state = answer["state"]
    here = state["current_task_idx"], state["current_subtask_idx"]
    for t, task in enumerate(state["goal"]["tasks"]):
        for s, subtask in enumerate(task["subtasks"]):
            yield subtask, (t, s) == here


def _arguments(answer: Json) -> None:
    for subtask, _ in _subtasks(answer):
        for action in subtask["actions"]:
            action["args"] = plain_args(action["args"], TEXT_CHARS)


def _old_actions(answer: Json) -> None:
    """Keep the actions of the current subtask only."""
    for subtask, is_current in _subtasks(answer):
        subtask["actions"] = subtask["actions"] if is_current else []


def _transcript(answer: Json) -> None:
    for entry in answer["state"]["transcript"]:
        for key in {"text", "output", "message"} & entry.keys():
            entry[key] = without_middle(entry[key], TEXT_CHARS)
        if "args" in entry:
            entry["args"] = plain_args(entry["args"], TEXT_CHARS)


def _texts(answer: Json) -> None:
    answer["notes"] = without_middle(answer["notes"], NOTES_CHARS)
    answer["spec"]["done_when"] = without_middle(answer["spec"]["done_when"], NOTES_CHARS)
    answer["feedback"] = [without_middle(text, TEXT_CHARS * 5) for text in answer["feedback"]]
    answer["playbook"] = answer["playbook"][:FINISHED_KEPT]
    finished = answer["state"]["finished"] = answer["state"]["finished"][-FINISHED_KEPT:]
    for one in finished:
        one["summary"] = without_middle(one["summary"], TEXT_CHARS)


def _names(answer: Json) -> None:
    for subtask, _ in _subtasks(answer):
        subtask["description"] = without_middle(subtask["description"], NAME_CHARS)
        if subtask["last_failure"]:
            subtask["last_failure"] = without_middle(subtask["last_failure"], TEXT_CHARS)
