"""The memory of an llm agent: the last answer to `hello`, and the transcript since then.

The daemon has the authoritative state, and a new epoch begins with its answer to `hello`. What each turn added, how
far the transcript is folded and how tokens are counted is reported with the turn, so that the next epoch's prompt
continues where this one stopped.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from clew_shared.prompt.layout import PromptLayout, lay_out
from clew_shared.prompt.messages import output_chars, plain_args
from clew_shared.prompt.transcript import Transcript, next_idea, turn_of, warning
from clew_shared.prompt.view import CHARS_PER_TOKEN, PromptView, recorded_mode
from clew_shared.record.prompt_facts import Prompt
from clew_shared.text.redact import redact
from clew_shared.text.shorten import without_middle
from clew_shared.wire.hello import Call, Entry, HelloAnswer, HelloState, Mode, Said
from clew_worker.agent.json_mode import RUNGS, ModelAnswer
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

    def answered(self, completion: Completion, answer: ModelAnswer, *, auto: bool) -> None:
        """Ask for JSON from now on, with `auto`, where a model has not yet made a native call that can be read.

        It has written a call as text, or one whose arguments are no JSON; or made no call, twice: it may think aloud.
        An answer that was cut off says nothing.
        """
        self.served = completion.served or self.served
        if completion.calls and not any(call.fault for call in answer.calls):
            self._misses = -MISSES_MAX
        elif completion.finish_reason != "length":
            self._misses += 2 if completion.calls or answer.calls else 1
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
    """The agent's own copy of the goal; `changes` counts actions that changed something, or may have."""

    def __init__(self) -> None:
        self.hello = HelloAnswer()
        self.transcript = Transcript()
        self.form = CallForm()
        self.iteration = 0
        self.left = self.hello.state.turns_left
        self.actions = self.refusals = self.changes = 0
        self.idea = ""
        self._shown = Prompt()
        self._reported = self._cut_to = self._notes = 0
        self._subtask: tuple[int, int, str] | None = None

    def update(self, hello: HelloAnswer, *, replanned: bool = False) -> None:
        """Take over an answer to `hello`; another subtask, or another plan, begins another transcript."""
        first, self.hello, state = self._subtask is None, hello, hello.state
        cut = self.output_limit()
        self.iteration, self.left = state.iteration, state.turns_left
        self.actions = state.actions_total
        key = (state.current_task_idx, state.current_subtask_idx, state.subtask.description)
        if key != self._subtask or replanned:
            self._subtask = key
            self.transcript, self.idea = Transcript(state.transcript, state.folded), state.idea
            self._reported = len(state.transcript)
            self.refusals = sum(c.result == "blocked" for c in self.calls)
            self._notes = max([0, *(-e.seq for e in state.transcript if isinstance(e, Call))])
            self._cut_to = cut
        elif self._cut_to != cut and len(state.transcript) == len(self.transcript.entries):
            # outputs as cut for the config's new budget, unless the turn has entries not yet reported
            self.transcript.entries, self._cut_to = list(state.transcript), cut
        if first:
            mode, last = recorded_mode(hello), state.prompt or Prompt()
            rung = min(last.rung, RUNGS - 1)
            self.form = CallForm(mode, rung, last.tightness, last.served, last.chars_per_token)

    def laid_out(self) -> PromptLayout:
        """Return the prompt, folded as far as it must be, and prepare its report."""
        now = {
            "transcript": tuple(self.transcript.entries),
            "iteration": self.iteration,
            "turns_left": self.left,
            "actions_total": self.actions,
            "idea": self.idea,
        }
        hello = self.hello.model_copy(update={"state": self.state.model_copy(update=now)})
        form, folded = self.form, self.transcript.folded
        view = PromptView(hello, form.mode, form.chars_per_token, form.tightness, folded)
        layout = lay_out(view)
        self.transcript.fold_to(layout.view.folded)
        window = layout.view.window.name.lower()
        self._shown = Prompt(sha=layout.sha, chars=layout.chars, window=window)
        return layout

    @property
    def state(self) -> HelloState:
        """The goal's state as the daemon last sent it."""
        return self.hello.state

    @property
    def calls(self) -> list[Call]:
        """The recorded calls of the current subtask, oldest first."""
        return [e for e in self.transcript.entries if isinstance(e, Call) and e.recorded]

    @property
    def last_call(self) -> Call | None:
        """The last recorded call that was not refused."""
        return next((c for c in reversed(self.calls) if c.result != "blocked"), None)

    @property
    def fails_again(self) -> bool:
        """Whether the last call repeats the one before it, and neither was a success."""
        last = self.calls[-2:]
        same = len(last) == 2 and (last[0].name, last[0].args) == (last[1].name, last[1].args)
        return same and all(call.result != "success" for call in last)

    def begin_turn(self, hindsight: Sequence[Mapping[str, str]]) -> None:
        """Begin a turn with what the model found in the results of the last one."""
        self.transcript.learn(hindsight, self.transcript.folded)
        self.idea = next_idea(hindsight)

    def report(self) -> Mapping[str, object]:
        """Return for `reflect` the entries since the last report, and the last prompt as the next epoch needs it."""
        entries, begin = self.transcript.entries, self._reported
        self.transcript.end_turn(begin)
        self._reported = len(entries)
        update = {"folded": self.transcript.folded, **asdict(self.form)}
        prompt = self._shown.model_copy(update=update).model_dump(exclude_unset=True)
        return {"turn": turn_of(entries[begin:]), "prompt": prompt}

    def add(self, entry: Entry) -> None:
        """Add an entry to the transcript."""
        self.transcript.entries.append(entry)

    def note(self, text: str, role: Literal["user", "assistant"] = "user") -> None:
        """Add a note to the model to the transcript, or its own text."""
        self.add(Said(role, self._plain(text)))

    def warn(self, message: str) -> None:
        """Add an intervention to the transcript; it stays visible when folded."""
        self.add(warning(message))

    def answer(self, name: str, args: Mapping[str, Any], text: str) -> None:
        """Add the answer to a call that no executor carried out: it has no number in the ledger."""
        self._notes += 1
        self.add(Call(-self._notes, name, plain_args(args), "error", self._plain(text)))

    def output_limit(self, tool: str = "") -> int:
        """Return how much of one output goes into the transcript."""
        return output_chars(self.hello.options.context.max_tokens, tool=tool)

    def _plain(self, text: str) -> str:
        """Return a text shortened and without keys, as the ledger has it."""
        return without_middle(redact(text), self.output_limit())
