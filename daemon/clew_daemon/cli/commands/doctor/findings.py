"""The findings of the doctor, one for each thing that it checks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

LINE_CHARS = 300
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

    def as_dict(self) -> dict[str, str]:
        """Return the finding for `--json`; `fix` has the key `mend`, as in version 0.1."""
        return {"name": self.name, "level": self.level, "found": self.found, "mend": self.fix}


def in_one_line(text: str, *, last: bool = False) -> str:
    """Return the first line that is not blank, or the last one."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return "" if not lines else lines[-1 if last else 0][:LINE_CHARS]


def numbered(count: int, what: str) -> str:
    """Return a count with its noun: `1 error`, `2 errors`."""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


IDENTITY_FIX = (
    'git config --global user.name "Your Name" and git config --global user.email you@example.com, '
    "then clew reload; without it, git commit fails in every workspace"
)
