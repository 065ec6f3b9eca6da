"""What an llm agent has in mind: the daemon's last word on the goal, and the transcript since then.

Nothing in here is the truth: that is the daemon's, and a new epoch begins with what `hello` says. What each turn
added, how far it is folded and how tokens count here is told with the turn, so that the next epoch's prompt goes
on where this one stood.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from clew_shared.prompt.layout import Laid, lay_out
from clew_shared.prompt.messages import beheaded, output_chars, plain_args, shortened
from clew_shared.prompt.transcript import apply_hindsight, recorded, turn_of, warning
from clew_shared.prompt.view import (
    CHARS_PER_TOKEN,
    Call,
    Entry,
    Mode,
    Said,
    View,
    current,
    open_subtasks,
    recorded_mode,
    transcript_of,
    view_from,
)
from clew_shared.text.redact import redact

CHARS_PER_TOKEN_MIN, CHARS_PER_TOKEN_MAX = 1.5, 8.0
CALIBRATION_WEIGHT = 0.3


class Memory:
    """The agent's own copy of the goal; `transcript` belongs to the current subtask."""

    def __init__(self) -> None:
        self.hello: dict[str, Any] = {}
        self.transcript: list[Entry] = []
        self.mode: Mode = "tools"
        self.tightness = 0
        self.chars_per_token = CHARS_PER_TOKEN
        self.iteration = 0
        self.actions = 0
        self.refusals = 0
        self.changes = 0
        """Actions that changed something, or may have."""
        self.folded = 0
        self.idea = ""
        self.prompt: dict[str, Any] = {}
        """What is told of the last prompt: see `clew_shared.record.events.Prompt`."""
        self._turn_from = self._told = 0
        self._cut_to = 0
        """So many characters of an output are in the transcript."""
        self._cuts = 0
        self._cut: tuple[Any, ...] = ()
        self._sent = ""
        self._measured = False
        self._notes = 0
        self._subtask: tuple[Any, ...] = ()

    def learn(self, hello: Mapping[str, Any], *, anew: bool = False) -> None:
        """Take in what `hello` says; another subtask (or `anew`) begins another transcript."""
        first = not self.hello
        self.hello = dict(hello)
        state = self.hello["state"]
        _, subtask = current(state)
        place = (state["current_task_idx"], state["current_subtask_idx"])
        subtask_key = (*place, subtask.get("description"))
        self.iteration = state.get("iteration", 0)
        if subtask_key != self._subtask or anew:
            self._subtask = subtask_key
            self.transcript = list(transcript_of(state))
            self.folded = min(state.get("folded") or 0, len(self.transcript))
            self.idea = state.get("idea") or ""
            self._turn_from = self._told = len(self.transcript)
            self.refusals = sum(c.result == "blocked" for c in self.calls)
            self._notes = max([0, *(-e.seq for e in self.transcript if isinstance(e, Call))])
            self._cut_to = self.output_limit()
        elif self._cut_to != self.output_limit():
            self._cut_anew()
        self.actions = sum(
            s.get("actions_total", 0) for t in state["goal"]["tasks"] for s in t["subtasks"]
        )
        if first:
            self._resume(state.get("prompt") or {})

    def _cut_anew(self) -> None:
        """Take the outputs as they are told since the config has another budget; not amid a turn that is untold."""
        told = transcript_of(self.state)
        if len(told) == len(self.transcript):
            self.transcript = list(told)
            self._cut_to = self.output_limit()

    def _resume(self, prompt: Mapping[str, Any]) -> None:
        """Go on with the form and the token count that the last epoch's calls ended with."""
        self.mode = recorded_mode(self.hello)
        if not prompt:
            return
        self.tightness = prompt.get("tightness", 0)
        self.chars_per_token = prompt.get("chars_per_token", CHARS_PER_TOKEN)
        self._cuts = prompt.get("cuts", 0)
        self._measured = True

    # ---- the prompt

    def laid(self) -> Laid:
        """Lay out the prompt, folded as far as it must be, and note what is told of it."""
        laid = lay_out(self._view())
        for n in range(self.folded, laid.view.folded):
            self.transcript[n] = beheaded(self.transcript[n])
        self.folded = laid.view.folded
        self._note(laid)
        return laid

    def _view(self) -> View:
        view = view_from(
            self.hello,
            mode=self.mode,
            transcript=self.transcript,
            chars_per_token=self.chars_per_token,
            tightness=self.tightness,
            acted=self.actions > 0,
        )
        return replace(
            view,
            iteration=self.iteration - (self.state.get("iterations_granted") or 0),
            tools_used=self.actions,
            idea=self.idea,
            folded=self.folded,
        )

    def _note(self, laid: Laid) -> None:
        view = laid.view
        names = () if view.mode == "json" else tuple(tool.name for tool in view.tools)
        cut: tuple[Any, ...] = (
            view.folded,
            view.window,
            view.tightness,
            view.mode,
            names,
            view.playbook,
        )
        cut = (*cut, self._subtask, view.replan, view.finished)
        self._cuts += cut != self._cut
        self._cut = cut
        sent = json.dumps(laid.messages, ensure_ascii=False)
        self.prompt = {
            "sha": laid.sha,
            "cuts": self._cuts,
            "chars": len(sent),
            "kept": _same(self._sent, sent),
            "ending": sum(len(m["content"]) for m in laid.blocks[-1][1]),
            "window": view.window.name.lower(),
            "mode": view.mode,
        }
        self._sent = sent

    def told(self) -> dict[str, Any]:
        """Return what is told of the last prompt, and of where the next one continues."""
        return {
            **self.prompt,
            "folded": self.folded,
            "mode": self.mode,
            "tightness": self.tightness,
            "chars_per_token": round(self.chars_per_token, 4),
        }

    # ---- what is known

    @property
    def state(self) -> Mapping[str, Any]:
        state: Mapping[str, Any] = self.hello["state"]
        return state

    @property
    def calls(self) -> list[Call]:
        """The calls that the daemon has heard of, oldest first."""
        return [e for e in self.transcript if isinstance(e, Call) and e.seq > 0]

    @property
    def checks(self) -> Mapping[str, str]:
        return self.hello.get("checks") or {}

    @property
    def replan(self) -> str | None:
        return self.state.get("replan_required") or None

    @property
    def subtask_open(self) -> bool:
        return current(self.state)[1].get("status") in ("pending", "in_progress")

    def others_open(self) -> list[str]:
        """Name what is open besides the current subtask."""
        still_open = open_subtasks(self.state)
        here = current(self.state)[1].get("description")
        if self.subtask_open and here in still_open:
            still_open.remove(here)
        return still_open

    # ---- what is added

    def begin_turn(self, hindsight: Sequence[dict[str, str]]) -> None:
        """Begin a turn with what the model found in the results of the one before."""
        apply_hindsight(self.transcript, self._turn_from, hindsight, self.folded)
        self.idea = next((part["next"] for part in hindsight if part.get("next")), "")

    def turn(self) -> list[dict[str, Any]]:
        """Return what was added since the last turn was told, as it is told to the daemon."""
        added = self.transcript[self._told :]
        if any(map(recorded, added)):  # else what is found next is still of the results before
            self._turn_from = self._told
        self._told = len(self.transcript)
        return turn_of(added)

    def say(self, text: str) -> None:
        """Put a note to the model into the transcript."""
        self.transcript.append(Said("user", self._plain(text)))

    def said(self, text: str) -> None:
        """Put the model's own words into the transcript."""
        self.transcript.append(Said("assistant", self._plain(text)))

    def warn(self, message: str) -> None:
        """Put an intervention into the transcript; it is shown however much is folded."""
        self.transcript.append(warning(message))

    def answer(self, name: str, args: Mapping[str, Any], text: str, result: str = "error") -> None:
        """Answer a call that was none of the executor's: it has no number in the ledger."""
        self._notes += 1
        call = Call(-self._notes, name, plain_args(args), result, self._plain(text))
        self.transcript.append(call)

    def output_limit(self, tool: str = "") -> int:
        """Return how much of one output is kept for the prompt."""
        context = (self.hello.get("options") or {}).get("context") or {}
        return output_chars(context.get("max_tokens", 8000), tool=tool)

    def _plain(self, text: str) -> str:
        """Shorten a text and take keys out of it, as the ledger does, so that both show the same."""
        return shortened(redact(text), self.output_limit())

    def calibrate(self, chars: int, tokens: int) -> None:
        """Learn from the server's own count how many characters a token has."""
        if tokens <= 0 or chars <= 0:
            return
        seen = min(max(chars / tokens, CHARS_PER_TOKEN_MIN), CHARS_PER_TOKEN_MAX)
        weight = CALIBRATION_WEIGHT if self._measured else 1.0
        self.chars_per_token += weight * (seen - self.chars_per_token)
        self._measured = True


def _same(before: str, now: str) -> int:
    """Count the characters at the beginning that two texts have in common."""
    low, high = 0, min(len(before), len(now))
    while low < high:
        middle = (low + high + 1) // 2
        if before[:middle] == now[:middle]:
            low = middle
        else:
            high = middle - 1
    return low
