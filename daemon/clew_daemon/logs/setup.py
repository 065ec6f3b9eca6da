"""The log: events with stable names, as JSON lines, or for a person on a terminal.

Every part of the daemon logs by `structlog.get_logger()`; where the lines go is decided here, and may change while the
daemon runs. No line holds a key or a control character, and no error in writing one reaches the caller.

Lines are written by the caller's thread before `log` returns, since the last ones before a crash matter most. The
standard library's handlers do not fit: a QueueHandler loses its queue with the process, and its rotating file and
stream handlers block on a full pipe, leave torn lines after a full disk, and do not count what they drop.
"""

from __future__ import annotations

import json
import logging
import math
import os
import threading
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import structlog

from clew_daemon.logs.look import coloured, plain
from clew_daemon.logs.sinks import Journal, RotatedFile, Stream, is_journal
from clew_shared.text.redact import REDACTED, redact

if TYPE_CHECKING:
    from collections.abc import Callable

    from structlog.typing import EventDict

    from clew_shared.config.settings import LogSettings

MAX_CHARS = 16_384
MAX_ITEMS = 1000
MAX_DEPTH = 8
_FIRST_KEYS = ("timestamp", "level", "event", "goal", "epoch", "seq")
_LEVELS = {
    "debug": 10,
    "info": 20,
    "warning": 30,
    "warn": 30,
    "error": 40,
    "exception": 40,
    "critical": 50,
    "fatal": 50,
}
_LEVEL_NAMES = {10: "debug", 20: "info", 30: "warning", 40: "error", 50: "critical"}
_PLAIN = {int, float, bool, type(None)}
_SECRET_KEYS = {"api_key", "apikey", "authorization", "password", "secret", "access_token"}


