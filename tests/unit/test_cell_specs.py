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
RULES = CellRules(PLACES, OFFLINE, STATE, 1, (0, 0), (), {}, {})
THINKERS = [
    LlmAgentSettings(model="m"),
    RunbookAgentSettings(),
    CommandAgentSettings(command=("true",)),
]


@pytest.mark.parametrize("agent", THINKERS, ids=lambda agent: agent.kind)
def test_network_off_leaves_agents_their_way_to_the_llm(agent):
    assert RULES.agent(agent).sandbox.network


def test_network_off_holds_for_agents_that_act_themselves():
    agent = CommandAgentSettings(command=("true",), own_tools=True)
    assert not RULES.agent(agent).sandbox.network
