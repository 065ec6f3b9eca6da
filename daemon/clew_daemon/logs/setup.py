"""The log: events with stable names, as JSON lines, or for a person on a terminal.

Every part of the daemon logs by `structlog.get_logger()`; where the lines go is decided here, and may change while the
daemon runs. No line holds a key or a control character, and no error in writing one reaches the caller. Lines are
written by the caller's thread before `log` returns, since the last ones before a crash matter most; those of recorded
events, which a crash cannot lose, some at once.
"""

import contextlib
import json
import logging
import os
import select
import stat
import threading
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import structlog
from structlog.processors import format_exc_info
from structlog.typing import EventDict

from clew_daemon.logs.look import coloured, plain
from clew_shared.config.tables import LogSettings
from clew_shared.text.redact import NAMES, REDACTED, redact
from clew_shared.text.shorten import without_middle

TOGETHER_CHARS = 1000  # fits in the smallest log file, even at four bytes a character
PATIENCE_MS = 50  # so long a reader that has fallen behind is waited for, once


class Stream:
    """What lines are written to; what it does not take at once is kept. `dropped` lines were lost since one said so."""

    def __init__(self, fd: int) -> None:
        self.dropped = 0
        self._fd, self._rest, self._stalled = -1, b"", False
        self._hold(fd)

    def _hold(self, fd: int) -> None:
        old, self._fd, self._room = self._fd, fd, select.poll()
        if fd >= 0:
            self._room.register(fd, select.POLLOUT)
        with contextlib.suppress(OSError):  # NFS may say so late that a write has failed
            if old >= 0:
                os.close(old)

    def write(self, lines: str) -> bool:
        """Send lines, or keep the rest of them for the next call; return False when they are dropped."""
        if self._fd < 0 or not self._send_rest():
            return False
        self._rest = lines.encode("utf-8", "backslashreplace")
        self._send_rest()
        return True

    def close(self) -> None:
        """Send the rest, if possible, and close it."""
        self._send_rest()
        self._hold(-1)

    def _send_rest(self) -> bool:
        while self._rest:
            if not self._room.poll(0 if self._stalled else PATIENCE_MS):
                self._stalled = True  # until it takes something: wait only once
                return False
            try:
                end = self._rest.rfind(b"\n", 0, select.PIPE_BUF) + 1 or select.PIPE_BUF
                self._rest = self._rest[os.write(self._fd, self._rest[:end]) :]
            except OSError:  # its reader is behind or gone, or the disk is full
                self._stalled = True
                return False
            self._stalled = False
        return True


class RotatedFile(Stream):
    """A file that is renamed to `NAME.1`, `NAME.2`, … before it grows over `max_bytes`; OSError at first only."""

    def __init__(self, path: Path, *, max_bytes: int, backups: int) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._max_bytes = max_bytes
        self._names = [path, *(path.with_name(f"{path.name}.{n + 1}") for n in range(backups))]
        super().__init__(self._opened())

    def _opened(self) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK
        return os.open(self._names[0], flags, 0o600)

    def write(self, lines: str) -> bool:
        path = self._names[0]
        with contextlib.suppress(OSError):  # then it grows
            try:
                size = path.stat().st_size
            except FileNotFoundError:  # moved away, as logrotate does
                self._hold(self._opened())
                size = 0
            more = len(lines.encode("utf-8", "backslashreplace"))
            if size and size + more >= self._max_bytes and self._send_rest():
                self._names[-1].unlink(missing_ok=True)
                for new, old in pairwise(reversed(self._names)):
                    if old.exists():
                        old.rename(new)
                self._hold(self._opened())
        return super().write(lines)


