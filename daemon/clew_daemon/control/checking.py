"""Reads the requests of the control socket from JSON: the shape is checked here, once, for every request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json

from clew_daemon.control.requests import GOALS_MAX, IMPORTED_AT_ONCE_MAX, ControlRequest
from clew_daemon.control.server import ControlError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from clew_daemon.control.server import Answer, Handler

R = TypeVar("R", bound=ControlRequest)

WHICH_GOAL = "which goal? Give its name, its id, or the beginning of either"
FAULTS = {
    "goal": WHICH_GOAL,
    "before": WHICH_GOAL,
    "after": "`after` is {value!r}; it must be the cursor of an earlier answer",
    "limit": "`limit` is {value!r}; it must be a number of goals, or null for all",
    "text": "the feedback is empty",
    "signature": "which action? Give the signature of a blocked one, as `clew status GOAL` lists them",
    "goals": f"`goals` must be a list of at most {GOALS_MAX:,} names or ids",
    "all": "`all` must be true or false",
    "now": "`now` must be true or false",
    "subtask": "`subtask` is {value!r}; it must be the index of a task and that of a subtask in it, from 0",
    "theirs": "`theirs` must be true or false",
    "perform": "`perform` must be true or false",
    "expected": "`expected` must be the `plan` of an earlier answer",
    "id": "which strategy? give its id, as listed by `clew playbook list`",
    "below": "`below` is {value!r}; a score is between -1 and 1",
    "bullets": f"`bullets` must be a list of at most {IMPORTED_AT_ONCE_MAX}",
}
"""What a person reads if a parameter is missing or not of its type."""


def fault(name: str, value: Any = None) -> ControlError:
    """Return the error for a parameter with a wrong value."""
    return ControlError(FAULTS[name].format(value=value))


def handler(kind: type[R], answer: Callable[[R], Awaitable[Answer]]) -> dict[str, Handler]:
    """Return the handler of one method, by its name: it reads the request and answers it."""
    adapter = TypeAdapter(kind)

    async def handle(params: dict[str, Any]) -> Answer:
        try:  # as JSON, in which a list is a tuple although nothing is coerced
            request = adapter.validate_json(to_json(params), strict=True)
        except ValidationError as error:
            first = error.errors()[0]
            raise fault(str(first["loc"][0]), first["input"]) from None
        return await answer(request)

    return {kind.method: handle}
