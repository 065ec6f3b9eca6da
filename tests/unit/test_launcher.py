"""The two cells of a coding agent, its bridge's and its CLI's, start beside each other: both, or none."""

import asyncio
import os
from types import SimpleNamespace

import pytest

from clew_daemon.processes.nursery import SpawnError
from clew_daemon.session.launcher import Launcher
from clew_shared.config.agent_tables import CliAgentSettings

AGENT = CliAgentSettings(kind="cli", cli="codex")
SPECS = SimpleNamespace(agent=lambda _: "bridge", cli=lambda _: "cli")


class StartedCell:
    """A cell that runs until it is killed."""

    def __init__(self):
        self.killed = False
        self.warnings = ()

    def kill_nowait(self):
        self.killed = True

    async def kill(self):
        self.killed = True
        return 137


class AskedNursery:
    """A nursery whose answers the test gives, by the spec."""

    def __init__(self):
        loop = asyncio.get_running_loop()
        self.answers = {name: loop.create_future() for name in ("cli", "bridge")}
        self.asked = {name: asyncio.Event() for name in self.answers}

    async def spawn(self, spec, *_, **__):
        self.asked[spec].set()
        return await self.answers[spec]


@pytest.fixture
async def starting():
    """Give the answers for the two cells, and the start of the agent."""
    nursery = AskedNursery()
    task = asyncio.create_task(Launcher(nursery).agent(SPECS, AGENT, lambda _: None))
    async with asyncio.timeout(10):
        for asked in nursery.asked.values():
            await asked.wait()
    return *nursery.answers.values(), task


async def test_both_are_asked_for_before_either_has_started(starting):
    clis, bridges, task = starting
    cli, bridge = StartedCell(), StartedCell()
    clis.set_result(cli)
    bridges.set_result(bridge)
    process = await task
    process.channel.close()
    os.close(process.output)
    assert process.cells == [bridge, cli]


@pytest.mark.parametrize("broken", [0, 1])
async def test_where_one_cannot_start_the_other_is_ended(starting, broken):
    *answers, task = starting
    cell = StartedCell()
    answers[broken].set_exception(SpawnError("sandbox", "no Landlock"))
    answers[1 - broken].set_result(cell)
    with pytest.raises(SpawnError, match="no Landlock"):
        await task
    assert cell.killed


async def test_a_start_that_is_given_up_ends_the_cell_that_has_started(starting):
    clis, _, task = starting
    cell = StartedCell()
    clis.set_result(cell)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert cell.killed
