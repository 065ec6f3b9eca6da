"""How a model is asked for calls: its mode, what its server accepts, and how it has answered so far.

It is reported with each turn. The next epoch continues with it, and the next goal of this model begins with it.
"""

from typing import TYPE_CHECKING, Any

from clew_shared.record.prompt_facts import CallForms, Prompt
from clew_worker.agent.completion import Completion
from clew_worker.agent.json_mode import RUNGS, ModelAnswer

if TYPE_CHECKING:
    from clew_shared.wire.hello import Mode


class CallForm:
    """The form of the next question; `rung` is the `response_format` of JSON mode (`json_mode.response_format`)."""

    def __init__(self) -> None:
        self.mode: Mode = "tools"
        self.rung = 0
        self._forms = CallForms()
        self._served = ""

    def resume(self, last: Prompt) -> None:
        """Continue with what the last epoch knew."""
        self.rung = min(last.rung, RUNGS - 1)
        self._forms, self._served = last.forms, last.served

    def answered(self, completion: Completion, answer: ModelAnswer, *, auto: bool) -> None:
        """Count an answer to an offer of native calls; with `auto` ask for JSON from now on if that fits better."""
        self._served = completion.served or self._served
        if self.mode == "json":
            return
        if kind := kind_of(completion, answer):
            self._forms = self._forms.more(kind)
        if auto and self._forms.mode == "json":
            self._ask_for_json()

    def refused(self) -> None:
        """Ask for JSON from now on: the server accepts no tools."""
        self._forms = self._forms.more("refused")
        self._ask_for_json()

    def report(self) -> dict[str, Any]:
        """Return the part of the report on a prompt (`clew_shared.record.prompt_facts.Prompt`) that is about calls."""
        return {
            "mode": self.mode,
            "rung": self.rung,
            "served": self._served,
            "forms": self._forms.model_dump(),
        }

    def _ask_for_json(self) -> None:
        self.mode, self.rung = "json", 0


def kind_of(completion: Completion, answer: ModelAnswer) -> str:
    """Return which count of `CallForms` an answer to an offer of native calls is for, "" for none.

    An answer that was cut off says nothing about the model's calls.
    """
    if completion.calls and not any(call.fault for call in answer.calls):
        return "native"
    if completion.finish_reason == "length":
        return ""
    if completion.calls:
        return "malformed"
    return "as_text" if answer.calls else "absent"
