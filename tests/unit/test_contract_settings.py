"""The config's faults, all at once, also those that only show between tables."""

import pytest

from clew_shared.config.faults import SettingsError
from clew_shared.config.settings import load

TEXT = """
[daemon]
max_workers = 0
[agents]
default = "zzz"
[agents.robot]
kind = "robot"
"""


def test_a_default_agent_that_is_not_there_is_named_beside_all_other_faults():
    with pytest.raises(SettingsError) as caught:
        load(TEXT, {}, "c.toml")
    said = str(caught.value)
    assert "daemon.max_workers" in said
    assert "agents.robot.kind" in said
    assert (
        "c.toml:5: `agents.default`: unknown agent 'zzz'; available: default, robot, runbook"
        in said
    )


def test_a_default_agent_with_faults_of_its_own_is_not_called_missing():
    with pytest.raises(SettingsError) as caught:
        load(TEXT.replace("zzz", "robot"), {}, "c.toml")
    assert "agents.default" not in str(caught.value)
