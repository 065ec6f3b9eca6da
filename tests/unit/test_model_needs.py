"""What a model needed in its verified goals, from the record, and how attempts and windows follow it."""

import pytest

from clew_daemon.config.profiles import settings_for
from clew_daemon.record.goal_limits import limits_of
from clew_shared.config.settings import load
from clew_shared.core.attempts import iterations_used_up
from clew_shared.record.state import Attempts, State


@pytest.mark.parametrize(
    ("config", "needed", "first", "later", "full_until"),
    [
        ("", 0, 10, 10, 10),
        ("", 2, 6, 10, 10),
        ("", 6, 9, 10, 10),
        ("", 10, 15, 15, 15),
        ("[attempts]\nadapt = false", 10, 10, 10, 10),
        ("[attempts]\niterations = 4", 10, 4, 4, 10),
        ('[context.models."small*"]\niterations = 7', 2, 7, 7, 10),
        ("[context]\nfull_until = 8", 10, 15, 15, 8),
    ],
)
def test_attempts_and_windows_follow_what_was_needed_unless_the_config_sets_them(
    config, needed, first, later, full_until
):
    agent = f'{config}\n[agents.a]\nmodel = "small"\nbase_url = "http://127.0.0.1:8080/v1"\n'
    settings = load(agent + '[agents]\ndefault = "a"\n', {}, "c.toml").settings
    state = State(attempts=Attempts(turns_needed=needed))
    limits = limits_of(state, settings)
    assert [limits.turns(n) for n in (1, 2, 3)] == [first, later, later]
    context = settings_for(settings, settings.agents.get("a"), needed).context
    assert context.full_until == full_until < context.moderate_until < context.aggressive_until
    state.iteration = first
    assert iterations_used_up(state, limits)
    state.attempt.number = 2
    assert iterations_used_up(state, limits) is (first == later)
