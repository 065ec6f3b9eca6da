"""Makes what an agent is told of its goal fit one line of the protocol, however large the goal has become.

What is told less of first is what can be found elsewhere: old actions, long texts, finished work. Steps and
places are never touched. Pure: it changes the answer that it is given, and nothing else.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from clew_shared.prompt.messages import plain_args, shortened
from clew_shared.text.redact import redacted
from clew_shared.wire.protocol import LINE_BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    _Step = Callable[[dict[str, Any]], None]

ROOM_BYTES = LINE_BYTES_MAX - 50_000
"""The rest is for the envelope, the key, and what is told beside the goal."""

TEXT_CHARS = 200
NOTES_CHARS = 20_000
NAME_CHARS = 80
FINISHED_KEPT = 100


def fitted(said: dict[str, Any]) -> dict[str, Any]:
    """Return the answer to `hello`, shortened step by step until it fits a line."""
    return _shortened(said, (_arguments, _old_actions, _transcript, _texts, _finished, _names))


def fitted_state(said: dict[str, Any]) -> dict[str, Any]:
    """Return an answer that holds a state, shortened step by step until it fits a line."""
    return _shortened(said, (_arguments, _old_actions, _names))


def published_state(state: dict[str, Any]) -> dict[str, Any]:
    """Return what `state.json` holds: without keys (a goal file is kept as it came), and no larger than a line."""
    shown: dict[str, Any] = fitted_state({"state": redacted(state)})["state"]
    return shown


def _shortened(said: dict[str, Any], steps: Iterable[_Step]) -> dict[str, Any]:
    for step in steps:
        if _bytes(said) <= ROOM_BYTES:
            break
        step(said)
    return said


def _bytes(said: dict[str, Any]) -> int:
    return len(json.dumps(said, ensure_ascii=False).encode("utf-8", "replace"))


def _subtasks(said: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for task in said["state"]["goal"]["tasks"]:
        yield from task["subtasks"]


def _arguments(said: dict[str, Any]) -> None:
    for subtask in _subtasks(said):
        for action in subtask["actions"]:
            action["args"] = plain_args(action["args"], TEXT_CHARS)


def _transcript(said: dict[str, Any]) -> None:
    for entry in said["state"]["transcript"]:
        for key in ("output", "message", "text"):
            if key in entry:
                entry[key] = shortened(entry[key], TEXT_CHARS)
        if "args" in entry:
            entry["args"] = plain_args(entry["args"], TEXT_CHARS)


def _old_actions(said: dict[str, Any]) -> None:
    """Leave the actions of the current subtask only."""
    state = said["state"]
    here = state["current_task_idx"], state["current_subtask_idx"]
    for t, task in enumerate(state["goal"]["tasks"]):
        for s, subtask in enumerate(task["subtasks"]):
            if (t, s) != here:
                subtask["actions"] = []


def _texts(said: dict[str, Any]) -> None:
    said["notes"] = shortened(said["notes"], NOTES_CHARS)
    said["spec"]["done_when"] = shortened(said["spec"]["done_when"], NOTES_CHARS)
    said["feedback"] = [shortened(text, TEXT_CHARS * 5) for text in said["feedback"]]
    said["playbook"] = said["playbook"][:FINISHED_KEPT]


def _finished(said: dict[str, Any]) -> None:
    state = said["state"]
    state["finished"] = state["finished"][-FINISHED_KEPT:]
    for done in state["finished"]:
        done["summary"] = shortened(done["summary"], TEXT_CHARS)


def _names(said: dict[str, Any]) -> None:
    for subtask in _subtasks(said):
        subtask["description"] = shortened(subtask["description"], NAME_CHARS)
        if subtask["last_failure"]:
            subtask["last_failure"] = shortened(subtask["last_failure"], TEXT_CHARS)
