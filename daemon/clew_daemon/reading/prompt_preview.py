"""The prompt of a goal as its agent would build it now, from the ledger alone, by the same pure function.

Form, tightness and token count are those of the last call, so the preview equals the next call byte for byte. It
calls no LLM and writes nothing. The prompt of an earlier turn is rebuilt in the same way from the events up to it, by
the present config.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clew_daemon.reading.errors import CliError
from clew_daemon.reading.prompt_text import InspectedPrompt, PromptMessage, prompt_difference
from clew_daemon.reading.queries import open_ledger
from clew_shared.record import events as ev
from clew_shared.record.codec import decode

if TYPE_CHECKING:
    from clew_daemon.reading.instance import Instance
    from clew_daemon.record.store import PastEvents
    from clew_shared.config.agent_tables import Agent
    from clew_shared.config.tables import Settings
    from clew_shared.ledger import Reader
    from clew_shared.record.state import State
    from clew_shared.wire.hello import HelloAnswer


FIRST_STEPS = ("reflected", "action_allowed", "action_blocked", "thought", "planned")


def inspected(instance: Instance, goal: str, turn: int | None) -> InspectedPrompt:
    """Return the prompt of a turn, None for the next one; raises CliError where it cannot be built.

    A turn ends with its iteration record, so its prompt is the one after the record of the turn before.
    """
    bounds = _turns(instance, goal)
    number = min(max(1, turn or len(bounds)), len(bounds))
    is_next = number == len(bounds)
    after = preview(instance, goal, until=None if is_next else bounds[number - 1])
    before = preview(instance, goal, until=bounds[number - 2]) if number > 1 else None
    return InspectedPrompt(
        number,
        len(bounds),
        after["note"] if is_next else "",
        tuple(prompt_difference(_messages(before) if before else [], _messages(after))),
        tuple((name, size["tokens"], size["chars"]) for name, size in after["sizes"].items()),
        tuple(after["left_out"]),
    )


def _turns(instance: Instance, goal: str) -> list[int]:
    """Return the number of the event after which the prompt of each turn was built, the next one's too.

    That of the first turn is the last event before any action or record; of two records of one turn the last counts.
    """
    first, has_begun, ends = 0, False, dict[int, int]()
    with open_ledger(instance) as reader:
        for row in reader.read(goal):
            has_begun = has_begun or row.kind in FIRST_STEPS
            first = first if has_begun else row.seq
            if row.kind == "reflected" and isinstance(event := decode(row.body), ev.Reflected):
                ends[event.iteration or len(ends) + 1] = row.seq
    return [first, *sorted(ends.values())]


def _messages(prompt: dict[str, Any]) -> list[PromptMessage]:
    return [PromptMessage(str(one["role"]), message_text(one)) for one in prompt["messages"]]


def message_text(message: dict[str, Any]) -> str:
    """Return what a message says, with its tool calls spelled out below."""
    calls = (call["function"] for call in message.get("tool_calls") or ())
    called = "".join(f"\n-> {call['name']} {call['arguments']}" for call in calls)
    return (message.get("content") or "") + called


def preview(instance: Instance, goal: str, *, until: int | None = None) -> dict[str, Any]:
    """Return the prompt as JSON: `messages` as the LLM gets them, `sizes` by block, `left_out`, `sha` of its head.

    Sizes are in characters and estimated tokens; `sha_of_last_call` is None before the first call; `note` says why
    there is no next call. With `until`, the number of an event, it is the prompt after that event.
    """
    from clew_shared.prompt.layout import lay_out
    from clew_shared.prompt.view import PromptView

    settings = instance.settings_for_display
    with open_ledger(instance) as reader:
        state, hello = _moment(reader, goal, settings, until)
    agent = _agent(settings, state)
    laid = lay_out(PromptView.on_record(hello))
    return {
        "messages": laid.messages,
        "sizes": laid.sizes,
        "left_out": list(laid.left_out),
        "sha": laid.sha,
        "sha_of_last_call": state.prompt.sha if state.prompt else None,
        "agent_kind": agent.kind,
        "attempt": state.attempt.number,
        "note": _note(state, agent),
    }


def _moment(
    reader: Reader, goal: str, settings: Settings, until: int | None
) -> tuple[State, HelloAnswer]:
    """Return a goal's state, and the answer that `hello` would get; as of an event where one is given.

    All is read up to one event: a worker may be running.
    """
    from clew_daemon.record.store import PastEvents, state_of

    past = PastEvents(reader, reader.last_seq() if until is None else until)
    state = state_of(past, goal)
    return state, _hello(reader, past, state, settings)


def _hello(reader: Reader, record: PastEvents, state: State, settings: Settings) -> HelloAnswer:
    from clew_daemon.config.profiles import profiled_agent, settings_for
    from clew_daemon.learning.models import continued
    from clew_daemon.record.hello import hello_answer
    from clew_shared.config.agent_tables import LlmAgentSettings

    agent = _agent(settings, state)
    if not isinstance(agent, LlmAgentSettings):  # what the built-in agent would be shown
        default = settings.agents.get()
        agent = default if isinstance(default, LlmAgentSettings) else LlmAgentSettings()
    agent = profiled_agent(settings, agent)
    settings = settings_for(settings, agent, state.turns_needed)
    prompt = continued(agent, state.prompt)
    shown = _strategies(reader, record, state, settings)
    return hello_answer(state, settings, agent, record, shown, prompt=prompt)


def _agent(settings: Settings, state: State) -> Agent:
    from clew_daemon.record.goal_limits import present_agent

    try:
        return present_agent(state, settings)[1]
    except KeyError:
        raise CliError(
            f"the config has no agent {state.spec.agent!r}, which {state.goal_id} asks for; "
            f"add [agents.{state.spec.agent}]"
        ) from None


def _strategies(
    reader: Reader, record: PastEvents, state: State, settings: Settings
) -> list[dict[str, Any]]:
    """Return the strategies as the agent was shown them."""
    from clew_daemon.learning.deltas import fold
    from clew_daemon.learning.playbook import playbook_events

    if not settings.playbook.enabled:
        return []
    at = max((r.seq for r in record.read(state.goal_id) if r.kind == "strategies_shown"), default=0)
    then = fold(event for seq, event in playbook_events(reader) if seq < at)
    return [b.to_dict() for i in state.strategies if (b := then.get_bullet(i))]


def _note(state: State, agent: Agent) -> str:
    if state.attempt.over:
        from clew_shared.text.words import ending

        over = f"attempt {state.attempt.number} is over: {ending(state.attempt.over)}"
        return f"{over}. This is its conversation; the next attempt begins with another one"
    if agent.kind != "llm":
        what = f"the agent of this goal is of kind {agent.kind}: clew calls no LLM for it"
        return f"{what}. This is what the built-in llm agent would be shown"
    if state.ended:
        return f"the goal is {state.goal.status}: its agent makes no more calls"
    return ""
