"""What a prompt is made of: the answer to `hello`, and how its model is asked.

Agent and daemon have the same answer, so that `clew context` shows what the model is shown. It knows nothing of
messages (that is `layout`) and nothing of HTTP.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Self

from clew_shared.guidance.notes import absent
from clew_shared.prompt.tools import REFLECT, is_small, offered_tools
from clew_shared.prompt.windows import Window, Windows
from clew_shared.record.prompt_facts import Prompt
from clew_shared.tools import Tool
from clew_shared.wire.hello import Call, HelloAnswer, HelloState, Mode

CHARS_PER_TOKEN = 4.0


@dataclass(frozen=True)
class PromptView:
    """All that a prompt shows; equal views give equal bytes.

    The first `folded` entries of the transcript are shown as lines; that number never decreases in a subtask.
    `tightness` is how often a server found the prompt too long: each time halves the room for the transcript.
    """

    hello: HelloAnswer
    mode: Mode = "tools"
    chars_per_token: float = CHARS_PER_TOKEN
    tightness: int = 0
    folded: int = 0

    @classmethod
    def on_record(cls, hello: HelloAnswer) -> Self:
        """Return the view of an agent that begins now: mode and token count as last recorded."""
        last, folded = hello.state.prompt or Prompt(), hello.state.folded
        folded = min(folded, len(hello.state.transcript))
        return cls(hello, recorded_mode(hello), last.chars_per_token, last.tightness, folded)

    @property
    def state(self) -> HelloState:
        """The goal's state."""
        return self.hello.state

    @property
    def max_tokens(self) -> int:
        """The budget of a prompt."""
        return self.hello.options.context.max_tokens

    @cached_property
    def implicit(self) -> bool:
        """Whether the goal has no plan: its one subtask bears its description."""
        state = self.state
        is_goal = state.subtask.description == state.goal.description
        return is_goal and len(state.open_subtasks) <= 1 and not state.finished

    @property
    def reflects(self) -> bool:
        """Whether the model may add a `reflect` part to its calls."""
        return self.hello.options.agent.reflection != "off" and not is_small(self.hello)

    @cached_property
    def tools(self) -> tuple[Tool, ...]:
        """The tools that are offered now."""
        own_tools = (REFLECT,) if self.reflects and self.mode == "tools" else ()
        return (*offered_tools(self.hello), *own_tools)

    @property
    def there(self) -> tuple[str, ...]:
        """Some paths in the workspace, before the first call."""
        state = self.state
        return () if any(isinstance(e, Call) for e in state.transcript) else state.there

    @property
    def absent(self) -> tuple[str, ...]:
        """The files that the checks name and that were not there when the conversation began."""
        return absent(self.hello.checks.values(), self.state.there)

    @cached_property
    def windows(self) -> Windows:
        """How strictly the transcript is cut, by turn."""
        context = self.hello.options.context
        return Windows(
            full_until=context.full_until,
            moderate_until=context.moderate_until,
            aggressive_until=context.aggressive_until,
            progress_from=context.progress_from,
            emergency_results=context.recent_actions,
        )

    @property
    def window(self) -> Window:
        """How strictly the transcript is cut in this turn; a conversation begins with each subtask and attempt."""
        return self.windows.at(max(self.state.iteration - self.hello.attempt.from_iteration, 0))


def recorded_mode(hello: HelloAnswer) -> Mode:
    """Return the mode to begin with: the config's, and where that is `auto` what fits the model's answers so far."""
    asked = hello.options.agent.mode
    return asked if asked != "auto" else (hello.state.prompt or Prompt()).mode
