"""A goal's trace, span by span, as its events come. Pure.

A span is complete when the event that ends it has come, and its ids are derived from the goal and the event that began
it: sent twice, it is the same span. Goal, epoch, and in an epoch LLM calls and tools.
"""

from __future__ import annotations

import json

from pydantic import BaseModel, Field

from clew_daemon.processes.trace_ids import span_id, trace_id
from clew_shared.record import events as ev
from clew_shared.record.events import Event
from clew_shared.text.redact import redact

# The names of OpenTelemetry's GenAI conventions that clew's spans use.
#
# Their status is "Development", and the constants of `opentelemetry-semantic-conventions` are deprecated, so they are
# here, in one place. Source: open-telemetry/semantic-conventions-genai, docs/gen-ai/gen-ai-agent-spans.md.

OPERATION = "gen_ai.operation.name"
INVOKE_WORKFLOW = "invoke_workflow"
INVOKE_AGENT = "invoke_agent"
CHAT = "chat"
EXECUTE_TOOL = "execute_tool"

CONVERSATION = "gen_ai.conversation.id"
PROVIDER = "gen_ai.provider.name"
AGENT = "gen_ai.agent.name"
MODEL = "gen_ai.request.model"
SERVED = "gen_ai.response.model"
TOKENS_IN = "gen_ai.usage.input_tokens"
TOKENS_OUT = "gen_ai.usage.output_tokens"
TOKENS_CACHED = "gen_ai.usage.cache_read.input_tokens"
TOOL = "gen_ai.tool.name"
TOOL_CALL = "gen_ai.tool.call.id"
TOOL_ARGUMENTS = "gen_ai.tool.call.arguments"
TOOL_RESULT = "gen_ai.tool.call.result"
ERROR = "error.type"

CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""The variable that permits contents in spans, if it is "true"."""

_PROVIDERS = {
    "api.openai.com": "openai",
    "api.anthropic.com": "anthropic",
    "api.mistral.ai": "mistral_ai",
    "api.groq.com": "groq",
    "api.deepseek.com": "deepseek",
    "api.x.ai": "x_ai",
}
OTHER = "_OTHER"


def provider(host: str) -> str:
    """Return the provider that an endpoint's host belongs to."""
    return _PROVIDERS.get(host, OTHER)


CONTENT_CHARS = 4_000

Value = str | int | float | bool
Attributes = dict[str, Value]


class TraceSpan(BaseModel):
    """A span of OpenTelemetry: ids in hex, `parent` "" for none, times in seconds since 1970.

    `error` is "" for a span that ended well.
    """

    trace: str
    id: str
    parent: str = ""
    name: str
    start: float
    end: float = 0.0
    attributes: Attributes = Field(default_factory=dict)
    error: str = ""

    @property
    def is_call(self) -> bool:
        """Whether it is a call of a model, at a server."""
        return self.attributes.get(OPERATION) == CHAT


