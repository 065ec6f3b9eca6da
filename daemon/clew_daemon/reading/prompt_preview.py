"""The prompt of a goal as its agent would build it now, from the ledger alone, by the same pure function.

Form, tightness and token count are those of the last call, so the preview equals the next call byte for byte. It
calls no LLM and writes nothing. The prompt of an earlier attempt is that after its last turn, rebuilt in the same way
from the events up to its end, by the present config.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from clew_daemon.reading.errors import CliError
from clew_daemon.reading.prompt_difference import (
    ComparedMessage,
    PromptMessage,
    prompt_difference,
)
from clew_daemon.reading.queries import open_ledger
from clew_daemon.reading.sanitize import counted
from clew_shared.record import events as ev
from clew_shared.record.codec import decode

if TYPE_CHECKING:
    from clew_daemon.reading.instance import Instance
    from clew_daemon.record.store import PastEvents
    from clew_shared.config.agent_tables import Agent, LlmAgentSettings
    from clew_shared.config.tables import Settings
    from clew_shared.ledger import Reader
    from clew_shared.prompt.view import PromptView
    from clew_shared.record.state import State
    from clew_shared.wire.hello import HelloAnswer


@dataclass(frozen=True, slots=True)
class InspectedPrompt:
    """The prompt of a turn (counted from 1, the last one is the next call), its sizes and its messages."""

    turn: int
    turns: int
    note: str
    messages: tuple[ComparedMessage, ...]
    sizes: tuple[tuple[str, int, int], ...]
    left_out: tuple[str, ...]

    @property
    def tokens(self) -> int:
        """The estimated size of the whole prompt."""
        return sum(tokens for _, tokens, _ in self.sizes)


def inspected(instance: Instance, goal: str, turn: int | None) -> InspectedPrompt:
    """Return the prompt of a turn, None for the next one; raises CliError where it cannot be built.

    A turn ends with its iteration record, so its prompt is the one after the record of the turn before.
    """
    ends = _turn_ends(instance, goal)
    number = min(max(1, turn or len(ends) + 1), len(ends) + 1)
    after = _prompt(instance, goal, ends, number)
    before = _messages(_prompt(instance, goal, ends, number - 1)) if number > 1 else []
    return InspectedPrompt(
        number,
        len(ends) + 1,
        after["note"] if number > len(ends) else "",
        tuple(prompt_difference(before, _messages(after))),
        tuple((name, size["tokens"], size["chars"]) for name, size in after["sizes"].items()),
        tuple(after["left_out"]),
    )


def _turn_ends(instance: Instance, goal: str) -> list[int]:
    """Return the number of the event with which each turn ended; of two records of one turn the last."""
    ends: dict[int, int] = {}
    with open_ledger(instance) as reader:
        for row in reader.read(goal):
            if row.kind == "reflected" and isinstance(event := decode(row.body), ev.Reflected):
                ends[event.iteration or len(ends) + 1] = row.seq
    return sorted(ends.values())


def _prompt(instance: Instance, goal: str, ends: list[int], turn: int) -> dict[str, Any]:
    """Return the prompt of a turn; the one before the first record is that of the goal's first worker."""
    if turn > len(ends):
        return preview(instance, goal)
    return preview(instance, goal, until=ends[turn - 2] if turn > 1 else _first(instance, goal))


def _first(instance: Instance, goal: str) -> int:
    """Return the event after which the first call was made: the last one before any action or record."""
    seq = 0
    with open_ledger(instance) as reader:
        for row in reader.read(goal):
            if row.kind in ("reflected", "action_allowed", "action_blocked", "thought", "planned"):
                break
            seq = row.seq
    return seq


def _messages(prompt: dict[str, Any]) -> list[PromptMessage]:
    return [PromptMessage(str(one["role"]), message_text(one)) for one in prompt["messages"]]


def message_text(message: dict[str, Any]) -> str:
    """Return what a message says, with its tool calls spelled out below."""
    calls = (call["function"] for call in message.get("tool_calls") or ())
    called = "".join(f"\n-> {call['name']} {call['arguments']}" for call in calls)
    return (message.get("content") or "") + called


REREADS_MAX = 5
"""How often the ledger is read again, at most, until all that was read is of one moment: a worker may be running."""

LEFT_OUT = " characters left out …]"


def preview(
    instance: Instance, goal: str, attempt: int | None = None, *, until: int | None = None
) -> dict[str, Any]:
    """Return the prompt as JSON: `messages` as the LLM gets them, `sizes` by block, `left_out`, `sha` of its head.

    Sizes are in characters and estimated tokens; `sha_of_last_call` is None before the first call; `note` says why
    there is no next call. With `attempt` it is the prompt at the end of that attempt; CliError where there is none.
    With `until`, the number of an event, it is the prompt after that event.
    """
    from clew_daemon.reading.queries import open_ledger
    from clew_shared.prompt.layout import lay_out
    from clew_shared.prompt.view import view_on_record

    settings = instance.settings_for_display
    with open_ledger(instance) as reader:
        if until is not None:
            state, hello, unshown = _after(reader, goal, settings, until)
        elif attempt is None:
            state, hello, unshown = _now(reader, goal, settings)
        else:
            state, hello, unshown = _then(reader, goal, settings, attempt)
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
        "attempt": state.attempt.number,
        "note": _note(state, agent),
    }


def state_at_end(instance: Instance, goal: str, attempt: int) -> State:
    """Return a goal's state at the end of an attempt at its current subtask; CliError where there is none."""
    from clew_daemon.reading.queries import open_ledger
    from clew_daemon.record.store import state_of

    with open_ledger(instance) as reader:
        return state_of(_past(reader, goal, attempt), goal)