def _own_descriptor(fd: int) -> int:
    """Open the file behind `fd` again, not to block; O_NONBLOCK set on `fd` itself would apply to all that share it.

    Sockets cannot be opened so, files need not, and a terminal of someone else's may not: these are shared, and
    written to only as far as they take it. -1 where `fd` is closed: its number may soon mean the ledger.
    """
    with contextlib.suppress(OSError):
        mode = os.fstat(fd).st_mode
        if stat.S_ISFIFO(mode) or stat.S_ISCHR(mode):
            with contextlib.suppress(OSError):
                flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
                return os.open(f"/proc/self/fd/{fd}", flags)
        return os.dup(fd)
    return -1


_FIRST_KEYS = ("timestamp", "level", "event", "goal", "epoch", "seq")
_LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40, "exception": 40, "critical": 50}
TEXT_CHARS, NAME_CHARS, ITEMS_MAX, DEPTH_MAX, NUMBER_MAX = 16_384, 200, 1000, 8, 1e300
_NAMES_OF_LEVELS = {"exception": "error", "warn": "warning"}
_PLAIN = {str, int, bool, float, type(None)}
_is_secret_name = lru_cache(maxsize=1_000)(NAMES.fullmatch)
_as_json = json.JSONEncoder(ensure_ascii=False).encode


