"""The prompt of a goal's agent, of its next call or an earlier turn, and what changed since the turn before.

It is built from the ledger alone, by the agent's own pure function: form, tightness and token count are those of the
last call, so the next one is equal byte for byte. An earlier turn is rebuilt from the events up to it, by the present
config. No LLM is called and nothing is written.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Any, Literal

from clew_daemon.config.profiles import profiled_agent, settings_for
from clew_daemon.learning.deltas import fold
from clew_daemon.learning.playbook import continued, playbook_events
from clew_daemon.reading.errors import CliError
from clew_daemon.reading.instance import Instance
from clew_daemon.reading.output import Line, columns
from clew_daemon.reading.queries import open_ledger
from clew_daemon.reading.sanitize import clean
from clew_daemon.record.goal_limits import present_agent
from clew_daemon.record.hello import hello_answer
from clew_daemon.record.store import PastEvents, state_of
from clew_shared.config.agent_tables import Agent, LlmAgentSettings
from clew_shared.config.tables import Settings
from clew_shared.ledger.reader import Reader
from clew_shared.prompt.layout import lay_out
from clew_shared.prompt.messages import Message
from clew_shared.prompt.view import PromptView
from clew_shared.record import events as ev
from clew_shared.record.codec import decode
from clew_shared.record.state import State
from clew_shared.text.words import counted, ending, thousands
from clew_shared.wire.hello import HelloAnswer

FIRST_STEPS = ("reflected", "action_allowed", "action_blocked", "thought", "planned")
LINES_COMPARED_MAX = 2_000  # A longer message counts as changed whole: comparing takes too long
_SIGNS = {"same": ("  ", ""), "added": ("+ ", "green"), "removed": ("- ", "red")}
Change = Literal["same", "added", "removed"]
ComparedLine = tuple[Change, str]  # added: only in the later prompt, removed: in the earlier one
Said = tuple[str, str]  # the role of a message, and its text with its tool calls spelled out below


@dataclass(frozen=True, slots=True)
class Preview:
    """A prompt, its `sizes` by block, and the `sha` of its head; `note` says why there is no next call."""

    messages: list[Message]
    sizes: dict[str, dict[str, int]]
    sha: str
    sha_of_last_call: str | None
    agent_kind: str
    attempt: int
    note: str

    @property
    def said(self) -> list[Said]:
        """What the messages say."""
        return [(str(one["role"]), message_text(one)) for one in self.messages]

    @property
    def tokens(self) -> int:
        """The estimated size of the whole prompt."""
        return self.sizes["total"]["tokens"]


@dataclass(frozen=True, slots=True)
class ComparedMessage:
    """A message with its lines compared; `change` is `same` where all of them are."""

    role: str
    change: Literal["same", "added", "removed", "changed"]
    lines: tuple[ComparedLine, ...]


@dataclass(frozen=True, slots=True)
class InspectedPrompt:
    """The prompt of a turn (counted from 1, the last one is the next call), and its messages compared."""

    turn: int
    turns: int
    messages: tuple[ComparedMessage, ...]
    preview: Preview


def inspected(instance: Instance, goal: str, turn: int | None) -> InspectedPrompt:
    """Return the prompt of a turn, built after the record of the one before; None: of the next. Raises CliError."""
    bounds = _turns(instance, goal)
    number = min(max(1, turn or len(bounds)), len(bounds))
    is_next = number == len(bounds)
    after = preview(instance, goal, until=None if is_next else bounds[number - 1])
    before = preview(instance, goal, until=bounds[number - 2]).said if number > 1 else []
    messages = tuple(prompt_difference(before, after.said))
    after = after if is_next else replace(after, note="")
    return InspectedPrompt(number, len(bounds), messages, after)


def _turns(instance: Instance, goal: str) -> list[int]:
    """Return after which event the prompt of each turn, and of the next, was built; a turn's last record counts."""
    first, has_begun, ends = 0, False, dict[int, int]()
    with open_ledger(instance) as reader:
        for row in reader.read(goal):
            has_begun = has_begun or row.kind in FIRST_STEPS
            first = first if has_begun else row.seq
            if row.kind == "reflected" and isinstance(event := decode(row.body), ev.Reflected):
                ends[event.iteration or len(ends) + 1] = row.seq
    return [first, *sorted(ends.values())]


def message_text(message: Message) -> str:
    """Return what a message says, with its tool calls spelled out below."""
    calls = (call["function"] for call in message.get("tool_calls") or ())
    called = "".join(f"\n-> {call['name']} {call['arguments']}" for call in calls)
    return (message.get("content") or "") + called


def preview(instance: Instance, goal: str, *, until: int | None = None) -> Preview:
    """Return the prompt as the agent would build it now, or would have after the event with the number `until`."""
    settings = instance.settings_for_display
    with open_ledger(instance) as reader:  # up to one event: a worker may be running
        past = PastEvents(reader, reader.last_seq() if until is None else until)
        state = state_of(past, goal)
        hello = _hello(reader, past, state, settings)
    agent = _agent(settings, state)
    laid = lay_out(PromptView.on_record(hello))
    last = state.guidance.prompt.sha if state.guidance.prompt else None
    attempt, note = state.attempt.number, _note(state, agent)
    return Preview(laid.messages, laid.sizes, laid.sha, last, agent.kind, attempt, note)


