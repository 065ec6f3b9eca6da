"""The memory of an llm agent: the last answer to `hello`, and the transcript since then.

The daemon has the authoritative state, and a new epoch begins with its answer to `hello`. What each turn added, how
far the transcript is folded and how tokens are counted is reported with the turn, so that the next epoch's prompt
continues where this one stopped.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from clew_shared.prompt.layout import PromptLayout, lay_out
from clew_shared.prompt.messages import folded_entry, output_chars, plain_args
from clew_shared.prompt.transcript import apply_hindsight, recorded, turn_of, warning
from clew_shared.prompt.view import CHARS_PER_TOKEN, PromptView, recorded_mode
from clew_shared.record.prompt_facts import Prompt
from clew_shared.text.redact import redact
from clew_shared.text.shorten import without_middle
from clew_shared.wire.hello import Call, Entry, HelloAnswer, HelloState, Mode, Said
from clew_worker.agent.json_mode import RUNGS, ModelAnswer
from clew_worker.agent.llm_client import Completion

CHARS_PER_TOKEN_MIN, CHARS_PER_TOKEN_MAX = 1.5, 8.0
CALIBRATION_WEIGHT = 0.3
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
    _misses: int = 0

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
    """The agent's own copy of the goal; `transcript` belongs to the current subtask.

    `changes` counts actions that changed something, or may have; the first `folded` entries are shown as lines.
    """

    def __init__(self) -> None:
        self.hello = HelloAnswer()
        self.transcript: list[Entry] = []
        self.form = CallForm()
        self.iteration = 0
        self.left = self.hello.state.turns_left
        self.actions = self.refusals = self.changes = self.folded = 0
        self.idea = ""
        self._shown: dict[str, Any] = {}
        self._turn_from = self._reported = self._cut_to = self._notes = 0
        self._subtask: tuple[Any, ...] | None = None

    def update(self, hello: HelloAnswer, *, replanned: bool = False) -> None:
        """Take over an answer to `hello`; another subtask, or another plan, begins another transcript."""
        first, self.hello, state = self._subtask is None, hello, hello.state
        self.iteration, self.left, self.actions = (
            state.iteration,
            state.turns_left,
            state.actions_total,
        )
        key = (state.current_task_idx, state.current_subtask_idx, state.subtask.description)
        if key != self._subtask or replanned:
            self._subtask = key
            self.transcript, self.idea = list(state.transcript), state.idea
            self.folded = min(state.folded, len(self.transcript))
            self._turn_from = self._reported = len(self.transcript)
            self.refusals = sum(c.result == "blocked" for c in self.calls)
            self._notes = max([0, *(-e.seq for e in self.transcript if isinstance(e, Call))])
            self._cut_to = self.output_limit()
        elif self._cut_to != self.output_limit() and len(state.transcript) == len(self.transcript):
            # outputs as cut for the config's new budget, unless the turn has entries not yet reported
            self.transcript, self._cut_to = list(state.transcript), self.output_limit()
        if first:
            mode, last = recorded_mode(hello), state.prompt or Prompt()
            rung = min(last.rung, RUNGS - 1)
            self.form = CallForm(mode, rung, last.tightness, last.served, last.chars_per_token)

    # ---- the prompt

    def laid_out(self) -> PromptLayout:
        """Return the prompt, folded as far as it must be, and prepare its report."""
        now = {
            "transcript": tuple(self.transcript),
            "iteration": self.iteration,
            "turns_left": self.left,
            "actions_total": self.actions,
            "idea": self.idea,
        }
        hello = self.hello.model_copy(update={"state": self.state.model_copy(update=now)})
        form = self.form
        view = PromptView(hello, form.mode, form.chars_per_token, form.tightness, self.folded)
        layout = lay_out(view)
        for n in range(self.folded, layout.view.folded):
            self.transcript[n] = folded_entry(self.transcript[n])
        self.folded = layout.view.folded
        window = layout.view.window.name.lower()
        self._shown = {"sha": layout.sha, "chars": layout.chars, "window": window}
        return layout

    # ---- what is known

    @property
    def state(self) -> HelloState:
        """The goal's state as the daemon last sent it."""
        return self.hello.state

    @property
    def calls(self) -> list[Call]:
        """The recorded calls of the current subtask, oldest first."""
        return [e for e in self.transcript if isinstance(e, Call) and e.recorded]

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

    # ---- what is added

    def begin_turn(self, hindsight: Sequence[dict[str, str]]) -> None:
        """Begin a turn with what the model found in the results of the last one."""
        apply_hindsight(self.transcript, self._turn_from, hindsight, self.folded)
        self.idea = next((part["next"] for part in hindsight if part.get("next")), "")

    def report(self) -> dict[str, Any]:
        """Return for `reflect` the entries since the last report, and the last prompt as the next epoch needs it."""
        added = self.transcript[self._reported :]
        if any(map(recorded, added)):  # else the next hindsight is about earlier results
            self._turn_from = self._reported
        self._reported = len(self.transcript)
        form = {name: value for name, value in asdict(self.form).items() if name != "_misses"}
        return {"turn": turn_of(added), "prompt": {**self._shown, "folded": self.folded, **form}}

    def note(self, text: str, role: Literal["user", "assistant"] = "user") -> None:
        """Add a note to the model to the transcript, or its own text."""
        self.transcript.append(Said(role, self._plain(text)))

    def warn(self, message: str) -> None:
        """Add an intervention to the transcript; it stays visible when folded."""
        self.transcript.append(warning(message))

    def answer(self, name: str, args: Mapping[str, Any], text: str) -> None:
        """Add the answer to a call that no executor carried out: it has no number in the ledger."""
        self._notes += 1
        call = Call(-self._notes, name, plain_args(args), "error", self._plain(text))
        self.transcript.append(call)

    def output_limit(self, tool: str = "") -> int:
        """Return how much of one output goes into the transcript."""
        return output_chars(self.hello.options.context.max_tokens, tool=tool)

    def _plain(self, text: str) -> str:
        """Return a text shortened and without keys, as the ledger has it."""
        return without_middle(redact(text), self.output_limit())
