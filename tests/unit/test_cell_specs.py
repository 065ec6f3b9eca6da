import re
from pathlib import Path

import pytest

from clew_daemon.processes.cells import CellRules
from clew_shared.config.agent_tables import (
    CommandAgentSettings,
    LlmAgentSettings,
    RunbookAgentSettings,
)
from clew_shared.config.places import places
from clew_shared.config.tables import SandboxSettings, Settings
from clew_shared.record.spec import Spec
from clew_shared.record.state import State
from clew_shared.wire.framing import OversizedMessageError
from clew_shared.wire.nursery import PACKET_BYTES_MAX, Spawn, to_packet

PLACES = places({}, Path("/srv/clew"), None)
OFFLINE = Settings(sandbox=SandboxSettings(network=False))
STATE = State(goal_id="goal-1", spec=Spec(description="x", workspace="/srv/goal"))
RULES = CellRules(PLACES, OFFLINE, STATE, (), {}, {})
THINKERS = [
    LlmAgentSettings(model="m"),
    RunbookAgentSettings(),
    CommandAgentSettings(command=("true",)),
]


def agent_spec(agent):
    return RULES.agent(agent, 1)


def test_network_off_keeps_executors_offline():
    assert not RULES.executor().sandbox.network


@pytest.mark.parametrize("agent", THINKERS, ids=lambda agent: agent.kind)
def test_network_off_leaves_agents_their_way_to_the_llm(agent):
    assert agent_spec(agent).sandbox.network


def test_network_off_holds_for_agents_that_act_themselves():
    agent = CommandAgentSettings(command=("true",), own_tools=True)
    assert not agent_spec(agent).sandbox.network


def test_a_spec_that_is_too_long_is_refused_with_its_size_and_what_to_do():
    crowded = CellRules(PLACES, OFFLINE, STATE, (), {"PATH": "x" * PACKET_BYTES_MAX}, {})
    with pytest.raises(OversizedMessageError) as caught:
        to_packet(Spawn(id=1, spec=crowded.executor()))
    assert re.fullmatch(
        r"spawn: \d+ bytes, at most \d+ go in one packet; shorten the environment, the paths or the command",
        str(caught.value),
    )