class Trace(BaseModel):
    """The open spans of a goal: its own, and those of its epochs and its actions, by their numbers."""

    goal: str
    label: str = ""
    agent: str = ""
    root: TraceSpan | None = None
    epochs: dict[int, TraceSpan] = Field(default_factory=dict)
    actions: dict[int, TraceSpan] = Field(default_factory=dict)
    last_epoch: int = 0

    def advance(self, event: Event, seq: int, *, contents: bool) -> list[TraceSpan]:
        """Take the next event, and return the spans that it completes; `contents`: they have arguments and outputs."""
        found: list[TraceSpan] = []
        match event:
            case ev.GoalAccepted():
                self.label = event.spec.name or self.goal
                self._begin_goal(event, seq)
                if contents and self.root:
                    self.root.attributes["clew.goal.description"] = _content(event.spec.description)
            case ev.GoalRequeued() if self.root is None:
                self._begin_goal(event, seq)
            case ev.GoalEnded():
                found = self._end_goal(event)
            case ev.WorkerStarted():
                found = self._begin_epoch(event, seq)
            case ev.WorkerExited():
                found = self._end_epoch(event)
            case ev.Reflected():
                found = self._llm_call(event, seq)
            case ev.ActionAllowed() | ev.ActionBlocked():
                found = self._judged(event, seq, contents=contents)
            case ev.ActionFinished() | ev.ActionInterrupted():
                found = self._action_ended(event, contents=contents)
            case _:
                pass
        return found

    # -- the goal

    def _begin_goal(self, event: Event, seq: int) -> None:
        name = f"{INVOKE_WORKFLOW} {self.label}"
        self.root = self._span(seq, event.at, name, "", {OPERATION: INVOKE_WORKFLOW})

    def _end_goal(self, event: ev.GoalEnded) -> list[TraceSpan]:
        root, self.root = self.root, None
        if root is None:
            return []
        root.attributes |= {"clew.status": event.status, "clew.verified": event.verified}
        return [_ended(root, event.at, "" if event.status == "completed" else event.status)]

    # -- an epoch

    def _begin_epoch(self, event: ev.WorkerStarted, seq: int) -> list[TraceSpan]:
        lost = [_ended(span, event.at, "lost") for span in self.epochs.values()]
        self.agent = event.agent or self.agent
        attributes: Attributes = {
            OPERATION: INVOKE_AGENT,
            AGENT: self.agent,
            "clew.epoch": event.epoch,
        }
        name = f"{INVOKE_AGENT} {self.agent}".rstrip()
        parent = self.root.id if self.root else ""
        span = self._span(seq, event.at, name, parent, attributes, span=event.span)
        self.epochs, self.last_epoch = {event.epoch: span}, event.epoch
        return lost

    def _end_epoch(self, event: ev.WorkerExited) -> list[TraceSpan]:
        span = self.epochs.pop(event.epoch, None)
        if span is None:
            return []
        span.attributes["clew.reason"] = event.reason
        return [_ended(span, event.at, event.reason if event.crash else "")]

    def _parent(self, epoch: int) -> str:
        span = self.epochs.get(epoch) or self.root
        return span.id if span else ""

    # -- in an epoch

    def _llm_call(self, event: ev.Reflected, seq: int) -> list[TraceSpan]:
        if not (event.llm_s or event.tokens):
            return []
        known, served = (event.prompt.model, event.prompt.served) if event.prompt else ("", "")
        named, _, endpoint = known.rpartition("@")
        model = named or known
        attributes: Attributes = {
            OPERATION: CHAT,
            PROVIDER: provider(endpoint.partition(":")[0]),
            MODEL: model,
            SERVED: served,
            AGENT: self.agent,
            TOKENS_IN: event.tokens_in,
            TOKENS_OUT: event.tokens_out,
            TOKENS_CACHED: event.tokens_cached,
            "clew.iteration": event.iteration,
        }
        given = {name: value for name, value in attributes.items() if value != ""}
        parent, name = self._parent(self.last_epoch), f"{CHAT} {model}".rstrip()
        span = self._span(seq, event.at - event.llm_s, name, parent, given)
        return [_ended(span, event.at)]

    def _judged(
        self, event: ev.ActionAllowed | ev.ActionBlocked, seq: int, *, contents: bool
    ) -> list[TraceSpan]:
        name = f"{EXECUTE_TOOL} {event.tool}"
        attributes: Attributes = {
            OPERATION: EXECUTE_TOOL,
            TOOL: event.tool,
            TOOL_CALL: str(seq),
            "clew.attempt": event.attempt,
        }
        if contents:
            attributes[TOOL_ARGUMENTS] = _content(json.dumps(event.args))
        span = self._span(seq, event.at, name, self._parent(event.epoch), attributes)
        if isinstance(event, ev.ActionBlocked):
            span.attributes |= {"clew.verdict": "blocked", "clew.reason": event.reason}
            return [_ended(span, event.at, "blocked")]
        span.attributes["clew.verdict"] = "allowed"
        self.actions[seq] = span
        return []

    def _action_ended(
        self, event: ev.ActionFinished | ev.ActionInterrupted, *, contents: bool
    ) -> list[TraceSpan]:
        span = self.actions.pop(event.of, None)
        if span is None:
            return []
        if isinstance(event, ev.ActionInterrupted):
            span.attributes["clew.reason"] = event.reason
            return [_ended(span, event.at, "interrupted")]
        span.attributes |= {"clew.result": event.result, "clew.world": event.world}
        if contents:
            span.attributes[TOOL_RESULT] = _content(event.head)
        failed = "" if event.result == "success" else event.error_class or event.result
        return [_ended(span, event.at, failed)]

    def _span(
        self,
        seq: int,
        start: float,
        name: str,
        parent: str,
        attributes: Attributes,
        *,
        span: str = "",
    ) -> TraceSpan:
        """Return a span that begins with an event; `span` is its id if the event has one."""
        return TraceSpan(
            trace=trace_id(self.goal),
            id=span or span_id(self.goal, seq, start),
            parent=parent,
            name=name,
            start=start,
            attributes={CONVERSATION: self.goal, **attributes},
        )


def _ended(span: TraceSpan, at: float, error: str = "") -> TraceSpan:
    span.end, span.error = max(at, span.start), error
    if error:
        span.attributes[ERROR] = error
    return span


def _content(text: str) -> str:
    return redact(text)[:CONTENT_CHARS]
