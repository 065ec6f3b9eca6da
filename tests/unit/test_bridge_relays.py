"""When a run of a CLI has lost its relays."""

import asyncio

from clew_worker.bridge.gateway import Relays


async def is_lost(relays):
    async with asyncio.timeout(30):
        await relays.lost.wait()
    return True


async def test_a_relay_that_ends_in_a_call_is_lost_at_once_whatever_else_is_connected():
    relays = Relays()
    relays.came()
    relays.came()
    relays.went(open_calls=1)
    assert relays.lost.is_set()


async def test_the_last_relay_is_lost_when_no_other_one_follows():
    relays = Relays(patience_s=0.01)
    relays.came()
    relays.went(open_calls=0)
    assert not relays.lost.is_set()
    assert await is_lost(relays)


async def test_a_relay_that_follows_in_time_takes_the_place_of_the_last_one():
    relays = Relays(patience_s=0.0)
    relays.came()
    relays.went(open_calls=0)
    relays.came()
    await asyncio.sleep(0.01)
    assert not relays.lost.is_set()


async def test_a_cli_that_has_not_connected_yet_has_lost_nothing():
    relays = Relays(patience_s=0.0)
    await asyncio.sleep(0.01)
    assert not relays.lost.is_set()
