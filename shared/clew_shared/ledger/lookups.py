"""What is looked up in a ledger without reading all of it: its goals, and places in their records."""

from __future__ import annotations

from clew_shared.ledger import schema
from clew_shared.ledger.event_reads import EventReads


class Lookups(EventReads):
    """Finds goals and single events by the ledger's indexes."""

    def goals(self) -> list[str]:
        """Return the goals that have events, sorted, without the daemon's own ("")."""
        return [goal for (goal,) in self._rows(schema.GOALS)]

    def names(self) -> dict[str, str]:
        """Return the name of each goal by its id, "" for none, in the order of acceptance."""
        return {goal: str(name or "") for goal, name in self._rows(schema.NAMES)}

    def heads(self) -> dict[str, tuple[int, bytes]]:
        """Return the seq and the hash of each goal's last event; the daemon's are those of ""."""
        return {goal: (seq, tip) for goal, seq, _, tip in self._rows(schema.HEADS)}

    def purged(self) -> list[str]:
        """Return the purged goals, sorted."""
        return sorted(goal for goal, *_ in self._rows(schema.PURGED))

    def forgotten(self) -> list[bytes]:
        """Return the bodies of the events that record how purged goals had ended, oldest first."""
        return [body for (body,) in self._rows(schema.FORGOTTEN)]

    def known_models(self, limit: int) -> list[bytes]:
        """Return the bodies of the last events that record what is known of a model, newest first."""
        return [body for (body,) in self._rows(schema.KNOWN_MODELS, limit)]

    def used_models(self, limit: int) -> list[bytes]:
        """Return the bodies of the last events that record how a model made its calls, newest first."""
        return [body for (body,) in self._rows(schema.USED_MODELS, limit)]

    def last_home(self) -> bytes | None:
        """Return the body of the last event that records this ledger's home, None if there is none."""
        rows = self._rows(schema.LAST_HOME)
        if not rows:
            return None
        return next((row.body for row in self.read("", rows[0][0] - 1, 1)), None)

    def ends(self, goal: str, before: int, limit: int) -> list[int]:
        """Return the numbers of a goal's events that ended an action, newest first."""
        return [seq for (seq,) in self._rows(schema.ENDS, goal, before, limit)]

    def place(self, goal: str, before: int) -> int:
        """Return the number of the last event that set the current subtask, 0 for none."""
        rows = self._rows(schema.PLACE, goal, before)
        return rows[0][0] if rows else 0

    def loops(self, goal: str | None, before: int, limit: int) -> list[tuple[int, str]]:
        """Return number and goal of the events of loops, of one goal or of all, newest first."""
        if goal is None:
            return self._rows(schema.LOOPS, before, limit)
        return self._rows(schema.LOOPS_OF_GOAL, goal, before, limit)
