"""The memory of an llm agent: the last answer to `hello`, and what the present turn adds to it.

The daemon keeps state and transcript, and each turn begins with its answer to `hello`. What a turn adds, how far the
transcript is folded and how tokens are counted is reported with the turn, so that any next prompt, of the same epoch or
of another, continues where this one stopped.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from clew_shared.prompt.layout import PromptLayout, lay_out
from clew_shared.prompt.messages import output_chars, plain_args
from clew_shared.prompt.transcript import turn_of, warning
from clew_shared.prompt.view import CHARS_PER_TOKEN, PromptView, recorded_mode
from clew_shared.record.prompt_facts import Prompt
from clew_shared.text.redact import redact
from clew_shared.text.shorten import without_middle
from clew_shared.wire.hello import Call, Entry, HelloAnswer, HelloState, Said
from clew_worker.agent.client import CallRecord
from clew_worker.agent.json_mode import RUNGS, ToolRequest
from clew_worker.agent.llm_client import Completion

CHARS_PER_TOKEN_MIN, CHARS_PER_TOKEN_MAX, CALIBRATION_WEIGHT = 1.5, 8.0, 0.3
MISSES_MAX = 10  # so many answers without a native call may a model give that has made one


class Memory:
    """The agent's copy of the goal, and what the present turn adds to its transcript and is recorded of it.

    `refused` is the tool that was refused in it; `changes` counts actions that changed something, or may have. `prompt`
    is reported with each turn, and says how the model is asked. Of it `rung` is the `response_format` of JSON mode;
    `tightness` is how often the server found a prompt too long; `chars_per_token` goes by its own counts.
    """

    def __init__(self, hello: HelloAnswer) -> None:
        self.hello = hello
        self.turn: list[Entry] = []
        self.records: list[CallRecord] = []
        self.refused = ""
        self.changes = 0
        self._misses = 0
        self.auto = hello.options.agent.mode == "auto"
        self.prompt = hello.state.prompt or Prompt()
        self.change(mode=recorded_mode(hello), rung=min(self.prompt.rung, RUNGS - 1))

    def change(self, **form: object) -> None:
        self.prompt = self.prompt.model_copy(update=form)

    def laid_out(self) -> PromptLayout:
        """Return the prompt, folded as far as it must be, and prepare its report."""
        state = self.state.model_copy(update={"prompt": self.prompt})
        view = PromptView.on_record(self.hello.model_copy(update={"state": state}))
        layout = lay_out(view)
        window, folded = layout.view.window.name.lower(), layout.view.folded
        self.change(sha=layout.sha, chars=layout.chars, window=window, folded=folded)
        return layout

    def answered(self, completion: Completion, calls: Sequence[ToolRequest]) -> None:
        """Ask for JSON from now on, if that is free, where a model has not yet made a native call that can be read.

        It has written a call as text, or one whose arguments are no JSON; or made no call, twice: it may think aloud.
        An answer that was cut off says nothing.
        """
        self.change(served=completion.served or self.prompt.served)
        if completion.calls and not any(call.fault for call in calls):
            self._misses = -MISSES_MAX
        elif completion.finish_reason != "length":
            self._misses += 2 if calls else 1
        if self.auto and self.prompt.mode == "tools" and self._misses > 1:
            self.change(mode="json", rung=0)

    def calibrate(self, tokens: int) -> None:
        """Adjust the average characters per token to the server's own count; the first one replaces the guess."""
        before, chars = self.prompt.chars_per_token, self.prompt.chars
        if tokens > 0 and chars > 0:  # else it tells nothing
            found = min(max(chars / tokens, CHARS_PER_TOKEN_MIN), CHARS_PER_TOKEN_MAX)
            weight = CALIBRATION_WEIGHT if before != CHARS_PER_TOKEN else 1.0
            self.change(chars_per_token=round(before + weight * (found - before), 4))

    @property
    def state(self) -> HelloState:
        return self.hello.state

    @property
    def calls(self) -> list[Call]:
        """The calls of the current conversation, oldest first."""
        entries = (*self.state.transcript, *self.turn)
        return list({e.seq: e for e in entries if isinstance(e, Call)}.values())

    @property
    def acted(self) -> list[Call]:
        """The recorded calls among them that were not refused."""
        return [call for call in self.calls if call.recorded and call.result != "blocked"]

    @property
    def refusals(self) -> int:
        return sum(call.result == "blocked" for call in self.calls)

    @property
    def fails_again(self) -> bool:
        """Whether the last recorded call repeats the one before it, and neither was a success."""
        last = [call for call in self.calls if call.recorded][-2:]
        same = len(last) == 2 and (last[0].name, last[0].args) == (last[1].name, last[1].args)
        return same and all(call.result != "success" for call in last)

    def report(self, tokens: int) -> Mapping[str, object]:
        """Return for `reflect` what the turn has added, and the last prompt as the next one needs it; end the turn."""
        prompt = self.prompt.model_dump(exclude={"model", "cuts", "kept", "ending"})
        each = tokens // max(len(self.records), 1)
        calls = [{**r, "cost": {"tokens": each, "time": r["execution_time"]}} for r in self.records]
        told, self.turn, self.records = turn_of(self.turn), [], []
        return {"tool_calls": calls, "turn": told, "prompt": prompt}

    def note(self, text: str, role: Literal["user", "assistant"] = "user") -> None:
        """Add a note to the model to the transcript, or its own text."""
        self.turn.append(Said(role, self._plain(text)))

    def warn(self, message: str) -> None:
        """Add an intervention to the transcript; it stays visible when folded."""
        self.turn.append(warning(message))

    def answer(self, name: str, args: Mapping[str, Any], text: str) -> None:
        """Add the answer to a call that no executor carried out: it has no number in the ledger."""
        number = min([0, *(call.seq for call in self.calls)]) - 1
        self.turn.append(Call(number, name, plain_args(args), "error", self._plain(text)))

    def _plain(self, text: str) -> str:
        """Return a text shortened and without keys, as the ledger has it."""
        return without_middle(redact(text), output_chars(self.hello.options.context.max_tokens))