class _Output:
    """The output that all loggers share, so that a reload reaches those that were bound long before."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.level = _LEVELS["info"]
        self.console: Callable[[EventDict], str] | None = None
        self.stream: Stream | Journal | None = None
        self.file: RotatedFile | None = None
        self._unreported: dict[int, int] = {}

    def log(self, line: EventDict) -> None:
        """Write one line to the current sinks; one that cannot be written is counted, and the next line says so."""
        with self.lock:
            encoded = _json_line(line) if self.file or self.console is None else b""
            if self.stream is not None:
                self._write(self.stream, self._console_line(line) if self.console else encoded)
            if self.file is not None:
                self._write(self.file, encoded)

    debug = info = warning = warn = error = exception = critical = fatal = log

    def _write(self, sink: Stream | Journal | RotatedFile, line: bytes) -> None:
        unreported = self._unreported.pop(id(sink), 0)
        if unreported and not sink.write(_json_line(_dropped(unreported))):
            self._unreported[id(sink)] = unreported
        if not sink.write(line):
            self._unreported[id(sink)] = self._unreported.get(id(sink), 0) + 1

    def _console_line(self, line: EventDict) -> bytes:
        assert self.console is not None  # noqa: S101 - the caller has looked
        return f"{self.console(line)}\n".encode("utf-8", "backslashreplace")

    def change(self, stream: Stream | Journal, file: RotatedFile | None) -> None:
        with self.lock:
            for old in (self.stream, self.file):
                if old is not None:
                    old.close()
            self.stream, self.file = stream, file
            self._unreported.clear()


_output = _Output()


def configure(settings: LogSettings, *, stdout_fd: int = 1) -> None:
    """Log as `settings` say from now on, with all loggers; may be called at any time, as on SIGHUP.

    Raises OSError if the file cannot be opened; then nothing has changed.
    """
    file = None
    if settings.file is not None:
        path = Path(settings.file).expanduser()
        file = RotatedFile(path, max_bytes=settings.max_bytes, backups=settings.backups)
    stream = Stream(stdout_fd)
    console = settings.format == "console" or (settings.format == "auto" and stream.is_terminal)
    native = not console and is_journal(stdout_fd, os.environ)
    if native:
        stream.close()
    _output.change(Journal() if native else stream, file)
    _output.level = _LEVELS[settings.level]
    is_plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    in_colour = stream.is_terminal and not is_plain
    _output.console = (coloured if in_colour else plain) if console else None
    structlog.configure(
        processors=[
            _drop_below_level,
            structlog.processors.StackInfoRenderer(),
            structlog.processors.format_exc_info,
            _finish,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG),
        context_class=dict,
        logger_factory=lambda *_: _output,
        cache_logger_on_first_use=False,
    )
    _take_over_stdlib()


def close() -> None:
    """Close the file and the stream; later lines are discarded."""
    with _output.lock:
        for sink in (_output.stream, _output.file):
            if sink is not None:
                sink.close()
        _output.stream = _output.file = None


def _drop_below_level(_: object, method: str, event: EventDict) -> EventDict:
    if _LEVELS.get(method, 20) < _output.level:
        raise structlog.DropEvent
    return event


def _finish(_: object, method: str, event: EventDict) -> tuple[tuple[EventDict], dict[str, Any]]:
    """Put the keys in order, clean the values, and return the arguments of the output."""
    now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    level = _LEVEL_NAMES[_LEVELS.get(method, 20)]
    line: EventDict = {"timestamp": now, "level": level}
    plain = _is_plain(event)
    for key in _FIRST_KEYS[2:]:
        if event.get(key) is not None:
            line[key] = event[key] if plain else _clean(event[key])
    for key, value in event.items():
        if key not in line and key not in _FIRST_KEYS:
            line[key] = value if plain else _clean_named(key, value)
    return (line,), {}


def _is_plain(event: EventDict) -> bool:
    """Return whether a line can be written as it is: only short texts and numbers, and no key in any text.

    All texts are checked at once, joined: a key in one of them is also in the joined text.
    """
    texts = []
    for key, value in event.items():
        kind = type(value)
        if kind is str:
            texts.append(value)
        elif kind not in _PLAIN or (kind is float and not math.isfinite(value)):
            return False
        if key.lower() in _SECRET_KEYS:
            return False
    joined = "\0".join(texts)
    return len(joined) <= MAX_CHARS and redact(joined) == joined


def _clean(value: object, depth: int = 0) -> object:
    """Return `value` as JSON can hold it, without keys and limited in length."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, Mapping | list | tuple | set | frozenset) and depth < MAX_DEPTH:
        return _clean_items(value, depth + 1)
    return _clean_text(value if isinstance(value, str) else _text_of(value))


def _clean_items(items: Mapping[Any, Any] | Collection[Any], depth: int) -> object:
    if isinstance(items, Mapping):
        some = ((str(key), each) for key, each in islice(items.items(), MAX_ITEMS))
        return {_clean_text(key): _clean_named(key, each, depth) for key, each in some}
    return [_clean(each, depth) for each in islice(items, MAX_ITEMS)]


def _clean_named(key: str, value: object, depth: int = 0) -> object:
    return REDACTED if value and key.lower() in _SECRET_KEYS else _clean(value, depth)


def _text_of(value: object) -> str:
    try:
        return str(value)
    except Exception as error:  # noqa: BLE001 - a broken __str__ must not break the log
        return f"<{type(value).__name__}: {type(error).__name__}>"


def _clean_text(text: str) -> str:
    # Redacted before it is cut: half a key is still half a key.
    clean = redact(text[: 2 * MAX_CHARS])
    return clean if len(clean) <= MAX_CHARS else clean[: MAX_CHARS - 1] + "…"


_ENCODER = json.JSONEncoder(ensure_ascii=False)


def _json_line(line: EventDict) -> bytes:
    text = _ENCODER.encode(line)
    if not text.isprintable():  # control characters beyond ASCII's, or no Unicode at all
        text = json.dumps(line)
    return f"{text}\n".encode()


def _dropped(count: int) -> EventDict:
    (line,), _ = _finish(None, "warning", {"event": "log.dropped", "count": count})
    return line


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


def _take_over_stdlib() -> None:
    root = logging.getLogger()
    if not any(isinstance(handler, _FromStdlib) for handler in root.handlers):
        root.addHandler(_FromStdlib(logging.WARNING))
