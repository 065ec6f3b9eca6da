"""The transcript of a subtask, read back from its events: what a new epoch's prompt continues with.

An agent tells with each turn what it put into its prompt (`Reflected.turn`); the rest, and all of an agent
that tells nothing, is put together from its actions, thoughts and interventions in their order. Pure: events
go in, entries come out, as `prompt_view` reads them.
"""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from clew_shared.prompt.messages import beheaded, output_chars, plain_args, shortened
from clew_shared.prompt.view import Call, Entry, Said, entry_from
from clew_shared.record import events as ev

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

KINDS = frozenset(
    {
        "worker_started",
        "action_allowed",
        "action_blocked",
        "action_finished",
        "action_interrupted",
        "thought",
        "intervened",
        "finish_questioned",
        "reflected",
    }
)
"""The events that a transcript is made of."""

TURN_ENTRIES_MAX = 100
TOLD_BYTES_MAX = 600_000
"""So much of the protocol's longest line the transcript may take."""

HEADS_BYTES = 300_000
"""So much of it is for what is told by its head."""

_FORGOTTEN = Said("user", "")
"""Stands for an entry so old that no prompt has a line for it: what is told is still counted from the first."""


class Transcript:
    """Folds the events of one subtask, oldest first, into entries; the first `folded` are lines by now.

    `output` gives the recorded output of an event by its number, `max_tokens` is the prompt's budget.
    """

    def __init__(self, output: Callable[[int], str], max_tokens: int) -> None:
        self._output = output
        self._max_tokens = max_tokens
        self._flying: dict[int, Call] = {}
        self._pending: list[Entry] = []
        self._entries: list[Entry] = []
        self._turn_from = 0
        self._own_turn = False
        self.folded = 0
        self.idea = ""

    @property
    def entries(self) -> list[Entry]:
        """Return all that is known so far, the unfinished turn included."""
        return [*self._entries, *self._pending]

    def take(self, seq: int, event: ev.Event) -> None:
        """Take in the next event."""
        match event:
            case ev.WorkerStarted():
                self._entries += self._pending
                self._pending = []
                self._turn_from = len(self._entries)
                self._own_turn = True
            case ev.ActionBlocked(done=False):
                call = _begun(seq, event)
                self._pending.append(replace(call, result="blocked", message=event.message))
            case ev.ActionAllowed() | ev.ActionBlocked():
                self._flying[seq] = _begun(seq, event)
            case ev.ActionFinished():
                self._finished(seq, event)
            case ev.ActionInterrupted() if event.of in self._flying:
                call = self._flying.pop(event.of)
                self._pending.append(replace(call, result="interrupted"))
            case ev.Thought():
                self._pending.append(Said("assistant", event.text))
            case ev.Intervened() | ev.FinishQuestioned():
                self._pending.append(warning(event.message))
            case ev.Reflected():
                self._reflected(event)
            case _:
                pass

    def _finished(self, seq: int, event: ev.ActionFinished) -> None:
        call = self._flying.pop(event.of, None)
        if call is None:
            return
        limit = output_chars(self._max_tokens, tool=call.name)
        output = shortened(self._output(seq), limit)
        call = replace(call, result=event.result, output=output)
        self._pending.append(replace(call, changed=event.changed, exit_code=event.exit_code))

    def _reflected(self, event: ev.Reflected) -> None:
        """Go by what the agent says that its prompt holds; its actions stand there by their numbers."""
        folded = event.prompt.folded if event.prompt else 0
        apply_hindsight(self._entries, self._turn_from, event.hindsight, folded)
        before = len(self._entries)
        own = self._own_turn or event.turn or self._pending
        if event.turn:
            calls = {entry.seq: entry for entry in self._pending if isinstance(entry, Call)}
            told = [_told(item, calls) for item in event.turn]
            self._entries += calls.values()
            self._entries += [entry for entry in told if entry]
        else:
            self._entries += self._pending
        self._pending = []
        if any(map(recorded, self._entries[before:])):
            self._turn_from = before
        if own:
            self.idea = next((h["next"] for h in event.hindsight if h.get("next")), "")
        self._own_turn = True  # the first one may be the turn that ended the subtask before
        self._fold(folded)

    def _fold(self, count: int) -> None:
        """Drop of folded calls what a line does not show."""
        count = min(count, len(self._entries))
        for n in range(self.folded, count):
            self._entries[n] = beheaded(self._entries[n])
        self.folded = max(self.folded, count)


def _begun(seq: int, event: ev.ActionAllowed | ev.ActionBlocked) -> Call:
    return Call(seq, event.tool, plain_args(event.args), "", signature=event.signature)


def _told(item: dict[str, Any], calls: dict[int, Call]) -> Entry | None:
    seq = item.get("seq")
    return calls.pop(seq, None) if isinstance(seq, int) and seq > 0 else entry_from(item)


def warning(message: str) -> Said:
    """Return an intervention as an entry of a transcript."""
    return Said("user", f"Note: {message}", warns=True)


def apply_hindsight(
    entries: list[Entry], start: int, hindsight: Sequence[dict[str, str]], folded: int
) -> None:
    """Put what was found in a turn's results to its calls, in place: one part to the last call, several in order.

    The last turn that made calls begins at `start`; what is folded by now stays as it was shown, and what was
    found first stays.
    """
    calls = [n for n in range(start, len(entries)) if recorded(entries[n])]
    if len(hindsight) == 1:
        calls = calls[-1:]
    for n, part in zip(calls, hindsight, strict=False):
        entry = entries[n]
        if n >= folded and isinstance(entry, Call) and not entry.insight:
            said = "; ".join(part[key] for key in ("insights", "learning") if part.get(key))
            entries[n] = replace(entry, insight=said, relevance=part.get("relevance", ""))


def recorded(entry: Entry) -> bool:
    """Tell the calls that stand in the ledger from words and from what the agent answered itself."""
    return isinstance(entry, Call) and entry.seq > 0


def told(entries: Sequence[Entry], folded: int) -> list[dict[str, Any]]:
    """Write entries for `hello`, the newest in full as far as there is room, older ones by their heads."""
    room, lines = TOLD_BYTES_MAX, []
    for n in range(len(entries) - 1, -1, -1):
        line, size = _written(entries[n] if n >= folded else beheaded(entries[n]))
        if n >= folded and size > room - HEADS_BYTES:
            line, size = _written(beheaded(entries[n]))
        if size > room:
            line, size = _written(_FORGOTTEN)
        room -= size
        lines.append(line)
    return lines[::-1]


def _written(entry: Entry) -> tuple[dict[str, Any], int]:
    """Write an entry without its empty fields, and say how many bytes it takes on the wire."""
    line = {key: value for key, value in asdict(entry).items() if value not in ("", None)}
    return line, len(json.dumps(line, ensure_ascii=False).encode("utf-8", "replace"))


def turn_of(entries: Sequence[Entry]) -> list[dict[str, Any]]:
    """Write what a turn added, for `reflect`: actions on record by their numbers, all else as it is shown."""
    return [
        {"seq": entry.seq} if recorded(entry) and isinstance(entry, Call) else asdict(entry)
        for entry in entries[:TURN_ENTRIES_MAX]
    ]
