"""What the daemon answers to an agent's requests: one model for each shape of an answer (docs/protocol.md).

The daemon dumps them with `exclude_unset`, so that fields that were not set are left out; agents validate what they
receive. Unknown fields are ignored, so that an older agent understands a newer daemon.
"""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from clew_shared.core.answers import Advice
from clew_shared.core.journal import TurnsLeft
from clew_shared.record.model import Level

ActionResult = Literal["success", "failure", "error", "timeout", "interrupted"]


class AnswerModel(BaseModel):
    """A part of an answer: frozen, and read without regard to fields that it does not know."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    def as_json(self) -> dict[str, Any]:
        """Return the fields that were set, as JSON values."""
        return self.model_dump(mode="json", exclude_unset=True)


class Noted(AnswerModel):
    """What all answers to what an agent tells have in common; that to `reflect` has the turns that are left."""

    intervention: Advice | None = None
    escalated_to: Level | None = None
    turns_left: TurnsLeft | None = None


class ActionOutcome(AnswerModel):
    """The outcome of an action; `changed` is None where that is unknown, `reason` is why it was interrupted."""

    result: ActionResult
    output: str = ""
    duration_s: float = 0.0
    changed: bool | None = None
    exit_code: int | None = None
    reason: str = ""


class Judged(Noted):
    """The answer to `act`, `propose` and `record`; an `outcome`, recorded `at` that time, if clew carried it out."""

    verdict: Literal["allowed", "blocked"]
    seq: int = 0
    reason: str = ""
    message: str = ""
    outcome: ActionOutcome | None = None
    at: float | None = None
    allowed: bool | None = None


class Advanced(AnswerModel):
    """The answer to `advance`; both are None where no pending subtask is left."""

    subtask: dict[str, Any] | None = None
    task: dict[str, Any] | None = None


class FailingCheck(AnswerModel):
    """A check that did not pass; `exit_code` is None where it did not run to its end."""

    name: str
    cmd: str = ""
    exit_code: int | None = None
    output: str = ""


class Checked(AnswerModel):
    """The answer to `check`; `passed` is None where the checks did not run to their end in time."""

    passed: bool | None = None
    failing_checks: tuple[FailingCheck, ...] = ()


class ProofTold(AnswerModel):
    """Why a finish whose checks pass is not accepted: its label, the files, and the agent's change of them."""

    label: str
    files: tuple[str, ...] = ()
    why: str = ""
    diff: str = ""


class Finished(AnswerModel):
    """The answer to `finish`."""

    accepted: bool
    failing_checks: tuple[FailingCheck, ...] = ()
    open_subtasks: tuple[str, ...] = ()
    escalated_to: Level | None = None
    proof: ProofTold | None = None
    message: str = ""
