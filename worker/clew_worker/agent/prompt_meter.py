"""How the prompts of an agent are cut and counted; reported with each turn, and continued by the next epoch."""

import json
from typing import Any

from clew_shared.prompt.layout import PromptLayout
from clew_shared.prompt.view import CHARS_PER_TOKEN
from clew_shared.record.prompt_facts import Prompt

CHARS_PER_TOKEN_MIN, CHARS_PER_TOKEN_MAX = 1.5, 8.0
CALIBRATION_WEIGHT = 0.3


class PromptMeter:
    """`tightness`: how often the server found a prompt too long; `chars_per_token` goes by the server's own counts."""

    def __init__(self) -> None:
        self.tightness = 0
        self.chars_per_token = CHARS_PER_TOKEN
        self._measured = False
        self._cuts = 0
        self._cut: tuple[Any, ...] = ()
        self._sent = ""
        self._last: dict[str, Any] = {}

    def resume(self, last: Prompt) -> None:
        """Continue with the counts of the last epoch, or with what is known of the model."""
        self.tightness = last.tightness
        self.chars_per_token = last.chars_per_token
        self._cuts = last.cuts
        self._measured = last.chars_per_token != CHARS_PER_TOKEN

    def note(self, layout: PromptLayout, subtask: object) -> None:
        """Note a prompt that is sent for this subtask."""
        view = layout.view
        names = () if view.mode == "json" else tuple(tool.name for tool in view.tools)
        shown = (view.folded, view.window, view.tightness, view.mode, names, view.playbook)
        cut = (*shown, subtask, view.replan, view.finished)
        self._cuts += cut != self._cut
        self._cut = cut
        sent = json.dumps(layout.messages, ensure_ascii=False)
        self._last = {
            "sha": layout.sha,
            "cuts": self._cuts,
            "chars": len(sent),
            "kept": _common_start(self._sent, sent),
            "ending": sum(len(m["content"]) for m in layout.blocks[-1][1]),
            "window": view.window.name.lower(),
        }
        self._sent = sent

    def report(self, folded: int) -> dict[str, Any]:
        """Return the report on the last prompt (`clew_shared.record.events.Prompt`), and where the next continues."""
        return {
            **self._last,
            "folded": folded,
            "tightness": self.tightness,
            "chars_per_token": round(self.chars_per_token, 4),
        }

    def calibrate(self, chars: int, tokens: int) -> None:
        """Adjust the characters per token to the server's own count."""
        known, measured = self.chars_per_token, self._measured
        self.chars_per_token = recalibrated(known, chars, tokens, measured=measured)
        self._measured = measured or (chars > 0 and tokens > 0)


def _common_start(before: str, now: str) -> int:
    """Return the number of characters that two texts have in common at their beginning."""
    low, high = 0, min(len(before), len(now))
    while low < high:
        middle = (low + high + 1) // 2
        if before[:middle] == now[:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def recalibrated(chars_per_token: float, chars: int, tokens: int, *, measured: bool) -> float:
    """Return the average after one more count; `measured`: it is not a mere estimate so far.

    A count without characters or tokens tells nothing.
    """
    if tokens <= 0 or chars <= 0:
        return chars_per_token
    found = min(max(chars / tokens, CHARS_PER_TOKEN_MIN), CHARS_PER_TOKEN_MAX)
    weight = CALIBRATION_WEIGHT if measured else 1.0
    return chars_per_token + weight * (found - chars_per_token)
