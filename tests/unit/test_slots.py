"""How many LLM calls run at once per endpoint."""

import asyncio

import pytest

from clew_daemon.processes.llm_slots import REMOTE_CALLS, LlmSlots, calls_at, is_loopback


@pytest.mark.parametrize(
    "url",
    ["http://localhost:11434/v1", "http://127.0.0.1:8080", "http://[::1]:8080/v1", "http://127.8.8.8", "http://a.localhost"],
)  # fmt: skip
def test_this_machine_is_loopback(url):
    assert is_loopback(url)


@pytest.mark.parametrize(
    "url", ["https://api.example.org/v1", "http://192.168.1.5", "http://localhost.example.org", ""]
)
def test_another_machine_is_not(url):
    assert not is_loopback(url)


@pytest.mark.parametrize(
    ("limit", "url", "calls"),
    [
        (None, "http://127.0.0.1:1", 1),
        (None, "https://api.example.org", REMOTE_CALLS),
        (3, "http://127.0.0.1:1", 3),
    ],
)
async def test_so_many_calls_are_open_at_once_and_no_more(limit, url, calls):
    endpoint, allowed = LlmSlots().of(url), calls_at(url, limit)
    for _ in range(calls):
        assert not endpoint.is_full(allowed)
        await endpoint.acquire(allowed)
    assert endpoint.is_full(allowed)


async def opened(*calls):
    """Return which of these tasks have their call."""
    await asyncio.sleep(0)
    return [call.done() for call in calls]


async def test_calls_are_served_in_order_each_by_the_number_of_its_goal():
    endpoint = LlmSlots().of("http://localhost:1")
    await endpoint.acquire(1)
    waiting = [asyncio.ensure_future(endpoint.acquire(calls)) for calls in (1, 1, 1)]
    assert await opened(*waiting) == [False, False, False]
    waiting[0].cancel()
    endpoint.release()
    assert await opened(*waiting) == [True, True, False]
    endpoint.release()
    assert await opened(*waiting) == [True, True, True]
