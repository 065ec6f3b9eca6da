"""`clew doctor`: facts on this machine, home and agents, one line each, with what to do about what is wrong."""

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
        of, _, agent = self.name.partition(OF_AGENT)
        return "" if of else agent.partition(":")[0]
