"""Which strategies an agent is shown: those that fit its goal and have proved themselves, and a few on trial.

Pure and deterministic: the time is an argument, and equals are ordered by id.
"""

import math
from collections.abc import Iterable, Sequence

from clew_daemon.learning.loops import is_shown
from clew_shared.playbook.bullet import Bullet, seconds
from clew_shared.playbook.curator import key_words

TRIAL_SHARE = 0.2
"""The share of places for strategies without a verdict of an outcome yet."""

RELEVANCE_WEIGHT, RECENCY_WEIGHT = 0.5, 0.1
"""A strategy that fits the goal outranks a better one that does not; recency decides between equals."""

RECENCY_HALF_LIFE_S = 30 * 86_400.0
CHARS_MAX = 60_000
"""The strategies fit a line of the worker protocol, however many are configured."""

LINE_CHARS = 60
"""What a strategy's line takes besides its content: id, counts, and a share of the heading."""


def select(
    bullets: Iterable[Bullet], goal: str, at: float, max_strategies: int, chars_max: int = CHARS_MAX
) -> list[Bullet]:
    """Return the strategies to show for a goal (its text) at a time (seconds since 1970), in the order given.

    At most `max_strategies`, whose lines take at most `chars_max` characters: the highest ranks first, expired ones
    and lessons of too few goals never. The rank is Wilson's lower bound of help against harm, plus relevance and
    recency. The trial share goes to strategies without a verdict; places that one kind leaves free go to the other.
    """
    live = [bullet for bullet in bullets if not bullet.expired(at) and is_shown(bullet)]
    words = key_words(goal)
    ranked = sorted(live, key=lambda one: (-_rank(one, words, at), one.id))
    proven = [one for one in ranked if one.verdicts]
    trial = [one for one in ranked if not one.verdicts]
    places = max(0, max_strategies)
    on_trial = min(len(trial), max(int(places * TRIAL_SHARE), places - len(proven)))
    chosen = _within([*proven[: places - on_trial], *trial[:on_trial]], min(chars_max, CHARS_MAX))
    return [bullet for bullet in live if bullet.id in chosen]


def relevance(bullet: Bullet, words: frozenset[str]) -> float:
    """Return how well a strategy fits a goal of these words, from 0 to 1: half by section, half by content."""
    section, content = key_words(bullet.section.replace("_", " ")), key_words(bullet.content)
    share = len(content & words) / len(content) if content else 0.0
    return (bool(section & words) + share) / 2


def _rank(bullet: Bullet, words: frozenset[str], at: float) -> float:
    age_s = max(0.0, at - seconds(bullet.updated_at))
    recency = math.exp2(-age_s / RECENCY_HALF_LIFE_S)
    fits = RELEVANCE_WEIGHT * relevance(bullet, words)
    return bullet.lower_bound + fits + RECENCY_WEIGHT * recency


def _within(chosen: Sequence[Bullet], room: int) -> set[str]:
    fitting = set[str]()
    for bullet in chosen:
        room -= len(bullet.content) + len(bullet.section) + LINE_CHARS
        if room < 0:
            break
        fitting.add(bullet.id)
    return fitting
