"""The memory of an llm agent: the last answer to `hello`, and what the present turn adds to it.

The daemon keeps state and transcript, and each turn begins with its answer to `hello`. What a turn adds, how far the
transcript is folded and how tokens are counted is reported with the turn, so that any next prompt, of the same epoch or
of another, continues where this one stopped.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from clew_shared.prompt.layout import PromptLayout, lay_out
from clew_shared.prompt.messages import output_chars, plain_args
from clew_shared.prompt.transcript import turn_of, warning
from clew_shared.prompt.view import CHARS_PER_TOKEN, PromptView, recorded_mode
from clew_shared.record.prompt_facts import Prompt
from clew_shared.text.redact import redact
from clew_shared.text.shorten import without_middle
from clew_shared.wire.hello import Call, Entry, HelloAnswer, HelloState, Mode, Said
from clew_worker.agent.client import CallRecord
from clew_worker.agent.json_mode import RUNGS, ToolRequest
from clew_worker.agent.llm_client import Completion

CHARS_PER_TOKEN_MIN, CHARS_PER_TOKEN_MAX, CALIBRATION_WEIGHT = 1.5, 8.0, 0.3
MISSES_MAX = 10
"""So many answers without a native call does a model get away with that has made one."""


@dataclass
class CallForm:
    """How the model is asked, and how long its prompts may be; reported with each turn, for the epochs to come.

    `rung` is the `response_format` of JSON mode (`json_mode.response_format`). `tightness` is how often the server
    found a prompt too long; `chars_per_token` goes by its own counts. `served` is what the server says that it runs.
    """

    mode: Mode = "tools"
    rung: int = 0
    tightness: int = 0
    served: str = ""
    chars_per_token: float = CHARS_PER_TOKEN
    _misses = 0  # not reported

    def answered(self, completion: Completion, calls: Sequence[ToolRequest], *, auto: bool) -> None:
        """Ask for JSON from now on, with `auto`, where a model has not yet made a native call that can be read.

        It has written a call as text, or one whose arguments are no JSON; or made no call, twice: it may think aloud.
        An answer that was cut off says nothing.
        """
        self.served = completion.served or self.served
        if completion.calls and not any(call.fault for call in calls):
            self._misses = -MISSES_MAX
        elif completion.finish_reason != "length":
            self._misses += 2 if calls else 1
        if auto and self.mode == "tools" and self._misses > 1:
            self.ask_for_json()

    def ask_for_json(self) -> None:
        """Ask for JSON from now on, in its richest form."""
        self.mode, self.rung = "json", 0

    def calibrate(self, chars: int, tokens: int) -> None:
        """Adjust the average characters per token to the server's own count; the first one replaces the guess."""
        if tokens > 0 and chars > 0:  # else it tells nothing
            found = min(max(chars / tokens, CHARS_PER_TOKEN_MIN), CHARS_PER_TOKEN_MAX)
            weight = CALIBRATION_WEIGHT if self.chars_per_token != CHARS_PER_TOKEN else 1.0
            average = self.chars_per_token + weight * (found - self.chars_per_token)
            self.chars_per_token = round(average, 4)


class Memory:
    """The agent's copy of the goal, and what the present turn adds to its transcript and is recorded of it.

    `refused` is the tool that was refused in it; `changes` counts actions that changed something, or may have.
    """

    def __init__(self, hello: HelloAnswer) -> None:
        self.hello = hello
        self.turn: list[Entry] = []
        self.records: list[CallRecord] = []
        self.refused = ""
        self.changes = 0
        self._shown = last = hello.state.prompt or Prompt()
        mode, rung = recorded_mode(hello), min(last.rung, RUNGS - 1)
        self.form = CallForm(mode, rung, last.tightness, last.served, last.chars_per_token)

    def laid_out(self) -> PromptLayout:
        """Return the prompt, folded as far as it must be, and prepare its report."""
        form = self.form
        view = PromptView(
            self.hello, form.mode, form.chars_per_token, form.tightness, self.state.folded
        )
        layout = lay_out(view)
        window, folded = layout.view.window.name.lower(), layout.view.folded
        self._shown = Prompt(sha=layout.sha, chars=layout.chars, window=window, folded=folded)
        return layout

    @property
    def state(self) -> HelloState:
        """The goal's state as the daemon last sent it."""
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
        """How many of them were refused."""
        return sum(call.result == "blocked" for call in self.calls)

    @property
    def fails_again(self) -> bool:
        """Whether the last recorded call repeats the one before it, and neither was a success."""
        last = [call for call in self.calls if call.recorded][-2:]
        same = len(last) == 2 and (last[0].name, last[0].args) == (last[1].name, last[1].args)
        return same and all(call.result != "success" for call in last)

    def report(self, tokens: int) -> Mapping[str, object]:
        """Return for `reflect` what the turn has added, and the last prompt as the next one needs it; end the turn."""
        prompt = self._shown.model_copy(update=asdict(self.form)).model_dump(exclude_unset=True)
        each = tokens // max(len(self.records), 1)
        calls = [
            {**one, "cost": {"tokens": each, "time": one["execution_time"]}} for one in self.records
        ]
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
