"""Makes a conversation fit: first by the window of the iteration, then by dropping the oldest pieces."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from clew_shared.prompt.windows import Window, Windows
from clew_shared.text.shorten import without_middle
from clew_worker.library.conversation import ConversationParts
from clew_worker.library.exchanges import Piece, PieceKind, flatten, last_exchanges, text_of

_SHORTEST_RESULT_CHARS = 80


class ConversationFitter:
    """The thresholds by iteration, and all thoughts so far, also those that are not in the list."""

    def __init__(self, windows: Windows, thoughts: Sequence[str]) -> None:
        self._windows = windows
        self._thoughts = thoughts

    def fitted(self, whole: ConversationParts, window: Window, room: int) -> ConversationParts:
        """Return the part that the window allows; a stricter window is used while that is too large."""
        kept = self._windowed(whole, window)
        while window < Window.AGGRESSIVE and self._size(kept.droppable()) > room:
            window = Window(window + 1)
            kept = self._windowed(whole, window)
        return self._without_oldest(kept, room)

    def _windowed(self, whole: ConversationParts, window: Window) -> ConversationParts:
        if window is Window.FULL:
            return whole
        if window is Window.MODERATE:
            return replace(
                whole,
                history=last_exchanges(whole.history, self._windows.moderate_exchanges),
                work=self._last_thoughts(whole.work),
            )
        calls = [piece.without_thought() for piece in whole.work]
        pairs, facts = [piece for piece in calls if piece.kind is PieceKind.PAIR], whole.facts
        if window is Window.EMERGENCY:
            pairs = _last_pairs(pairs, self._windows.emergency_results)
            left = self._windows.emergency_results - sum(len(pair.results) for pair in pairs)
            facts = whole.facts[-left:] if left > 0 else ()
        said = [] if whole.latest else [p for p in calls if p.kind is PieceKind.USER][-1:]
        kept = {id(piece) for piece in (*pairs, *said)}
        work = [piece for piece in calls if id(piece) in kept]
        return replace(whole, history=(), facts=facts, work=work)

    def _last_thoughts(self, work: Sequence[Piece]) -> list[Piece]:
        """Keep the last thoughts, alone or beside their calls; those that are in no message come last."""
        count = self._windows.moderate_thoughts
        listed = [piece for piece in work if piece.thought]
        texts = {piece.thought for piece in listed}
        unlisted = [
            Piece(PieceKind.THOUGHT, ({"role": "assistant", "content": text},))
            for text in (self._thoughts[-count:] if count else ())
            if text.strip() and text.strip() not in texts
        ]
        dropped = {id(piece) for piece in listed[: max(0, len(listed) + len(unlisted) - count)]}
        kept = [p for p in work if p.kind is not PieceKind.THOUGHT or id(p) not in dropped]
        return [*(p.without_thought() if id(p) in dropped else p for p in kept), *unlisted]

    def _without_oldest(self, kept: ConversationParts, room: int) -> ConversationParts:
        """Drop the oldest pieces until the rest fits; the newest result is shortened rather than dropped."""
        size = self._size(kept.droppable())
        newest = next((p for p in reversed(kept.work) if p.kind is PieceKind.PAIR), None)
        dropped: set[int] = set()
        for piece in kept.droppable():
            if size <= room:
                break
            if piece is not newest:
                dropped.add(id(piece))
                size -= self._size([piece])
        work = [piece for piece in kept.work if id(piece) not in dropped]
        if newest and size > room:
            work = self._shortened(newest, room)
        facts = [piece for piece in kept.facts if id(piece) not in dropped]
        history = [piece for piece in kept.history if id(piece) not in dropped]
        return replace(kept, history=history, facts=facts, work=work)

    def _shortened(self, pair: Piece, room: int) -> list[Piece]:
        call, *results = pair.messages
        chars = max(len(text_of(result)) for result in results)
        while chars >= _SHORTEST_RESULT_CHARS:
            shorter = [{**one, "content": without_middle(text_of(one), chars)} for one in results]
            piece = Piece(PieceKind.PAIR, (call, *shorter))
            if self._size([piece]) <= room:
                return [piece]
            chars = chars * 3 // 4
        return []

    def _size(self, pieces: Iterable[Piece]) -> int:
        return sum(map(self._windows.tokens, flatten(pieces)))


def _last_pairs(pairs: Sequence[Piece], results: int) -> list[Piece]:
    """Return the last pairs, with at most `results` results in all, but always the newest pair."""
    kept: list[Piece] = []
    count = 0
    for piece in reversed(pairs):
        count += len(piece.results)
        if kept and count > results:
            break
        kept.append(piece)
    return kept[::-1]
