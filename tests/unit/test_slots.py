"""How many LLM calls run at once per endpoint."""

import pytest

from clew_daemon.processes.llm_slots import REMOTE_CALLS, LlmSlots, is_loopback


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
    semaphore = LlmSlots(lambda: limit).of(url)
    for _ in range(calls):
        assert not semaphore.locked()
        await semaphore.acquire()
    assert semaphore.locked()


async def test_one_endpoint_has_one_semaphore_whatever_the_path():
    slots = LlmSlots(lambda: None)
    assert slots.of("http://LOCALHOST:1/v1") is slots.of("http://localhost:1/other")
    assert slots.of("http://localhost:1") is not slots.of("http://localhost:2")
