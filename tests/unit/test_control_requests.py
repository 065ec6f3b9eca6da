"""The requests of the control socket: what the command line sends is what the daemon reads, and nothing else passes."""

import inspect

import pytest

from clew_daemon.control import requests
from clew_daemon.control.lookup import handler
from clew_daemon.control.requests import (
    ControlRequest,
    FeedbackRequest,
    GoalChangeRequest,
    ImportRequest,
    PauseRequest,
    PruneRequest,
    RemoveStrategyRequest,
    StatusRequest,
    UnblockRequest,
    UndoRequest,
)
from clew_daemon.control.server import ControlError

KINDS = [
    kind
    for _, kind in inspect.getmembers(requests, inspect.isclass)
    if issubclass(kind, ControlRequest) and kind not in (ControlRequest, GoalChangeRequest)
]


async def read(kind, params):
    """The request that a handler of this kind is given."""
    found = []

    async def answer(request):
        found.append(request)
        return {}

    await handler(kind, answer)[kind.method](params)
    return found[0]


def test_the_methods_are_those_that_other_programs_call():
    assert {kind.__name__.removesuffix("Request"): kind.method for kind in KINDS} == {
        "Ping": "ping",
        "Status": "status",
        "Follow": "follow",
        "Health": "health",
        "Reload": "reload",
        "Settings": "settings",
        "ExecutorEnv": "executor_env",
        "Feedback": "feedback",
        "Unblock": "unblock",
        "Pause": "pause",
        "Resume": "resume",
        "Cancel": "cancel",
        "Continue": "continue",
        "Retry": "retry",
        "Remove": "rm",
        "Edit": "edit",
        "Undo": "undo",
        "Accept": "accept",
        "RemoveStrategy": "playbook_remove",
        "RestoreStrategy": "playbook_restore",
        "Prune": "playbook_prune",
        "Import": "playbook_import",
    }


@pytest.mark.parametrize(
    "request_",
    [
        StatusRequest(limit=0, before="a"),
        StatusRequest("a"),
        FeedbackRequest("a", "go on"),
        UnblockRequest("a", "run_cmd::x"),
        PauseRequest(all=True),
        PauseRequest(goals=("a", "b")),
        UndoRequest("a"),
        UndoRequest("a", (0, 1), theirs=True, perform=True, expected="12ab"),
        PruneRequest(0),
        PruneRequest(),
        ImportRequest(({"section": "tests"}, "anything")),
    ],
    ids=repr,
)
async def test_the_daemon_reads_the_request_that_was_sent(request_):
    assert await read(type(request_), request_.params()) == request_


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
