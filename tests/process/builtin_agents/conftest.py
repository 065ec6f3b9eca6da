"""What tests of agents share: the miniature daemon, and an agent at the other end of its socket."""

import asyncio
import contextlib
import socket

import pytest

from clew_worker.agent import llm_client
from clew_worker.agent.client import live
from clew_worker.agent.llm import LlmAgent
from clew_worker.agent.runbook import Runbook

DEADLINE_S = 60


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch):
    monkeypatch.setattr(llm_client, "PAUSE_FIRST_S", 0.01)


@contextlib.asynccontextmanager
async def connected(daemon):
    """Serve one end of a socket pair; gives the other."""
    ours, theirs = socket.socketpair()
    serving = asyncio.create_task(daemon.serve(ours))
    try:
        yield theirs
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


async def _run(daemon, agent):
    async with connected(daemon) as sock, asyncio.timeout(DEADLINE_S):
        return await live(sock, lambda client: agent(client).run())


@pytest.fixture
def run_llm():
    """Run the llm agent on a daemon and a scripted server; its exit code."""

    async def run(daemon, server=None):
        if server is not None:
            daemon.agent = {"base_url": server.base_url, "model": "scripted", **daemon.agent}
        return await _run(daemon, LlmAgent)

    return run


@pytest.fixture
def run_runbook():
    """Run the runbook agent on a daemon; its exit code."""

    async def run(daemon):
        return await _run(daemon, Runbook)

    return run


@pytest.fixture
def connect():
    """Give `connected`, for tests that speak the protocol themselves."""
    return connected
