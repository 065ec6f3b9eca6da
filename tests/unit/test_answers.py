"""The answers of the worker protocol, field by field (docs/protocol.md): their JSON is what agents read."""

import pytest

from clew_daemon.session.actions import CUT_OFF, judged, noted, outcome_of
from clew_shared.core.answers import ActionReport, Advice, Feedback, Verdict
from clew_shared.wire.answers import (
    ActionOutcome,
    FailingCheck,
    Finished,
    Intervention,
    Judged,
    Recorded,
)

WORD = Advice("no_progress", "Stop.")
SAID = {"kind": "no_progress", "message": "Stop."}


@pytest.mark.parametrize(
    ("answer", "json"),
    [
        (noted(Feedback()), {"intervention": None, "escalated_to": None}),
        (noted(Feedback(WORD, "task")), {"intervention": SAID, "escalated_to": "task"}),
        (
            judged(Verdict(True, 7), Feedback()),
            {"verdict": "allowed", "seq": 7, "intervention": None, "escalated_to": None},
        ),
        (
            judged(Verdict(True, 7, intervention=WORD), Feedback(escalated_to="goal")),
            {"verdict": "allowed", "seq": 7, "intervention": SAID, "escalated_to": "goal"},
        ),
        (
            judged(Verdict(False, 8, "repetition", "Refused.", escalated_to="person")),
            {
                "verdict": "blocked",
                "seq": 8,
                "reason": "repetition",
                "message": "Refused.",
                "intervention": None,
                "escalated_to": "person",
            },
        ),
        (
            outcome_of(ActionReport("failure", "no", None, "w", 1.5, 1), Feedback(changed=True)),
            {
                "result": "failure",
                "output": "no",
                "duration_s": 1.5,
                "changed": True,
                "exit_code": 1,
            },
        ),
        (
            outcome_of(ActionReport("success"), Feedback()),
            {"result": "success", "output": "", "duration_s": 0.0, "changed": None},
        ),
        (
            CUT_OFF,
            {
                "result": "interrupted",
                "output": "",
                "duration_s": 0.0,
                "changed": None,
                "reason": "executor_died",
            },
        ),
        (
            Recorded(allowed=True, verdict="allowed", seq=3, intervention=None, escalated_to=None),
            {
                "allowed": True,
                "verdict": "allowed",
                "seq": 3,
                "intervention": None,
                "escalated_to": None,
            },
        ),
        (
            Finished(
                accepted=False,
                failing_checks=(FailingCheck(name="t", cmd="pytest", exit_code=None, output="x"),),
                open_subtasks=("one",),
                escalated_to=None,
                message="Consider it.",
            ),
            {
                "accepted": False,
                "failing_checks": [
                    {"name": "t", "cmd": "pytest", "exit_code": None, "output": "x"}
                ],
                "open_subtasks": ["one"],
                "escalated_to": None,
                "message": "Consider it.",
            },
        ),
        (
            Finished(accepted=True, failing_checks=(), open_subtasks=()),
            {"accepted": True, "failing_checks": [], "open_subtasks": []},
        ),
    ],
)
def test_what_is_not_given_is_not_sent(answer, json):
    assert answer.as_json() == json


def test_an_answer_to_act_holds_itsoutcome_of():
    outcome = ActionOutcome(result="success", output="", duration_s=0.1, changed=False)
    answer = judged(Verdict(True, 1), outcome=outcome).as_json()
    assert answer["outcome"] == {
        "result": "success",
        "output": "",
        "duration_s": 0.1,
        "changed": False,
    }


def test_what_a_newer_daemon_adds_is_ignored():
    given = {"verdict": "allowed", "seq": 1, "intervention": SAID, "new": [1]}
    assert Judged.model_validate(given).intervention == Intervention(**SAID)
