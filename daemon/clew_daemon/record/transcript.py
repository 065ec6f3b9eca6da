"""The transcript of a subtask, read back from its events, so that a new epoch's prompt continues with it.

An agent reports with each turn what it added to its prompt (`Reflected.turn`); all else is put together from
actions, thoughts and interventions in their order. Pure functions of events and entries.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from clew_shared.prompt.messages import folded_entry, output_chars, plain_args, warning
from clew_shared.record import events as ev
from clew_shared.record.fold import EventFold, takes
from clew_shared.text.shorten import without_middle
from clew_shared.wire.hello import Call, Entry, Said, entry_from


class TranscriptFold(EventFold[None]):
    """Folds a subtask's events `after` one into entries, of which the first `folded` are shown as lines."""

    def __init__(self, output: Callable[[int], str], max_tokens: int, after: int = 0) -> None:
        super().__init__(after)
        self._output = output
        self._max_tokens = max_tokens
        self._in_flight: dict[int, Call] = {}
        self._pending: list[Entry] = []
        self._ended: list[Entry] = []
        self._turn_from = self.folded = 0
        self._own_turn = False
        self.idea = ""

    @property
    def entries(self) -> list[Entry]:
        """All entries so far, those of the unfinished turn included."""
        return [*self._ended, *self._pending]

    @takes(ev.WorkerStarted)
    def _worker(self, _seq: int, _event: ev.WorkerStarted) -> None:
        self._ended += self._pending
        self._pending = []
        self._turn_from = len(self._ended)
        self._own_turn = True

    @takes(ev.ActionAllowed, ev.ActionBlocked)
    def _judged(self, seq: int, event: ev.ActionAllowed | ev.ActionBlocked) -> None:
        call = Call(seq, event.tool, plain_args(event.args), "", signature=event.signature)
        if isinstance(event, ev.ActionBlocked) and not event.done:
            self._pending.append(replace(call, result="blocked", message=event.message))
        else:
            self._in_flight[seq] = call

    @takes(ev.ActionInterrupted)
    def _interrupted(self, _seq: int, event: ev.ActionInterrupted) -> None:
        if call := self._in_flight.pop(event.of, None):
            self._pending.append(replace(call, result="interrupted"))

    @takes(ev.Thought)
    def _thought(self, _seq: int, event: ev.Thought) -> None:
        self._pending.append(Said("assistant", event.text))

    @takes(ev.Intervened, ev.FinishQuestioned)
    def _warned(self, _seq: int, event: ev.Intervened | ev.FinishQuestioned) -> None:
        self._pending.append(warning(event.message))

    @takes(ev.ActionFinished)
    def _finished(self, seq: int, event: ev.ActionFinished) -> None:
        if call := self._in_flight.pop(event.of, None):
            limit = output_chars(self._max_tokens, tool=call.name)
            call = replace(call, result=event.result, changed=event.changed, at=event.at)
            output = without_middle(self._output(seq), limit)
            self._pending.append(replace(call, output=output, exit_code=event.exit_code))

    @takes(ev.Reflected)
    def _reflected(self, _seq: int, event: ev.Reflected) -> None:
        """End a turn: the agent reports the entries of its prompt, with recorded actions by their numbers."""
        folded = event.prompt.folded if event.prompt else 0
        self._learn(event.hindsight, folded)
        ended, pending = self._ended, self._pending
        if self._own_turn or event.turn or pending:
            self.idea = next((part["next"] for part in event.hindsight if part.get("next")), "")
        begin, calls = len(ended), {e.seq: e for e in pending if isinstance(e, Call)}
        reported = [entry for item in event.turn if (entry := _reported(item, calls))]
        ended += (*calls.values(), *reported) if event.turn else pending
        self._pending = []
        # without a recorded call the next hindsight is about earlier results
        if any(entry.recorded for entry in ended[begin:]):
            self._turn_from = begin
        self._own_turn = True  # the first may still be of the subtask before
        count = max(self.folded, min(folded, len(ended)))
        ended[self.folded : count] = map(folded_entry, ended[self.folded : count])
        self.folded = count

    def _learn(self, hindsight: Sequence[Mapping[str, str]], folded: int) -> None:
        """Attach what the model found in the last turn's results: one part to the last call, several in order."""
        calls = [n for n in range(self._turn_from, len(self._ended)) if self._ended[n].recorded]
        if len(hindsight) == 1:
            calls = calls[-1:]
        for n, part in zip(calls, hindsight, strict=False):
            entry = self._ended[n]
            if n >= folded and isinstance(entry, Call) and not entry.insight:
                insight = "; ".join(part[key] for key in ("insights", "learning") if part.get(key))
                relevance = part.get("relevance", "")
                self._ended[n] = replace(entry, insight=insight, relevance=relevance)


def _reported(item: Mapping[str, object], calls: dict[int, Call]) -> Entry | None:
    """Return a reported entry: a recorded action by its number, which is then none of the calls any more."""
    seq = item.get("seq")
    return calls.pop(seq, None) if isinstance(seq, int) and seq > 0 else entry_from(item)
