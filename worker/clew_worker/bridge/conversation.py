"""Which session of a CLI's own is the goal's: written into its HOME, so that the next epoch continues it. Pure."""

import json
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Self

from clew_worker.bridge.clis.cli import NOTHING_USED, UsageReported

PLACE = ".clew/conversation.json"
_ID_CHARS = 200


def total(one: UsageReported, other: UsageReported) -> UsageReported:
    """Return what two parts have used together."""
    return UsageReported(
        one.input + other.input,
        one.output + other.output,
        one.cached + other.cached,
        (one.cost_usd or 0.0) + (other.cost_usd or 0.0),
    )


@dataclass(frozen=True, slots=True)
class Conversation:
    """The CLI's own session, what it has used, and its attempt: task, subtask, number of the attempt."""

    id: str = ""
    attempt: tuple[int, ...] = ()
    used: UsageReported = NOTHING_USED

    @classmethod
    def read(cls, text: str | None) -> Self:
        """Read what was written into the CLI's HOME; it is not trusted: anything else is no conversation."""
        with suppress(ValueError, TypeError, KeyError, IndexError):
            found = json.loads(text or "")
            used = [int(n) for n in found["used"]]
            attempt = tuple(int(n) for n in found["attempt"])
            usage = UsageReported(used[0], used[1], used[2], float(found["cost_usd"]))
            return cls(str(found["id"])[:_ID_CHARS], attempt, usage)
        return cls()

    def text(self) -> str:
        """Return it as it is written."""
        used = self.used
        return json.dumps(
            {
                "id": self.id,
                "attempt": self.attempt,
                "used": [used.input, used.output, used.cached],
                "cost_usd": used.cost_usd or 0.0,
            }
        )

    def at(self, session: str, attempt: tuple[int, ...]) -> Self:
        """Return it where the CLI goes on in this session, or has begun it."""
        if session == self.id:
            return replace(self, attempt=attempt)
        return replace(self, id=session, attempt=attempt, used=NOTHING_USED)

    def with_usage(self, more: UsageReported) -> Self:
        """Return it after a turn that used so much more."""
        return replace(self, used=total(self.used, more))

    def continues(self, attempt: tuple[int, ...]) -> bool:
        """Return whether it goes on in this attempt: another attempt at the same subtask begins with a new one."""
        same_subtask = self.attempt[:2] == attempt[:2]
        return bool(self.id) and (attempt == self.attempt or not same_subtask)
