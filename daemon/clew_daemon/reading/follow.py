"""Durable events as they are recorded: from the daemon's stream, or from the ledger, whose cursor is the same."""

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from clew_daemon.backoff import backoff_s
from clew_daemon.reading.client import Address, connected
from clew_daemon.reading.errors import CliError
from clew_daemon.reading.instance import Instance
from clew_daemon.reading.queries import opened
from clew_shared.ledger.errors import LedgerError
from clew_shared.ledger.reader import Cursor

SILENT_S = 30.0  # After this time without a line the daemon counts as gone: it sends one at least every 10 s
ANSWER_S = 5.0  # how long the answer to `follow` may take
LOOK_S = 0.1
LOOK_ROWS = 500
LINE_BYTES_MAX = 64 << 20
RETRY_S, RETRY_MAX_S, LEDGER_S = 0.1, 5.0, 1.0
_UNREADABLE = (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError)


class StreamEvent(NamedTuple):
    """A durable event; `goal` is "" for the daemon's own, `body` its JSON, which `record.codec` decodes."""

    seq: int
    goal: str
    kind: str
    body: bytes


@dataclass(frozen=True, slots=True)
class News:
    """Events in the order in which they were recorded, none while nothing happens; `after` is the cursor behind them.

    `begins`: a daemon is followed from here on. `reset`: the earlier cursor is of another ledger, or events after it
    were purged. `gone` is why no daemon can be followed for now, which is told once.
    """

    after: str | None = None
    events: tuple[StreamEvent, ...] = ()
    begins: bool = False
    reset: bool = False
    gone: str = ""


def follow_line(after: str | None) -> bytes:
    """Return the request to follow all goals, as it is sent."""
    params = {} if after is None else {"after": after}
    request = {"jsonrpc": "2.0", "id": 1, "method": "follow", "params": params}
    return json.dumps(request).encode() + b"\n"


def read_line(line: bytes) -> News:
    """Return what a line of the stream says; ValueError if it cannot be read, or says why nothing is sent."""
    try:
        message = json.loads(line)
        if "result" in message:
            found = message["result"]
            return News(str(found["after"]), begins=True, reset=bool(found["reset"]))
        if "params" in message:
            params = message["params"]
            return News(str(params["after"]), tuple(map(_event, params["events"])))
        why = str(message["error"]["message"])
    except _UNREADABLE as error:
        why = f"the daemon's answer cannot be read: {error}"
    raise ValueError(why)


def _event(found: Mapping[str, Any]) -> StreamEvent:
    event = found["event"]
    body = json.dumps(event, ensure_ascii=False, separators=(",", ":")).encode()
    return StreamEvent(int(found["seq"]), str(found["goal"]), str(event["kind"]), body)


def follow(find: Callable[[], Address], ledger: Path, after: str | None = None) -> Iterator[News]:
    """Yield what is new of all goals after the cursor, something at least every `SILENT_S`. Raises LedgerError."""
    failures, is_told = 0, False
    while True:
        try:
            for news in _streamed(find(), after):
                after, failures, is_told = news.after, 0, False
                yield news
            why = "the daemon has ended"
        except (OSError, CliError, ValueError) as error:
            why = str(error)
        if not is_told:
            is_told = True
            yield News(after, gone=why)
        again_at = time.monotonic() + backoff_s(failures, RETRY_S, RETRY_MAX_S)
        failures += 1
        while time.monotonic() < again_at:
            news = _looked(ledger, after)
            after = news.after
            yield news
            time.sleep(LOOK_S)


def _streamed(address: Address, after: str | None) -> Iterator[News]:
    with connected(address) as channel, channel.makefile("rb") as lines:
        silent_s = ANSWER_S
        channel.sendall(follow_line(after))
        while True:
            channel.settimeout(silent_s)
            try:
                line = lines.readline(LINE_BYTES_MAX)
            except TimeoutError:
                raise ValueError(f"the daemon has sent nothing for {silent_s:g} s") from None
            if not line:
                return
            silent_s = SILENT_S
            yield read_line(line)


def _looked(ledger: Path, after: str | None) -> News:
    """Read the next events from the ledger, which may be replaced meanwhile; a first look begins at its end."""
    with opened(ledger) as reader:
        if reader is None:
            return News(after)
        cursor = Cursor.parse(after) if after else None
        if cursor is None or not cursor.is_of(reader):
            return News(str(Cursor.at_end(reader)), reset=cursor is not None)
        rows = list(islice(reader.read_all(cursor.seq), LOOK_ROWS))
    if not rows:
        return News(after)
    events = tuple(StreamEvent(row.seq, row.goal, row.kind, row.body) for row in rows)
    return News(str(Cursor(rows[-1].seq, rows[-1].hash)), events)


def following(
    instance: Instance, heard: Callable[[News], None], after: str | None = None
) -> threading.Event:
    """Call `heard` in a thread with each piece of news, until the returned event is set."""
    ended, known = threading.Event(), after

    def run() -> None:
        nonlocal known
        while not ended.is_set():
            try:
                for news in follow(lambda: instance.socket, instance.ledger, known):
                    if ended.is_set():
                        return
                    known = news.after
                    if news != News(known):
                        heard(news)
            except LedgerError as error:
                heard(News(known, gone=str(error)))
                ended.wait(LEDGER_S)

    threading.Thread(target=run, name="following", daemon=True).start()
    return ended