class _Output:
    """The output that all loggers share, so that a reload reaches those that were bound long before."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.level = _LEVELS["info"]
        self.console: Callable[[EventDict], str] | None = None
        self.sinks: list[Stream] = []
        self._kept: list[tuple[str, str]] = []  # each as it is shown, and as JSON
        self._together = False

    def log(self, line: EventDict) -> None:
        """Write one line to the current sinks, or keep it for those that are written together."""
        with self.lock:
            as_json = _json_line(line)
            if sum([len(kept) for _, kept in self._kept]) + len(as_json) > TOGETHER_CHARS:
                self._write()
            self._kept.append((f"{self.console(line)}\n" if self.console else as_json, as_json))
            if not self._together:
                self._write()

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """Write the lines of a block at its end, or some of many before."""
        self._together = True
        try:
            yield
        finally:
            with self.lock:
                self._together = False
                self._write()

    def _write(self) -> None:
        """Write what is kept; lines that cannot be written are counted, and the next ones say so."""
        kept, self._kept = self._kept, []
        for sink in self.sinks if kept else ():
            dropped = {"level": "warning", "event": "log.dropped", "count": sink.dropped}
            if sink.dropped and sink.write(_json_line({"timestamp": _now(), **dropped})):
                sink.dropped = 0
            is_file = isinstance(sink, RotatedFile)
            written = sink.write("".join([line[is_file] for line in kept]))
            sink.dropped += 0 if written else len(kept)

    debug = info = warning = warn = error = exception = critical = fatal = log

    def change(self, *sinks: Stream) -> None:
        with self.lock:
            self._write()
            for old in self.sinks:
                old.close()
            self.sinks = list(sinks)


_output = _Output()
together = _output.together


def configure(settings: LogSettings, *, stdout_fd: int = 1) -> None:
    """Log as `settings` say from now on; OSError if the file cannot be opened: then nothing has changed."""
    files = []
    if settings.file is not None:
        path = Path(settings.file).expanduser()
        files = [RotatedFile(path, max_bytes=settings.max_bytes, backups=settings.backups)]
    _output.change(Stream(_own_descriptor(stdout_fd)), *files)
    _output.level = _LEVELS[settings.level]
    is_terminal = os.isatty(stdout_fd)
    is_plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    for_person = settings.format == "console" or (settings.format == "auto" and is_terminal)
    look = coloured if is_terminal and not is_plain else plain
    _output.console = look if for_person else None
    structlog.configure(
        processors=_PROCESSORS,
        logger_factory=lambda *_: _output,
        context_class=dict,
        wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG),
        cache_logger_on_first_use=True,
    )
    root = logging.getLogger()
    if not any(isinstance(handler, _FromStdlib) for handler in root.handlers):
        root.addHandler(_FromStdlib(logging.WARNING))


def close() -> None:
    """Close the file and the stream; later lines are discarded."""
    _output.change()


def _as_written(
    _: object, method: str, event: EventDict
) -> tuple[tuple[EventDict], dict[str, Any]]:
    """Put the keys in order, hide what is secret, and return the arguments of the output."""
    if _LEVELS.get(method, 20) < _output.level:
        raise structlog.DropEvent
    event["timestamp"], event["level"] = _now(), _NAMES_OF_LEVELS.get(method, method)
    if "exc_info" in event or "stack_info" in event:
        event = format_exc_info(None, method, _with_stack(None, method, event))
    first = {key: event[key] for key in _FIRST_KEYS if event.get(key) is not None}
    line = first | {key: value for key, value in event.items() if key not in _FIRST_KEYS}
    return (line if _is_plain(line) else _clean_line(line),), {}


def _now() -> str:
    return f"{datetime.now(UTC).replace(tzinfo=None).isoformat(timespec='microseconds')}Z"


def _is_plain(line: EventDict) -> bool:
    """Return whether a line can be written as it is: only short texts and numbers, and no key in any text."""
    values = line.values()
    if not _PLAIN.issuperset(map(type, values)) or any(map(_is_secret_name, line)):
        return False
    if [v for v in values if type(v) in (int, float) and not -NUMBER_MAX < v < NUMBER_MAX]:
        return False
    joined = "\0".join([*line, *[v for v in values if type(v) is str]])
    return len(joined) <= TEXT_CHARS and redact(joined) == joined


def _clean_line(line: EventDict) -> EventDict:
    cleaned: EventDict = {}
    for key, value in islice(line.items(), ITEMS_MAX):
        for name, one in _clean({key: value}, DEPTH_MAX, iter(range(ITEMS_MAX))).items():
            text = one if isinstance(one, str) else _as_json(one)
            cleaned[name] = one if len(text) <= TEXT_CHARS else without_middle(text, TEXT_CHARS)
    return cleaned


def _clean(value: object, depth: int, room: Iterator[int]) -> Any:
    """Return `value` as JSON can hold it, without keys; of its items, as many as there is `room` for."""
    try:
        if value is None or (isinstance(value, int | float) and abs(value) < NUMBER_MAX):
            return value  # a member of an IntEnum stays a number
        if not isinstance(value, Mapping | list | tuple | set | frozenset):
            text = str(value)
        elif depth == 0:
            text = "…"
        elif isinstance(value, Mapping):
            items = ((str(key), each) for _, (key, each) in zip(room, value.items(), strict=False))
            return {
                redact(name)[:NAME_CHARS]: REDACTED
                if each is not None and NAMES.fullmatch(name)
                else _clean(each, depth - 1, room)
                for name, each in items
            }
        else:
            return [_clean(each, depth - 1, room) for _, each in zip(room, value, strict=False)]
    except Exception as error:  # noqa: BLE001 - a broken __str__ must not break the log
        text = f"<{type(value).__name__}: {type(error).__name__}>"
    # redacted before: half a key is still half a key
    return without_middle(redact(text), TEXT_CHARS)


def _json_line(line: EventDict) -> str:
    text = _as_json(line)  # not printable: control characters beyond ASCII's, or no Unicode at all
    return f"{text if text.isprintable() else json.dumps(line)}\n"


_with_stack = structlog.processors.StackInfoRenderer()
_PROCESSORS: list[Any] = [_as_written]
"""One list, and one output: loggers keep what they were bound to, and a reload reaches them all the same."""


class _FromStdlib(logging.Handler):
    """Passes on what libraries log (asyncio's lost exceptions above all) into our log."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            about = {"logger": record.name, "message": record.getMessage()}
            level, error = min(record.levelno // 10, 5) * 10, record.exc_info
            structlog.get_logger().log(level, "python.logged", **about, exc_info=error)
        except Exception:  # noqa: BLE001 - as in every handler: a bad record is shown, not raised
            self.handleError(record)