_Moment = tuple["State", "HelloAnswer", list[str]]
"""A state, the answer that `hello` would get, and a line on the strategies that it would leave out."""


def _now(reader: Reader, goal: str, settings: Settings) -> _Moment:
    from clew_daemon.record.store import load_state

    state = load_state(reader, goal)
    moment = _moment(reader, reader, state, settings)
    for _ in range(REREADS_MAX):
        if next(reader.read(goal, state.seq, 1), None) is None:
            break
        state = load_state(reader, goal)
        moment = _moment(reader, reader, state, settings)
    return moment


def _then(reader: Reader, goal: str, settings: Settings, attempt: int) -> _Moment:
    from clew_daemon.record.store import state_of

    past = _past(reader, goal, attempt)
    return _moment(reader, past, state_of(past, goal), settings)


def _after(reader: Reader, goal: str, settings: Settings, event: int) -> _Moment:
    from clew_daemon.record.store import PastEvents, state_of

    past = PastEvents(reader, event)
    return _moment(reader, past, state_of(past, goal), settings)


def _past(reader: Reader, goal: str, attempt: int) -> PastEvents:
    """Return the events up to the end of an attempt at the goal's current subtask; CliError where there is none."""
    from clew_daemon.record.store import PastEvents, ends_of_attempts

    ends = ends_of_attempts(reader, goal)
    if attempt not in ends:
        known = ", ".join(map(str, sorted(ends)))
        raise CliError(
            f"{goal} has no attempt {attempt} at its current subtask; on record: {known}"
        )
    return PastEvents(reader, ends[attempt])


def _moment(
    reader: Reader, record: Reader | PastEvents, state: State, settings: Settings
) -> _Moment:
    from clew_daemon.config.need import settings_for
    from clew_daemon.config.profiles import profiled_agent
    from clew_daemon.learning.models import continued
    from clew_daemon.record.hello import hello_answer

    shown, unshown = _strategies(reader, record, state, settings)
    agent = profiled_agent(settings, _llm_agent(settings, _agent(settings, state)))
    settings = settings_for(settings, agent, state.turns_needed)
    prompt = continued(agent, state.prompt)
    hello = hello_answer(state, settings, agent, record, shown, prompt=prompt)
    return state, hello, unshown


def _agent(settings: Settings, state: State) -> Agent:
    from clew_daemon.record.goal_limits import present_agent

    try:
        return present_agent(state, settings)[1]
    except KeyError:
        raise CliError(
            f"the config has no agent {state.spec.agent!r}, which {state.goal_id} asks for; "
            f"add [agents.{state.spec.agent}]"
        ) from None


def _llm_agent(settings: Settings, agent: Agent) -> LlmAgentSettings:
    """Return the agent itself if it calls an LLM, otherwise the default one."""
    from clew_shared.config.agent_tables import LlmAgentSettings

    if isinstance(agent, LlmAgentSettings):
        return agent
    default = settings.agents.get()
    return default if isinstance(default, LlmAgentSettings) else LlmAgentSettings()


def _strategies(
    reader: Reader, record: Reader | PastEvents, state: State, settings: Settings
) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the strategies as the agent was shown them, and a line on the others."""
    from clew_daemon.learning.deltas import fold
    from clew_daemon.learning.playbook import playbook_events

    if not settings.playbook.enabled:
        return [], []
    at = max((r.seq for r in record.read(state.goal_id) if r.kind == "strategies_shown"), default=0)
    events = list(playbook_events(reader))
    then = fold(event for seq, event in events if seq < at)
    shown = [b.to_dict() for i in state.strategies if (b := then.get_bullet(i))]
    all_ids = {b.id for b in fold(event for _, event in events).bullets()}
    others = len(all_ids - set(state.strategies))
    why = "each epoch is shown a selection; `clew playbook list` has all of them"
    count = counted(others, "strategy", "strategies")
    return shown, [f"{count} of the playbook ({why})"] if others else []


def _cut(view: PromptView) -> list[str]:
    """Return a line on the outputs of which only the two ends are shown."""
    from clew_shared.prompt.messages import output_chars
    from clew_shared.wire.hello import Call

    cut = sum(
        LEFT_OUT in e.output
        or len(e.output) > output_chars(view.max_tokens, view.tightness, e.name)
        for e in view.transcript[view.folded :]
        if isinstance(e, Call)
    )
    return (
        [f"the middle of {counted(cut, 'output')} (too long for the token budget)"] if cut else []
    )


def _tools_left_out(hello: HelloAnswer, view: PromptView) -> list[str]:
    """Return a line for each tool that is not offered now, with the reason."""
    from clew_shared.prompt.tools import COMPLETE_SUBTASK, PLAN, REFLECT, is_small

    if view.replan:
        offered = " and ".join(tool.name for tool in view.tools)
        return [f"tools: all but {offered} (the agent must plan again)"]
    shown = {tool.name for tool in view.tools}
    small, planned = is_small(hello), hello.state.planned
    in_short = "omitted for short goals"
    reasons = {tool.name: in_short for tool in hello.tools}
    reasons[PLAN.name] = "there is a plan" if planned else in_short if small else "work has begun"
    reasons[COMPLETE_SUBTASK.name] = "the goal has no subtasks: `finish` ends it"
    if view.reflects:
        reasons[REFLECT.name] = "in json mode it is part of the answer"
    else:
        reasons[REFLECT.name] = in_short if small else "the agent's `reflection` is not inline"
    return [f"tool {name} ({why})" for name, why in reasons.items() if name not in shown]


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
