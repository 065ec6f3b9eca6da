"""The library's tests run as somebody would who has just adopted it: in a folder of their own, without a daemon."""

import pytest
from managed import GOAL

from clew_worker import ContextManager


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CLEW_FD", raising=False)
    return tmp_path


@pytest.fixture
def opened(folder):
    """Open goals that are closed when the test is over."""
    all_opened = []

    def open_goal(goal=GOAL):
        ctx = ContextManager()
        all_opened.append(ctx)
        ctx.load_or_init(goal)
        return ctx

    yield open_goal
    for ctx in all_opened:
        ctx.close()


@pytest.fixture
def ctx(opened):
    return opened()
