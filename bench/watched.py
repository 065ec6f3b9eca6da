"""Runs the daemon with a stop-watch beside it, from outside: `python watched.py OUT DELAY_MS ARGUMENTS…`.

At its end it writes to OUT, as JSON: each commit's moment and number of jobs. DELAY_MS makes every commit that much
slower, in the writer thread, as the fsync of a slower disk would; below 0 it is the moments (CLOCK_MONOTONIC, ns) of
what is on the way of a step that are written.
"""

import atexit
import functools
import json
import sys
import time
from pathlib import Path

MARKS, BATCHES = [], []


def mark(name):
    MARKS.append((time.monotonic_ns(), name))


def around(owner, name, before, after=None):
    """Take down when a function begins, and when it ends."""
    inner = getattr(owner, name)

    @functools.wraps(inner)
    def outer(*args, **kwargs):
        mark(before)
        try:
            return inner(*args, **kwargs)
        finally:
            if after:
                mark(after)

    setattr(owner, name, outer)


def watch_parts():
    """Mark the parts of a step in the order in which they come."""
    from clew_daemon.record import goals
    from clew_daemon.session import channel
    from clew_shared.core import core
    from clew_shared.ledger import writer
    from clew_shared.wire import protocol

    around(channel.Channel, "data_received", "came")
    around(protocol, "parse", "parse", "parsed")
    around(protocol, "params", "check", "checked")
    around(core.Core, "propose", "judge", "judged")
    around(core.Core, "outcome", "judge", "judged")
    around(goals.GoalStore, "_flush", "record", None)
    around(writer.Writer, "put", "put", None)
    around(writer.Writer, "_transact", "commit", "committed")
    around(writer.Writer, "_deliver", "woke", None)
    sent = channel.Channel.send

    async def send(self, line):
        mark("answer")
        done = await sent(self, line)
        mark("sent")
        return done

    channel.Channel.send = send


def watch_commits(delay_ms):
    """Count what each commit holds, and make it slower."""
    from clew_shared.ledger import writer

    inner = writer.Writer._transact  # noqa: SLF001 - watched from outside

    def transact(self, batch):
        if delay_ms:
            time.sleep(delay_ms / 1000)
        inner(self, batch)
        BATCHES.append((time.monotonic_ns(), len(batch)))

    writer.Writer._transact = transact  # noqa: SLF001 - as above


def main():
    out, delay_ms = Path(sys.argv.pop(1)), float(sys.argv.pop(1))
    if delay_ms < 0:
        watch_parts()
    else:
        watch_commits(delay_ms)
    atexit.register(lambda: out.write_text(json.dumps({"marks": MARKS, "batches": BATCHES})))
    from clew_daemon.cli import main as clew

    clew()


if __name__ == "__main__":
    main()
