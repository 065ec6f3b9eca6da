"""The log: events with stable names, as JSON lines, or for a person on a terminal.

Every part of the daemon logs by `structlog.get_logger()`; where the lines go is decided here, and may change while the
daemon runs. No line holds a key or a control character, and no error in writing one reaches the caller. Lines are
written by the caller's thread before `log` returns, since the last ones before a crash matter most.
"""

import contextlib
import json
import logging
import os
import select
import stat
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from io import TextIOWrapper
from itertools import islice
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import IO, Any

import structlog
from structlog.typing import EventDict

from clew_daemon.logs.look import coloured, plain
from clew_shared.config.tables import LogSettings
from clew_shared.text.redact import NAMES, REDACTED, redact
from clew_shared.text.shorten import without_middle

PATIENCE_MS = 50
"""How long a reader that has fallen behind is waited for, once, before lines are dropped."""


class Stream:
    """The stream behind `fd`, which stays open and unchanged: a pipe, the journal's socket, a terminal or a file."""

    def __init__(self, fd: int) -> None:
        self.is_terminal = os.isatty(fd)
        self._fd = -1
        self._rest = b""
        self._stalled = False
        self._room = select.poll()
        with contextlib.suppress(OSError):  # a closed stdout: its number may soon mean the ledger
            self._fd = _own_descriptor(fd)
            self._room.register(self._fd, select.POLLOUT)

    def write(self, line: str) -> bool:
        """Send a line, or keep the rest of it for the next call; return False when it is dropped."""
        try:
            if not self._send_rest():
                return False
            self._rest = line.encode("utf-8", "backslashreplace")
            self._send_rest()
        except OSError:  # the other end is closed
            self._rest = b""
            return False
        return True

    def close(self) -> None:
        """Send the rest, if possible, and close the stream."""
        with contextlib.suppress(OSError):
            self._send_rest()
        fd, self._fd, self._rest = self._fd, -1, b""
        if fd >= 0:
            os.close(fd)

    def _send_rest(self) -> bool:
        if self._fd < 0:
            return False
        while self._rest:
            if not self._room.poll(0 if self._stalled else PATIENCE_MS):
                self._stalled = True  # until it takes something: wait only once
                return False
            try:
                self._rest = self._rest[os.write(self._fd, self._rest[: select.PIPE_BUF]) :]
            except BlockingIOError:
                self._stalled = True
                return False
            self._stalled = False
        return True


class RotatedFile(RotatingFileHandler):
    """A file that is renamed to `NAME.1`, `NAME.2`, … before it grows over `max_bytes`; OSError at first only."""

    def __init__(self, path: Path, *, max_bytes: int, backups: int) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        super().__init__(path, maxBytes=max_bytes, backupCount=backups, encoding="utf-8")

    def write(self, line: str) -> bool:
        """Append a line; return False when it is lost."""
        with contextlib.suppress(OSError, ValueError):
            if not os.path.exists(self.baseFilename):  # noqa: PTH110 - moved away, as logrotate does
                self.close()
            if self.stream is None or self.stream.closed:  # closed: an error as it was closed
                self.stream = self._open()
            size = self.stream.seek(0, os.SEEK_END) if self.stream.seekable() else 0
            if size and 0 < self.maxBytes <= size + len(line):
                self.doRollover()
            self.stream.write(line)
            self.stream.flush()
            return True
        return False

    def doRollover(self) -> None:  # noqa: N802 - the name of the base
        if self.backupCount == 0 and self.stream is not None:
            self.stream.truncate(0)
        super().doRollover()

    def _open(self) -> TextIOWrapper:
        file: IO[Any] = open(  # noqa: SIM115 - the base closes it
            self.baseFilename,
            self.mode,
            encoding="utf-8",
            errors="backslashreplace",
            opener=lambda path, flags: os.open(path, flags | os.O_NOCTTY | os.O_NONBLOCK, 0o600),
        )
        return file  # type: ignore[return-value]


def _own_descriptor(fd: int) -> int:
    """Open the file behind `fd` again, not to block; O_NONBLOCK set on `fd` itself would apply to all that share it.

    Sockets cannot be opened so, files need not, and a terminal of someone else's may not: these are shared, and
    written to only as far as they take it.
    """
    mode = os.fstat(fd).st_mode
    if stat.S_ISFIFO(mode) or stat.S_ISCHR(mode):
        with contextlib.suppress(OSError):
            flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
            return os.open(f"/proc/self/fd/{fd}", flags)
    return os.dup(fd)


_FIRST_KEYS = ("timestamp", "level", "event", "goal", "epoch", "seq")
_LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40, "exception": 40, "critical": 50}
TEXT_CHARS, NAME_CHARS, ITEMS_MAX, DEPTH_MAX, NUMBER_MAX = 16_384, 200, 1000, 8, 1e300
_PLAIN = {str, int, bool, float, type(None)}
_is_secret_name = lru_cache(maxsize=1_000)(NAMES.fullmatch)
_as_json = json.JSONEncoder(ensure_ascii=False).encode


