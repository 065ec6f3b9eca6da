"""The requests of the control socket: what the command line sends is what the daemon reads, and nothing else passes."""

import pytest

from clew_daemon.control.lookup import handler
from clew_daemon.control.requests import (
    FeedbackRequest,
    GoalChangeRequest,
    MoveStrategyRequest,
    StatusRequest,
)
from clew_daemon.control.server import ControlError


@pytest.mark.parametrize(
    ("kind", "method", "params", "name"),
    [
        (StatusRequest, "status", {"goal": 5}, "goal"),
        (StatusRequest, "status", {"limit": True}, "limit"),
        (StatusRequest, "status", {"limit": "3"}, "limit"),
        (FeedbackRequest, "feedback", {"goal": "a"}, "text"),
        (GoalChangeRequest, "pause", {"goals": ["a", 1]}, "goals"),
        (GoalChangeRequest, "pause", {"goal": "a", "all": "no"}, "all"),
        (MoveStrategyRequest, "playbook_remove", {}, "id"),
    ],
)
async def test_a_parameter_that_is_missing_or_of_another_type_is_named(kind, method, params, name):
    handlers = handler(kind, lambda _: None, method)
    with pytest.raises(ControlError, match=f"{method}: `{name}`: "):
        await handlers[method](params)
