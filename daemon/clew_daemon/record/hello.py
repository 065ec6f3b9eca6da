"""What an agent is told when it says hello: the state as it is now, and all that it needs to go on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clew_daemon.processes.cells import agent_options
from clew_daemon.record.shrink import fitted
from clew_daemon.record.store import output_text
from clew_shared.config.settings import LlmAgentSettings
from clew_shared.prompt import transcript
from clew_shared.record import events as ev
from clew_shared.views.publish import state_view
from clew_shared.wire.tools import TOOLS

if TYPE_CHECKING:
    from clew_daemon.processes.cells import Agent
    from clew_daemon.record.store import Readable
    from clew_shared.config.settings import Settings
    from clew_shared.record.state import State


GIVEN_UP_TOLD = 20


def told(
    state: State,
    settings: Settings,
    agent: Agent,
    ledger: Readable,
    strategies: list[dict[str, Any]],
    kept: Remembered | None = None,
) -> dict[str, Any]:
    """Return what an agent of this kind would be told now, but for its key; also for `clew context`."""
    said = {
        "protocol": 1,
        "goal_id": state.goal_id,
        "epoch": state.epoch,
        "state": with_steps(state)
        | {
            "replan_required": state.replan_required or None,
            "finished": finished(state),
            "given_up": state.set_aside[-GIVEN_UP_TOLD:],
            "iterations_granted": state.iterations_granted,
            "prompt": state.prompt.model_dump(mode="json") if state.prompt else None,
        }
        | remembered(
            state,
            ledger,
            settings.context.max_tokens,
            (kept or Remembered()) if isinstance(agent, LlmAgentSettings) else None,
        ),
        "thresholds": thresholds(settings),
        "playbook": strategies,
        "heartbeat_s": settings.heartbeat.interval_s,
        "tools": [
            {"name": t.name, "description": t.description, "parameters": t.parameters}
            for t in TOOLS
        ],
        "notes": state.spec.notes,
        "feedback": list(state.feedback),
        "checks": dict(state.spec.checks),
        "spec": state.spec.model_dump(
            mode="json",
            include={"workspace", "done_when", "max_iterations", "budget_tokens", "on_interrupt"},
        ),
        "options": agent_options(settings, agent),
    }
    return fitted(said)


def thresholds(settings: Settings) -> dict[str, Any]:
    """Return the numbers that an agent may want to know; also sent when they change."""
    return {
        **settings.loops.model_dump(mode="json"),
        "context": settings.context.model_dump(mode="json"),
        "heartbeat_s": settings.heartbeat.interval_s,
    }


def subtask_view(state: State) -> dict[str, Any] | None:
    """Return the current subtask, for `advance`."""
    subtask = state.subtask
    if subtask is None:
        return None
    return {
        "description": subtask.description,
        "status": str(subtask.status),
        "attempts": subtask.attempts,
        "last_failure": subtask.last_failure or None,
        "task_idx": state.current_task_idx,
        "subtask_idx": state.current_subtask_idx,
        "actions_total": subtask.actions_total,
        "steps": subtask.steps,
    }


def task_view(state: State) -> dict[str, Any] | None:
    """Return the current task, for `advance`."""
    task = state.task
    return {"description": task.description, "status": str(task.status)} if task else None


def with_steps(state: State) -> dict[str, Any]:
    """Return the state as published, with the runbook's steps at the current subtask."""
    view = state_view(state)
    for shown, task in zip(view["goal"]["tasks"], state.goal.tasks, strict=True):
        for entry, subtask in zip(shown["subtasks"], task.subtasks, strict=True):
            entry["steps"] = subtask.steps if subtask is state.subtask else []
    return view


def finished(state: State) -> list[dict[str, Any]]:
    """Name the subtasks that are over, with what came of them."""
    return [
        {
            "description": s.description,
            "summary": s.summary,
            "status": str(s.status),
            "insights": list(s.insights),
        }
        for t in state.goal.tasks
        for s in t.subtasks
        if s.status in ("completed", "skipped", "failed")
    ]


class Remembered:
    """The current subtask's transcript, kept between two hellos, so that asking again reads only what is new."""

    def __init__(self) -> None:
        self._key: tuple[int, int] = (-1, -1)
        self._seq = 0
        self._fold = transcript.Transcript(lambda _: "", 0)

    def up_to_now(self, state: State, ledger: Readable, max_tokens: int) -> transcript.Transcript:
        """Take in what was recorded since; another subtask or another budget begins again."""
        key = (state.subtask_seq, max_tokens)
        if key != self._key:
            self._key, self._seq = key, state.subtask_seq
            self._fold = transcript.Transcript(lambda seq: output_text(ledger, seq), max_tokens)
        self._seq = _read_into(self._fold, state.goal_id, ledger, self._seq)
        return self._fold


def _read_into(fold: transcript.Transcript, goal: str, ledger: Readable, seq: int) -> int:
    for row in ledger.read(goal, seq):
        seq = row.seq
        if row.kind in transcript.KINDS:
            fold.take(seq, ev.decode(row.body))
    return seq


def remembered(
    state: State, ledger: Readable, max_tokens: int, kept: Remembered | None
) -> dict[str, Any]:
    """Return the current subtask's transcript, how far it is folded, and what its agent wanted to do next.

    Who builds no prompt of it (`kept` is None) is given its last actions only.
    """
    if kept is not None:
        fold = kept.up_to_now(state, ledger, max_tokens)
        told, folded = transcript.told(fold.entries, fold.folded), fold.folded
        return {"transcript": told, "folded": folded, "idea": fold.idea}
    actions = state.subtask.actions if state.subtask else []
    since = max(state.subtask_seq, actions[0].seq - 1 if actions else 0)
    fold = transcript.Transcript(lambda seq: output_text(ledger, seq), max_tokens)
    _read_into(fold, state.goal_id, ledger, since)
    return {"transcript": transcript.told(fold.entries, 0), "folded": 0, "idea": fold.idea}
