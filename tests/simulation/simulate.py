"""`make simulate SEEDS=N [FIRST=n]`: lives N lives, and says how many a minute that is.

For a failing seed it prints the invariant, the seed and the line of its trace, with the lines before it; the same
seed fails at the same line again.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter

from sim_life import LifeError, live

TAIL = 40
SHOWN = 5
"""Of so many failing lives the end of the trace is printed; the others replay it."""


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--first", type=int, help="the first seed; without it a fresh one is drawn")
    parser.add_argument("--trace", action="store_true", help="print the whole trace of each life")
    given = parser.parse_args()
    first = random.SystemRandom().randrange(1 << 32) if given.first is None else given.first
    began, events, ends, failed = time.monotonic(), Counter(), Counter(), Counter()
    for seed in range(first, first + given.seeds):
        try:
            lived = live(seed)
        except LifeError as error:
            failed[error.name] += 1
            if failed.total() <= SHOWN:
                say("\n".join(error.lines[0 if given.trace else -TAIL :]))
            say(f"\nFAILED {error}\n")
            continue
        if given.trace:
            say("\n".join(lived.lines))
        events += lived.events
        ends.update(lived.statuses)
    took_s = time.monotonic() - began
    say(
        f"{given.seeds} lives from seed {first} in {took_s:.1f} s: {given.seeds / took_s * 60:,.0f} a minute"
    )
    say(f"{sum(ends.values())} goals ended so: {dict(ends)}; {sum(events.values())} events")
    say(f"{events['acts']} actions carried out, {events['action_blocked']} refused")
    for name, count in failed.most_common():
        say(f"FAILED {count} times: {name}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