def _hello(reader: Reader, record: PastEvents, state: State, settings: Settings) -> HelloAnswer:
    agent = _agent(settings, state)
    if not isinstance(agent, LlmAgentSettings):  # what the built-in agent would be shown
        default = settings.agents.get()
        agent = default if isinstance(default, LlmAgentSettings) else LlmAgentSettings()
    agent = profiled_agent(settings, agent)
    settings = settings_for(settings, agent, state.attempts.turns_needed)
    prompt = continued(agent, state.guidance.prompt)
    shown = _strategies(reader, record, state, settings)
    return hello_answer(state, settings, agent, record, shown, prompt=prompt)


def _agent(settings: Settings, state: State) -> Agent:
    try:
        return present_agent(state, settings)[1]
    except KeyError:
        named = state.spec.agent
        why = f"the config has no agent {named!r}, which {state.goal_id} asks for"
        raise CliError(f"{why}; add [agents.{named}]") from None


def _strategies(
    reader: Reader, record: PastEvents, state: State, settings: Settings
) -> list[dict[str, Any]]:
    if not settings.playbook.enabled:
        return []
    at = max((r.seq for r in record.read(state.goal_id) if r.kind == "strategies_shown"), default=0)
    then = fold(event for seq, event in playbook_events(reader) if seq < at)
    return [b.to_dict() for i in state.guidance.strategies if (b := then.get_bullet(i))]


def _note(state: State, agent: Agent) -> str:
    if state.attempt.over:
        over = f"attempt {state.attempt.number} is over: {ending(state.attempt.over)}"
        return f"{over}. This is its conversation; the next attempt begins with another one"
    if agent.kind != "llm":
        what = f"the agent of this goal is of kind {agent.kind}: clew calls no LLM for it"
        return f"{what}. This is what the built-in llm agent would be shown"
    return f"the goal is {state.goal.status}: its agent makes no more calls" if state.ended else ""


def prompt_difference(before: Sequence[Said], after: Sequence[Said]) -> Iterator[ComparedMessage]:
    """Yield the messages of the later prompt, and those that it has no more, each compared with the earlier one."""
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    for _, i1, i2, j1, j2 in matcher.get_opcodes():
        for old, new in zip_longest(before[i1:i2], after[j1:j2]):
            if old == new:
                yield _whole(new, "same")
            elif old and new and old[0] == new[0]:
                yield _changed(old, new)
            else:
                yield from (_whole(old, "removed"),) if old else ()
                yield from (_whole(new, "added"),) if new else ()


def _whole(one: Said, change: Change) -> ComparedMessage:
    return ComparedMessage(one[0], change, tuple((change, line) for line in one[1].splitlines()))


def _changed(before: Said, after: Said) -> ComparedMessage:
    old, new = before[1].splitlines(), after[1].splitlines()
    if max(len(old), len(new)) > LINES_COMPARED_MAX:
        return ComparedMessage(after[0], "changed", _whole(after, "added").lines)
    lines: list[ComparedLine] = []
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        gone: Change = "removed"
        there: Change = "same" if tag == "equal" else "added"
        lines.extend((gone, line) for line in old[i1:i2] if there == "added")
        lines.extend((there, line) for line in new[j1:j2])
    return ComparedMessage(after[0], "changed", tuple(lines))


def turn_lines(prompt: InspectedPrompt, *, whole: bool) -> list[Line]:
    """Return the prompt of a turn, and its size; `whole`, or of the first turn: messages that did not change, too."""
    is_first, is_next = prompt.turn == 1, prompt.turn == prompt.turns
    head = f"Turn {prompt.turn} of {prompt.turns}{' (the next call)' if is_next else ''}"
    size, note = thousands(prompt.preview.tokens), prompt.preview.note
    lines: list[Line] = [[(head, "bold"), (f", about {size} tokens", "dim")]]
    lines += [[(f"-- {clean(note)}", "yellow")]] if note else []
    for message in prompt.messages:
        size = counted(len(message.lines), "line")
        what = size if is_first else f"{message.change}, {size}"
        lines.append([(f"== {clean(message.role)}", "bold"), (f" ({what})", "dim")])
        for change, text in message.lines if whole or is_first or message.change != "same" else ():
            sign, style = ("", "") if is_first else _SIGNS[change]
            lines.append([(f"{sign}{clean(text)}".rstrip(), style)])
    return [*lines, *size_lines(prompt.preview)]


def size_lines(prompt: Preview) -> list[Line]:
    """Return the size of each part of a prompt, its name, estimated tokens and characters."""
    rows = [
        [(f"   {name}", ""), (f"{n['tokens']} tokens", ""), (f"{n['chars']} characters", "dim")]
        for name, n in prompt.sizes.items()
    ]
    head: list[Line] = [[("-- size (tokens are estimated)", "bold")]]
    return [*head, *columns(rows)]
