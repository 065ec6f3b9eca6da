"""What is remembered of a scope, and what a step brings to it: a gain, and a debt where it brought nothing. Pure.

A step has a gain (0 to 1: how much of it is new) and a cost (0 to 1: how little there is to excuse it). Then
debt = debt x (1 - gain^2) + cost x (1 - gain): small differences in every answer pay no debts. An answer that stays has
a debt of its own, which nothing gained elsewhere pays.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Final

from clew_shared.judge.reading import Reading, each, hashed, laid_out, rows_of
from clew_shared.text.shorten import both_ends, one_line
from clew_shared.text.words import key_line

MUCH, HALF, LITTLE = 0.7, 0.5, 0.3  # The gain of what is new, but no line that was never seen
NEWS: Final = 0.25  # a gain above this counts as something new: a quarter of a long answer
MILD: Final = 0.5  # each excuse of a step halves its cost
AFTER_CHANGE: Final = 3  # the excuses of a step after a change, which deserves its test
SAME_MAX: Final = 4  # same answers in a row, after which another question is no excuse
FACTS_MAX: Final = 1_000
FEW_MAX: Final = FACTS_MAX // 8  # questions, numbers, answers that stay
IDLE_MAX, TEXT_CHARS = 12, 120
_ROUNDING: Final = 1e-9


@dataclass(slots=True)
class Debt:
    """What is owed: in steps, in shares of `patience` (thoughts), and the most repeats of an answer that stays."""

    steps: float = 0.0
    shares: float = 0.0
    stays: float = 0.0


@dataclass(slots=True)
class Stay:
    """An answer that stays: its debt in repeats, what it is, how often it came, lastly in which steps, and its head."""

    owed: float = 0.0
    answer: str = ""
    times: int = 0
    since: int = 0
    steps: tuple[int, ...] = ()
    text: str = ""


@dataclass(slots=True)
class Memory:
    """What a scope remembers; of every table the least recently used entries go first."""

    step: int = 0
    debt: Debt = field(default_factory=Debt)
    told: Debt = field(default_factory=Debt)  # the debt at the last word
    gained: int = 0  # the step that last brought something
    gained_seq: int = 0
    news: str = ""  # a line that was new in its answer
    world: str = ""
    waited: bool = False
    taught: int = 0
    worked: int = 0
    same: int = 0
    last: str = ""
    firm: int = 0  # costly steps since the last word or news, whose answer cannot change by itself
    looks: int = 0  # at what may change by itself, since something was new
    warned: bool = False
    stay: Stay = field(default_factory=Stay)  # the last answer
    idle: list[tuple[int, str]] = field(default_factory=list)  # the last that brought nothing
    facts: dict[str, int] = field(default_factory=dict)
    words: dict[str, int] = field(default_factory=dict)
    moves: dict[str, list[list[float]]] = field(default_factory=dict)
    # in which world each question was asked last, and the answer
    asked: dict[str, tuple[str, str]] = field(default_factory=dict)
    stays: dict[str, Stay] = field(default_factory=dict)

    @property
    def since_gain(self) -> int:
        return self.step - self.gained


@dataclass(slots=True)
class Outcome:
    """What came of an action; it is not changed."""

    seq: int
    label: Callable[[], str]  # for people
    result: str
    text: str  # the answer on record
    moved: bool
    world: str  # after it
    varies: bool  # by itself it has answered differently before, or in what is left out
    polls: bool  # it waits before it asks
    reading: Reading

    @property
    def head(self) -> str:
        """The answer in a line; of a failure the line that says why."""
        if self.result == "success":
            return both_ends(one_line(self.text), TEXT_CHARS)
        return key_line(self.text, TEXT_CHARS)


def take_wait(memory: Memory, seq: int, label: Callable[[], str]) -> None:
    """Take in a step that only let time pass: the first is free, the next one costs a half."""
    memory.step += 1
    cost = MILD if memory.waited else 0.0
    memory.waited = True
    _owe(memory, seq, label, 0.0, cost, by_itself=True)


def take_thought(memory: Memory, seq: int, words: str, *, acts: bool) -> None:
    """Take in a thought; where no action follows it costs a third of `patience`, a sixth if most words are new."""
    memory.step += 1
    found = each(words)  # new: at least half of them, and four
    new = sum(word not in memory.words for word in found) >= max(4, len(found) / 2)
    _keep_all(memory.words, dict.fromkeys(found, memory.step))
    if found and not acts:
        take_idle(memory, seq, "a thought", 1 / 6 if new else 1 / 3)


def take_idle(memory: Memory, seq: int, label: str, share: float) -> None:
    """Take in a turn that brings nothing by its nature; `share` is its cost in shares of `patience`."""
    memory.debt.shares += share
    memory.firm += 1
    _note(memory, seq, label)


def take(memory: Memory, of: Outcome) -> float:
    """Take in what came of an action, and return its gain."""
    memory.step += 1
    reading, failed = of.reading, of.result != "success"
    polled, memory.waited = memory.waited or of.polls, False
    known = memory.asked.get(reading.asked)
    about = {f"a{name}": memory.step for name in each(reading.about)}
    other = not about.keys() <= memory.facts.keys()
    _keep_all(memory.facts, about)
    renewed = known is not None and known[0] != memory.world  # changed since it was asked last
    fresh = f"w{reading.claim}" not in memory.facts  # the very same change was not claimed before
    wrote = _write(memory, of) if of.moved else 0.0
    gain, varied, new, answer = _learn(memory, reading, again=known is not None, other=other)
    if of.moved and (other or not reading.about):
        memory.worked = memory.step
    if gain > NEWS and of.moved and not of.world:
        memory.world = f"w{memory.step}"  # what a change brought is new, and so is the world
    by_itself = reading.kind != "" or of.varies or polled
    memory.same = memory.same + 1 if memory.last == answer else 0
    memory.last = answer
    asks_on = known is None and not failed and memory.same < SAME_MAX
    excuses = asks_on + other + by_itself
    excuses += AFTER_CHANGE * (renewed and not failed)
    cost = 0.0 if wrote and fresh else (1 - varied / 2) * MILD**excuses
    if known and known[1] != answer:
        memory.stays.pop(known[1], None)  # it has changed, so that it did not stay
    _stay(memory, of, answer, failed=failed, cost=cost * MILD**renewed)
    _keep(memory.asked, reading.asked, (memory.world, answer), FEW_MAX)
    gain = max(gain, wrote)
    memory.looks += by_itself
    if gain > NEWS:
        memory.news = (_new_line(of, new, failed=failed) or memory.stay.text)[:TEXT_CHARS]
    by_itself |= renewed  # a change deserves its test
    _owe(memory, of.seq, of.label, gain, cost, by_itself=by_itself)
    return gain


def _learn(
    memory: Memory, reading: Reading, *, again: bool, other: bool
) -> tuple[float, float, list[str], str]:
    """Take in an answer; `again`: to a known question, `other`: about another thing.

    Return its gain, the share of it that differs in numbers alone, its new lines, and a hash for it without noise.
    """
    found = each(reading.lines)
    pairs = list(zip(found[::2], found[1::2], strict=True))
    facts, numbers = memory.facts, reading.numbers
    new_words = _new_words(memory, reading)
    crowd = sum(map(len, numbers.values()))
    rises, varied, way = 0, 0.0, 0.0
    kept: list[str] = []
    new: list[str] = []
    for at, (line, bone) in enumerate(pairs):
        noise = False
        if at in numbers:
            goes, noise = _move(memory, bone, [value or 0.0 for value in numbers[at]], crowd)
            rises += goes == HALF
            way = max(way, goes if goes > HALF else 0.0)
        noise = noise and not other
        known = line in facts or bone in facts
        if known:
            varied += line not in facts and not noise
        elif len(new) < new_words:  # else known words in another order
            new.append(line)
        if known or new_words:
            kept.append(bone if noise else line)
    _keep_all(facts, dict.fromkeys(found, memory.step))
    n = len(pairs) or 1
    varied /= n
    taught = max(min(1.0, 2 * len(new) / n), way)  # by new lines, or a number that goes one way
    if taught > NEWS:
        memory.taught = memory.step
    numbered = MUCH * varied if other and not again else HALF * max(rises / n, not again and varied)
    answer = hashed("".join(sorted(kept or found[::2])))
    return max(taught, numbered), varied, new, answer


def _new_line(of: Outcome, fresh: list[str], *, failed: bool) -> str:
    """Return the first line that is new of what is on record of an answer, of an error its key line, "" for none."""
    if not failed and len(of.text) <= TEXT_CHARS and len(of.text.splitlines()) < 2:
        return ""  # new or not, it is the head
    lines = (
        one_line(line)
        for line in of.text.splitlines()
        if any(hashed(row) in fresh for row in rows_of(laid_out(line)))
    )
    return key_line("\n".join(lines)) if failed else next(lines, "")


def _new_words(memory: Memory, reading: Reading) -> int:
    """Return how many words of an answer were not read before, and take them in; old records do not say."""
    if reading.words is None:
        return len(reading.lines)
    found = dict.fromkeys([f"v{word}" for word in each(reading.words)], memory.step)
    new = len(found.keys() - memory.words.keys())
    _keep_all(memory.words, found)
    return new


def _move(memory: Memory, key: str, now: list[float], crowd: int) -> tuple[float, bool]:
    """Return the gain of numbers that go one way (in a `crowd` some do by chance), and whether they are noise."""
    row = memory.moves.get(key)
    if row is None or len(row) != len(now):
        _keep(memory.moves, key, [[value, 0, 0, 0] for value in now], FEW_MAX)
        return 0.0, False
    needed = 2 + (crowd > 2)
    moving = noisy = 0
    gain = 0.0
    for column, value in zip(row, now, strict=True):
        last, direction, moves, turns = column
        if value != last:
            to = 1 if value > last else -1
            turns += direction == -to
            moves += 1
            counter = value == last + 1  # of what the agent does
            if moves >= needed and turns <= (moves - 1) // 3 and not counter:
                gain = max(gain, HALF if to > 0 else MUCH)
            column[:] = value, to, moves, turns
        moving += column[1] != 0
        noisy += column[3] > max(0, (column[2] - 2) // 3)
    _keep(memory.moves, key, row, FEW_MAX)
    return gain, 0 < noisy == moving


def _write(memory: Memory, of: Outcome) -> float:
    """Return what a change brings: nothing where it led to a world that was before, or claims the same again."""
    key = f"w{of.world or of.reading.claim}"
    new = key not in memory.facts
    _keep_all(memory.facts, dict.fromkeys((key, f"w{of.reading.claim}"), memory.step))
    if of.world or new:
        memory.world = key
    return LITTLE if new else 0.0


def _stay(memory: Memory, of: Outcome, answer: str, *, failed: bool, cost: float) -> None:
    """Take in an answer that stays, to one question or as an error whatever is done."""
    key = answer if failed else of.reading.asked
    last = memory.stays.get(key, Stay())
    idle = memory.taught <= last.since and (failed or memory.worked <= last.since)
    if cost and idle and of.text:  # nothing at all was learned meanwhile; no answer is no bad news
        cost = max(cost, MILD)
    now = Stay(0.0, answer, 1, memory.step, (of.seq,), of.head)
    if last.answer == answer:
        now.owed, now.times = last.owed + cost, last.times + 1
        now.steps = (*last.steps[1 - IDLE_MAX :], of.seq)
    _keep(memory.stays, key, now, FEW_MAX)
    memory.debt.stays = now.owed
    memory.stay = now


def _owe(
    memory: Memory, seq: int, label: Callable[[], str], gain: float, cost: float, *, by_itself: bool
) -> None:
    debt, told, keeps = memory.debt, memory.told, 1 - gain * gain
    debt.steps = debt.steps * keeps + cost * (1 - gain)
    debt.shares *= keeps
    told.steps, told.shares = min(told.steps, debt.steps), min(told.shares, debt.shares)
    told.stays = min(told.stays, debt.stays)
    if gain > NEWS:
        memory.gained, memory.gained_seq, memory.idle = memory.step, seq, []
        memory.warned, memory.firm, memory.looks = False, 0, 0
    elif cost:
        memory.firm += not by_itself
        _note(memory, seq, label())


def _note(memory: Memory, seq: int, label: str) -> None:
    memory.idle = [*memory.idle[1 - IDLE_MAX :], (seq, label[:TEXT_CHARS])]


def _keep_all(table: dict[str, Any], new: dict[str, Any]) -> None:
    for key in new.keys() & table.keys():
        del table[key]
    table.update(new)
    if len(table) > FACTS_MAX:
        _forget(table, FACTS_MAX)


def _keep(table: dict[str, Any], key: str, value: Any, limit: int) -> None:
    table.pop(key, None)
    table[key] = value
    if len(table) > limit:
        _forget(table, limit)


def _forget(table: dict[str, Any], limit: int) -> None:
    """Remove what was used least recently, an eighth at once: the front of a dict is slow to find after removals."""
    for key in list(islice(table, len(table) - limit + limit // 8)):
        del table[key]


def due(memory: Memory, patience: float, repeat_limit: int) -> str:
    """Return whether the agent is to be told now: of its `debt`, of an answer that `stays`, or "" of nothing."""
    debt, told = memory.debt, memory.told
    owed = (debt.steps - told.steps) / patience + debt.shares - told.shares
    if owed >= 1 - _ROUNDING:
        return "debt"
    return "stays" if debt.stays - told.stays >= repeat_limit - 1 - _ROUNDING else ""


def tell(memory: Memory, *, warned: bool = True) -> None:
    """Note that the agent was told now, and `warned` that nothing was new; the next word comes after as much again."""
    memory.told = replace(memory.debt)
    memory.firm, memory.warned = 0, warned or memory.warned


def carry_debt(old: Memory, new: Memory) -> None:
    """Owe in a new scope what was owed in the one before, in which nothing was done."""
    new.debt, new.told, new.warned, new.firm = old.debt, old.told, old.warned, old.firm
    new.idle, new.looks = old.idle, old.looks


def paid(memory: Memory) -> Memory:
    """Return a memory in which nothing is owed and no answer stays; what is known stays known."""
    return replace(
        memory, debt=Debt(), told=Debt(), firm=0, looks=0, warned=False, idle=[], stays={}
    )
