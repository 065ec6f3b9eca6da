"""The two cells of a coding agent, its bridge's and its CLI's, start beside each other: both, or none."""

import asyncio

import pytest

from clew_daemon.processes.nursery import SpawnError
from clew_daemon.session.launcher import _all_or_none


class StartedCell:
    killed = False

    async def kill(self):
        self.killed = True


@pytest.mark.parametrize("fault", [SpawnError("sandbox", "no Landlock"), None])
async def test_where_one_does_not_start_the_other_is_ended(fault):
    loop, cell = asyncio.get_running_loop(), StartedCell()
    one, other = loop.create_future(), loop.create_future()
    starting = asyncio.ensure_future(
        _all_or_none(asyncio.wait_for(one, 60), asyncio.wait_for(other, 60))
    )
    await asyncio.sleep(0)
    one.set_result(cell)
    await asyncio.sleep(0)
    if fault:
        other.set_exception(fault)
    else:
        starting.cancel()
    with pytest.raises(SpawnError if fault else asyncio.CancelledError):
        await starting
    assert cell.killed
