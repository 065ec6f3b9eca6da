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


@pytest.mark.parametrize("agent", THINKERS, ids=lambda agent: agent.kind)
def test_network_off_leaves_agents_their_way_to_the_llm(agent):
    assert agent_spec(agent).sandbox.network


def test_network_off_holds_for_agents_that_act_themselves():
    agent = CommandAgentSettings(command=("true",), own_tools=True)
    assert not agent_spec(agent).sandbox.network
