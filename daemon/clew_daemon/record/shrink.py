"""Makes an answer fit one line of the protocol, however large its goal has become.

What can be found elsewhere is shortened first: old actions, long texts, finished work. Runbook steps and indices
are never touched. Pure functions of frozen models.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, TypeVar

from pydantic import BaseModel

from clew_shared.prompt.messages import plain_args
from clew_shared.text.redact import redacted
from clew_shared.text.shorten import without_middle
from clew_shared.wire.hello import (
    Call,
    Entry,
    HelloAnswer,
    HelloState,
    SentState,
    SentSubtask,
    StateAnswer,
)
from clew_shared.wire.protocol import LINE_BYTES_MAX

_Model = TypeVar("_Model", bound=BaseModel)
_State = TypeVar("_State", bound=SentState)
_Answer = TypeVar("_Answer", HelloAnswer, StateAnswer)
_Step = Callable[[_Answer], _Answer]

ROOM_BYTES = LINE_BYTES_MAX - 50_000
"""The rest is for the envelope, the key, and the fields beside the goal."""

TEXT_CHARS = 200
NOTES_CHARS = 20_000
NAME_CHARS = 80
FINISHED_KEPT = 100


def fitted(answer: HelloAnswer) -> HelloAnswer:
    """Return the answer to `hello`, shortened step by step until it fits a line."""
    tree = (_of_state(_arguments), _of_state(_old_actions))
    rest = (_of_state(_transcript), _texts, _of_state(_finished), _of_state(_names))
    return _shortened(answer, (*tree, *rest))


def fitted_state(answer: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON of an answer that holds a state, shortened step by step until it fits a line."""
    if _bytes(answer) <= ROOM_BYTES:
        return answer
    steps = (_of_state(_arguments), _of_state(_old_actions), _of_state(_names))
    return _shortened(StateAnswer.model_validate(answer), steps).as_json()


def published_state(state: dict[str, Any]) -> dict[str, Any]:
    """Return the content of `state.json`: without keys, and no larger than a line."""
    shown: dict[str, Any] = fitted_state({"state": redacted(state)})["state"]
    return shown


def _shortened(answer: _Answer, steps: Iterable[_Step[_Answer]]) -> _Answer:
    for step in steps:
        if _bytes(answer.as_json()) <= ROOM_BYTES:
            break
        answer = step(answer)
    return answer


def _bytes(answer: dict[str, Any]) -> int:
    return len(json.dumps(answer, ensure_ascii=False).encode("utf-8", "replace"))


def _with(model: _Model, **fields: Any) -> _Model:
    return model.model_copy(update=fields)


def _of_state(step: Callable[[Any], SentState]) -> _Step[_Answer]:
    """Return a step that shortens the state of an answer."""
    return lambda answer: _with(answer, state=step(answer.state))


def _each_subtask(state: _State, change: Callable[[SentSubtask], SentSubtask]) -> _State:
    tasks = (_with(t, subtasks=tuple(map(change, t.subtasks))) for t in state.goal.tasks)
    return _with(state, goal=_with(state.goal, tasks=tuple(tasks)))


def _arguments(state: _State) -> _State:
    def change(subtask: SentSubtask) -> SentSubtask:
        short = (_with(a, args=plain_args(a.args, TEXT_CHARS)) for a in subtask.actions)
        return _with(subtask, actions=tuple(short))

    return _each_subtask(state, change)


def _old_actions(state: _State) -> _State:
    """Keep the actions of the current subtask only."""
    here = state.subtask
    return _each_subtask(state, lambda s: s if s is here else _with(s, actions=()))


def _transcript(state: HelloState) -> HelloState:
    return _with(state, transcript=tuple(map(_short_entry, state.transcript)))


def _short_entry(entry: Entry) -> Entry:
    if not isinstance(entry, Call):
        return replace(entry, text=without_middle(entry.text, TEXT_CHARS))
    return replace(
        entry,
        args=plain_args(entry.args, TEXT_CHARS),
        output=without_middle(entry.output, TEXT_CHARS),
        message=without_middle(entry.message, TEXT_CHARS),
    )


def _texts(answer: HelloAnswer) -> HelloAnswer:
    return _with(
        answer,
        notes=without_middle(answer.notes, NOTES_CHARS),
        spec=_with(answer.spec, done_when=without_middle(answer.spec.done_when, NOTES_CHARS)),
        feedback=tuple(without_middle(text, TEXT_CHARS * 5) for text in answer.feedback),
        playbook=answer.playbook[:FINISHED_KEPT],
    )


def _finished(state: HelloState) -> HelloState:
    last = state.finished[-FINISHED_KEPT:]
    short = (_with(one, summary=without_middle(one.summary, TEXT_CHARS)) for one in last)
    return _with(state, finished=tuple(short))


def _names(state: _State) -> _State:
    def change(subtask: SentSubtask) -> SentSubtask:
        failure = subtask.last_failure
        return _with(
            subtask,
            description=without_middle(subtask.description, NAME_CHARS),
            last_failure=without_middle(failure, TEXT_CHARS) if failure else failure,
        )

    return _each_subtask(state, change)
