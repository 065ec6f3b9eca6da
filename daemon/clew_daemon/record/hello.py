"""Builds the answer to `hello`: the state as it is now, and all that an agent needs to continue (docs/protocol.md)."""

from dataclasses import asdict
from typing import Any

from clew_daemon.processes.cell_rules import agent_options
from clew_daemon.record.goal_limits import limits_of, present_rung
from clew_daemon.record.shrink import fitted
from clew_daemon.record.store import ReadableEvents, catch_up, output_text
from clew_daemon.record.transcript import TranscriptFold
from clew_shared.config.agent_tables import Agent, LlmAgentSettings
from clew_shared.config.tables import Settings
from clew_shared.core.journal import turns_left
from clew_shared.record.spec import Prompt
from clew_shared.record.state import State
from clew_shared.tools import TOOLS
from clew_shared.views.publish import state_view
from clew_shared.wire import hello as wire

GIVEN_UP_SENT = 20


def hello_answer(
    state: State,
    settings: Settings,
    agent: Agent,
    ledger: ReadableEvents,
    strategies: list[dict[str, Any]],
    *,
    prompt: Prompt | None = None,
) -> wire.HelloAnswer:
    """Return the answer to `hello` for an agent of this kind, without its key; also for `clew context`.

    `prompt` is what the agent's next prompt continues with: the goal's last report, or what is known of the model.
    An llm agent is sent the transcript of the current subtask, any other agent its last actions.
    """
    is_llm = isinstance(agent, LlmAgentSettings)
    fold = _transcript(state, ledger, settings.context.max_tokens, whole=is_llm)
    folded = fold.folded if is_llm else 0
    terms = state.spec.model_dump(include=set(wire.GoalTerms.model_fields))
    return fitted(
        wire.HelloAnswer(
            protocol=1,
            goal_id=state.goal_id,
            epoch=state.epoch,
            state=_hello_state(state, settings, fold, folded, prompt),
            thresholds=thresholds(settings),
            playbook=tuple(strategies),
            heartbeat_s=settings.heartbeat.interval_s,
            tools=TOOLS,
            notes=state.spec.notes,
            feedback=tuple(state.guidance.feedback),
            checks=state.spec.checks,
            spec=wire.GoalTerms.model_validate(terms),
            attempt=_attempt_terms(state, settings),
            options=wire.HelloOptions.model_validate(agent_options(settings, agent)),
        )
    )


def thresholds(settings: Settings) -> dict[str, object]:
    """Return the limits that concern an agent; also sent when they change."""
    return {
        **settings.loops.model_dump(mode="json"),
        "context": settings.context.model_dump(mode="json", exclude={"models"}),
        "heartbeat_s": settings.heartbeat.interval_s,
    }


def place_view(state: State) -> dict[str, object]:
    """Return the current subtask and its task, for `advance`."""
    task, subtask = state.task, state.subtask
    if task is None or subtask is None:
        return {"subtask": None, "task": None}
    same = ("description", "status", "attempts", "actions_total", "steps")
    shown = {name: getattr(subtask, name) for name in same}
    place = {"task_idx": state.current_task_idx, "subtask_idx": state.current_subtask_idx}
    shown |= {"last_failure": subtask.last_failure or None, **place}
    return {"subtask": shown, "task": {"description": task.description, "status": task.status}}


def _hello_state(
    state: State, settings: Settings, fold: TranscriptFold, folded: int, prompt: Prompt | None
) -> wire.HelloState:
    over = ("completed", "skipped", "failed")
    own: dict[str, object] = {
        "replan_required": state.plan.replan_required or None,
        "finished": [
            {name: getattr(s, name) for name in wire.FinishedSubtask.model_fields}
            for t in state.goal.tasks
            for s in t.subtasks
            if s.status in over
        ],
        "given_up": state.plan.set_aside[-GIVEN_UP_SENT:],
        "actions_total": state.actions_total,
        "progress": state.goal.progress(),
        "iterations_granted": state.attempts.iterations_granted,
        "turns_left": turns_left(state, limits_of(state, settings)),
        "probes": {
            name: {"passed": seen.passed, "after": seen.after, "current": state.holds(seen)}
            for name, seen in state.probes.items()
        },
        "prompt": prompt.model_dump(mode="json") if prompt else None,
        "transcript": tuple(fold.entries),
        "folded": folded,
        "idea": fold.idea,
        "there": state.guidance.there,
    }
    view = state_view(state)
    for t, task in enumerate(view["goal"]["tasks"]):
        for s, shown in enumerate(task["subtasks"]):  # with the runbook's steps at the current one
            here = (t, s) == state.place and state.subtask
            shown["steps"] = here.steps if here else []
    return wire.HelloState.model_validate(view | own)


def _attempt_terms(state: State, settings: Settings) -> wire.AttemptTerms:
    limits, present = limits_of(state, settings), state.attempt
    rung = present_rung(state, settings)
    own = {
        "n": present.number,
        "limit": limits.attempts,
        "rung": rung.model_dump(mode="json", exclude_none=True),
        "iterations": limits.turns(present.number) if limits.attempts > 1 else None,
    }
    return wire.AttemptTerms.model_validate(asdict(present) | own)


def _transcript(state: State, ledger: ReadableEvents, room: int, *, whole: bool) -> TranscriptFold:
    """Return the present conversation from the start of the subtask or its attempt, or from the last actions kept."""
    began = max(state.plan.subtask_seq, state.attempt.seq)
    actions = state.subtask.actions if state.subtask and not whole else []
    since = max(began, actions[0].seq - 1) if actions else began
    fold = TranscriptFold(lambda of: output_text(ledger, of), room, since)
    for _ in catch_up(fold, ledger, state.goal_id):
        pass
    return fold
