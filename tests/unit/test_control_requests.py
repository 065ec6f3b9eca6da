"""The requests of the control socket: what the command line sends is what the daemon reads, and nothing else passes."""

import pytest

from clew_daemon.control.lookup import handler
from clew_daemon.control.requests import (
    FeedbackRequest,
    PauseRequest,
    RemoveStrategyRequest,
    StatusRequest,
)
from clew_daemon.control.server import ControlError


async def read(kind, params):
    """The request that a handler of this kind is given."""
    found = []

    async def answer(request):
        found.append(request)
        return {}

    await handler(kind, answer)[kind.method](params)
    return found[0]


@pytest.mark.parametrize(
    ("kind", "params", "name"),
    [
        (StatusRequest, {"goal": 5}, "goal"),
        (StatusRequest, {"limit": True}, "limit"),
        (StatusRequest, {"limit": "3"}, "limit"),
        (FeedbackRequest, {"goal": "a"}, "text"),
        (PauseRequest, {"goals": ["a", 1]}, "goals"),
        (PauseRequest, {"goal": "a", "all": "no"}, "all"),
        (RemoveStrategyRequest, {}, "id"),
    ],
)
async def test_a_parameter_that_is_missing_or_of_another_type_is_named(kind, params, name):
    with pytest.raises(ControlError, match=f"{kind.method}: `{name}`: "):
        await read(kind, params)
