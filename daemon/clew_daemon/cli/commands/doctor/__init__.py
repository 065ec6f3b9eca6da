"""`clew doctor`: checks what clew needs, and how to fix what does not work.

Each check is a function that yields findings and raises only CliError. It changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

OF_AGENT = "agent "
"""What the names of findings about an agent begin with."""

Level = Literal["ok", "note", "warn", "fail"]
"""`note` is a fact that only some uses of clew need to know."""


@dataclass(frozen=True)
class Finding:
    """The state of one thing; `fix` is what to do about it, "" if nothing."""

    name: str
    level: Level
    found: str
    fix: str = ""

    @property
    def agent(self) -> str:
        """The agent that it is about, "" for none."""
        is_of_agent = self.name.startswith(OF_AGENT)
        return self.name.removeprefix(OF_AGENT).partition(":")[0] if is_of_agent else ""


def numbered(count: int, what: str) -> str:
    """Return a count with its noun: `1 error`, `2 errors`."""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"
