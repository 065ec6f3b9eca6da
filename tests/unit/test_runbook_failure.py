"""What a runbook says of a step that failed."""

import pytest

from clew_shared.wire.answers import ActionOutcome
from clew_shared.wire.hello import SentStep
from clew_worker.agent.runbook import _failure

STEP = SentStep(tool="run_cmd", args={"cmd": "false"})


@pytest.mark.parametrize(
    ("output", "text"),
    [
        ("", "`false` failed (exit code 1)"),
        (" \n", "`false` failed (exit code 1)"),
        ("no disk\n", "`false` failed (exit code 1): no disk"),
    ],
)
def test_a_failure_ends_with_the_output_and_without_a_colon_where_there_is_none(output, text):
    outcome = ActionOutcome(result="failure", exit_code=1, output=output)
    assert _failure(STEP, outcome) == text
