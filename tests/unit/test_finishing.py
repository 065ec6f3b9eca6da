"""What `finish` answers is durable."""

import asyncio
from types import SimpleNamespace

import pytest

from clew_daemon.session.finishing import Finishing
from clew_shared.record.model import Goal
from clew_shared.record.state import State
from clew_shared.wire.protocol import Finish


@pytest.mark.parametrize("success", [True, False])
async def test_a_goal_that_a_person_has_just_ended_is_called_so_when_that_is_durable(success):
    durable = asyncio.Event()
    state = State(goal_id="a", goal=Goal(description="a", status="cancelled"), accepted_at=1.0)
    epoch = SimpleNamespace(core=SimpleNamespace(state=state), commit=durable.wait)
    answer = asyncio.create_task(Finishing(epoch, checks=None).finish(Finish(success=success)))
    await asyncio.sleep(0)
    assert not answer.done()
    durable.set()
    assert (await answer).accepted is not success
