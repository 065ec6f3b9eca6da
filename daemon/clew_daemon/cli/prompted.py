"""The prompt of a goal, as its agent would build it now: from the ledger alone, by the same pure function.

Form, tightness and token count are those of the last call, so that what is shown here is what the next call sends,
byte for byte. It asks no LLM and writes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clew_daemon.cli.errors import CliError

if TYPE_CHECKING:
    from clew_daemon.cli.where import Where
    from clew_daemon.processes.cells import Agent
    from clew_shared.config.settings import Settings
    from clew_shared.config.tables import LlmAgentSettings
    from clew_shared.ledger import Reader
    from clew_shared.prompt.view import PromptView
    from clew_shared.record.state import State
    from clew_shared.wire.hello import HelloAnswer

LOOKS_AGAIN_MAX = 5
"""A worker may be running: how often the ledger is read again until everything read is of one moment."""


def prompted(where: Where, goal: str) -> dict[str, Any]:
    """Return `messages`, as the LLM gets them, `sizes` by block, `left_out`, and the `sha` of the prompt's head.

    Sizes are in characters and estimated tokens; `sha_of_last_call` is None before the first one; `note` says
    where no LLM is asked at all.
    """
    from clew_daemon.cli.record import opened
    from clew_shared.prompt.layout import lay_out
    from clew_shared.prompt.view import view_on_record

    settings = where.shown_by
    with opened(where) as reader:
        if reader is None:
            raise CliError(f"there is no goal {goal!r}")
        state, hello, unshown = _told(reader, goal, settings)
        for _ in range(LOOKS_AGAIN_MAX):
            if next(reader.read(goal, state.seq, 1), None) is None:
                break
            state, hello, unshown = _told(reader, goal, settings)
    agent = _agent(settings, state)
    laid = lay_out(view_on_record(hello))
    view = laid.view
    return {
        "messages": laid.messages,
        "sizes": laid.sizes,
        "left_out": [*laid.left_out, *_cut(view), *_tools_left_out(hello, view), *unshown],
        "sha": laid.sha,
        "sha_of_last_call": state.calls[-1].sha if state.calls else None,
        "agent_kind": agent.kind,
        "note": _note(state, agent),
    }


def _told(reader: Reader, goal: str, settings: Settings) -> tuple[State, HelloAnswer, list[str]]:
    """Return the state, what the agent would be sent, and a line on the strategies that it would not."""
    from clew_daemon.record.hello import hello_answer
    from clew_daemon.record.store import load_state

    state = load_state(reader, goal)
    shown, unshown = _strategies(reader, state, settings)
    asked = _thinking(settings, _agent(settings, state))
    return state, hello_answer(state, settings, asked, reader, shown), unshown


def _agent(settings: Settings, state: State) -> Agent:
    try:
        return settings.agents.get(state.spec.agent or None)
    except KeyError:
        raise CliError(
            f"the config has no agent {state.spec.agent!r}, which {state.goal_id} asks for; "
            f"add [agents.{state.spec.agent}]"
        ) from None


def _thinking(settings: Settings, agent: Agent) -> LlmAgentSettings:
    """Return the agent itself where it asks an LLM, else the default one."""
    from clew_shared.config.tables import LlmAgentSettings

    if isinstance(agent, LlmAgentSettings):
        return agent
    default = settings.agents.get()
    return default if isinstance(default, LlmAgentSettings) else LlmAgentSettings()


def _strategies(
    reader: Reader, state: State, settings: Settings
) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the strategies as the agent was shown them, and a line on those that it was not."""
    from clew_daemon.learning.playbook import playbook_events
    from clew_daemon.learning.record import fold

    if not settings.playbook.enabled:
        return [], []
    at = max((r.seq for r in reader.read(state.goal_id) if r.kind == "strategies_shown"), default=0)
    events = list(playbook_events(reader))
    then = fold(event for seq, event in events if seq < at)
    shown = [b.to_dict() for i in state.strategies if (b := then.get_bullet(i))]
    others = len(
        {b.id for b in fold(event for _, event in events).bullets()} - set(state.strategies)
    )
    why = "each epoch is shown a selection; `clew playbook list` has all of them"
    count = f"{others} {'strategy' if others == 1 else 'strategies'} of the playbook"
    return shown, [f"{count} ({why})"] if others else []


def _cut(view: PromptView) -> list[str]:
    """Say of how many outputs only the two ends are shown."""
    from clew_shared.prompt.messages import output_chars
    from clew_shared.wire.hello import Call

    cut = sum(
        _LEFT_OUT in e.output
        or len(e.output) > output_chars(view.max_tokens, view.tightness, e.name)
        for e in view.transcript[view.folded :]
        if isinstance(e, Call)
    )
    count = f"{cut} {'output' if cut == 1 else 'outputs'}"
    return [f"the middle of {count} (too long for the token budget)"] if cut else []


_LEFT_OUT = " characters left out …]"


def _tools_left_out(hello: HelloAnswer, view: PromptView) -> list[str]:
    """Say which tools are not offered now, and why."""
    from clew_shared.prompt.tools import COMPLETE_SUBTASK, PLAN, REFLECT, is_small

    if view.replan:
        return [
            f"tools: all but {' and '.join(t.name for t in view.tools)} (the agent must plan again)"
        ]
    shown = {tool.name for tool in view.tools}
    small, planned = is_small(hello), hello.state.planned
    in_short = "omitted for short goals"
    said = {tool.name: in_short for tool in hello.tools}
    said[PLAN.name] = "there is a plan" if planned else in_short if small else "work has begun"
    said[COMPLETE_SUBTASK.name] = "the goal has no subtasks: `finish` ends it"
    if view.reflects:
        said[REFLECT.name] = "in json mode it is part of the answer"
    else:
        said[REFLECT.name] = in_short if small else "the agent's `reflection` is not inline"
    return [f"tool {name} ({why})" for name, why in said.items() if name not in shown]


def _note(state: State, agent: Agent) -> str:
    if agent.kind != "llm":
        what = f"the agent of this goal is of kind {agent.kind}: clew calls no LLM for it"
        return f"{what}. This is what the built-in llm agent would be shown"
    if state.ended:
        return f"the goal is {state.goal.status}: its agent makes no more calls"
    return ""