class _Output:
    """The output that all loggers share, so that a reload reaches those that were bound long before."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.level = _LEVELS["info"]
        self.console: Callable[[EventDict], str] | None = None
        self.sinks: list[Stream | RotatedFile] = []
        self._unreported: dict[int, int] = {}

    def log(self, line: EventDict) -> None:
        """Write one line to the current sinks; one that cannot be written is counted, and the next line says so."""
        with self.lock:
            as_json = _json_line(line)
            shown = f"{self.console(line)}\n" if self.console else as_json
            for sink in self.sinks:
                self._write(sink, shown if isinstance(sink, Stream) else as_json)

    debug = info = warning = warn = error = exception = critical = fatal = log

    def _write(self, sink: Stream | RotatedFile, text: str) -> None:
        unreported = self._unreported.pop(id(sink), 0)
        dropped = {"level": "warning", "event": "log.dropped", "count": unreported}
        if unreported and not sink.write(_json_line({**_stamp(None, "", {}), **dropped})):
            self._unreported[id(sink)] = unreported
        if not sink.write(text):
            self._unreported[id(sink)] = self._unreported.get(id(sink), 0) + 1

    def change(self, *sinks: Stream | RotatedFile) -> None:
        with self.lock:
            for old in self.sinks:
                old.close()
            self.sinks = list(sinks)
            self._unreported.clear()


_output = _Output()


def configure(settings: LogSettings, *, stdout_fd: int = 1) -> None:
    """Log as `settings` say from now on, with all loggers; may be called at any time, as on SIGHUP.

    Raises OSError if the file cannot be opened; then nothing has changed.
    """
    files = []
    if settings.file is not None:
        path = Path(settings.file).expanduser()
        files = [RotatedFile(path, max_bytes=settings.max_bytes, backups=settings.backups)]
    stream = Stream(stdout_fd)
    _output.change(stream, *files)
    _output.level = _LEVELS[settings.level]
    is_plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    for_person = settings.format == "console" or (settings.format == "auto" and stream.is_terminal)
    look = coloured if stream.is_terminal and not is_plain else plain
    _output.console = look if for_person else None
    structlog.configure(
        processors=_PROCESSORS,
        wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG),
        context_class=dict,
        logger_factory=lambda *_: _output,
        cache_logger_on_first_use=True,
    )
    root = logging.getLogger()
    if not any(isinstance(handler, _FromStdlib) for handler in root.handlers):
        root.addHandler(_FromStdlib(logging.WARNING))


def close() -> None:
    """Close the file and the stream; later lines are discarded."""
    _output.change()


def _drop_below_level(_: object, method: str, event: EventDict) -> EventDict:
    if _LEVELS.get(method, 20) < _output.level:
        raise structlog.DropEvent
    return event


def _as_written(_: object, __: str, event: EventDict) -> tuple[tuple[EventDict], dict[str, Any]]:
    """Put the keys in order, hide what is secret, and return the arguments of the output."""
    first = {key: event[key] for key in _FIRST_KEYS if event.get(key) is not None}
    line = first | {key: value for key, value in event.items() if key not in _FIRST_KEYS}
    return (line if _is_plain(line) else _clean_line(line),), {}


def _is_plain(line: EventDict) -> bool:
    """Return whether a line can be written as it is: only short texts and numbers, and no key in any text."""
    values = line.values()
    if not _PLAIN.issuperset(map(type, values)) or any(map(_is_secret_name, line)):
        return False
    numbers = (v for v in values if isinstance(v, int | float))
    joined = "\0".join((*line, *(v for v in values if isinstance(v, str))))
    is_small = len(joined) <= TEXT_CHARS and all(abs(v) < NUMBER_MAX for v in numbers)
    return is_small and redact(joined) == joined


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
    return without_middle(
        redact(text), TEXT_CHARS
    )  # redacted before: half a key is still half a key


def _json_line(line: EventDict) -> str:
    text = _as_json(line)  # not printable: control characters beyond ASCII's, or no Unicode at all
    return f"{text if text.isprintable() else json.dumps(line)}\n"


_stamp = structlog.processors.TimeStamper(fmt="iso", utc=True)
_PROCESSORS: list[Any] = [
    _drop_below_level,
    structlog.processors.add_log_level,
    _stamp,
    structlog.processors.StackInfoRenderer(),
    structlog.processors.format_exc_info,
    _as_written,
]
"""One list, and one output: loggers keep what they were bound to, and a reload reaches them all the same."""


class _FromStdlib(logging.Handler):
    """Passes on what libraries log (asyncio's lost exceptions above all) into our log."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            structlog.get_logger().log(
                min(record.levelno // 10, 5) * 10,
                "python.logged",
                logger=record.name,
                message=record.getMessage(),
                exc_info=record.exc_info,
            )
        except Exception:  # noqa: BLE001 - as in every handler: a bad record is shown, not raised
            self.handleError(record)
