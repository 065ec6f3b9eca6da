"""Which session of a CLI's own is the goal's: written into its HOME, so that the next epoch continues it. Pure."""

import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Self

from clew_worker.bridge.clis.cli import NOTHING_USED, UsageReported

PLACE = ".clew/conversation.json"
_ID_CHARS = 200


@dataclass(frozen=True, slots=True)
class Conversation:
    """The CLI's own session, its attempt (task, subtask, number of the attempt), and what it has used."""

    id: str = ""
    attempt: tuple[int, ...] = ()
    used: UsageReported = NOTHING_USED

    @classmethod
    def read(cls, text: str | None) -> Self:
        """Read what was written into the CLI's HOME; it is not trusted: anything else is no conversation."""
        with suppress(ValueError, TypeError, KeyError, OverflowError):
            found = json.loads(text or "")
            usage = found["used"]
            tokens = int(usage["input"]), int(usage["output"]), int(usage["cached"])
            used = UsageReported(*tokens, float(usage["cost_usd"] or 0.0))
            return cls(str(found["id"])[:_ID_CHARS], tuple(map(int, found["attempt"])), used)
        return cls()

    def text(self) -> str:
        """Return it as it is written."""
        return json.dumps(asdict(self))

    def continues(self, attempt: tuple[int, ...]) -> bool:
        """Return whether it goes on in this attempt: another attempt at the same subtask begins with a new one."""
        same_subtask = self.attempt[:2] == attempt[:2]
        return bool(self.id) and (attempt == self.attempt or not same_subtask)
