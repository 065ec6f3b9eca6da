"""The log: events with stable names, as JSON lines, or for a person on a terminal.

Every part of the daemon logs by `structlog.get_logger()`; where the lines go is decided here, and may change while the
daemon runs. No line holds a key or a control character, and no error in writing one reaches the caller. Lines are
written by the caller's thread before `log` returns, since the last ones before a crash matter most.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import structlog

from clew_daemon.logs.look import coloured, plain
from clew_daemon.logs.sinks import RotatedFile, Stream
from clew_shared.text.redact import redact, redacted

if TYPE_CHECKING:
    from collections.abc import Callable

    from structlog.typing import EventDict

    from clew_shared.config.tables import LogSettings

_FIRST_KEYS = ("timestamp", "level", "event", "goal", "epoch", "seq")
_LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40, "exception": 40, "critical": 50}
_as_json = json.JSONEncoder(ensure_ascii=False, skipkeys=True, default=str).encode


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
    text = _as_json(line)
    return (line if redact(text) == text else redacted(json.loads(text)),), {}


def _json_line(line: EventDict) -> str:
    text = _as_json(line)
    if not text.isprintable():  # control characters beyond ASCII's, or no Unicode at all
        text = json.dumps(json.loads(text))
    return f"{text}\n"


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
