"""A log line for a person, in `clew logs` and in the terminal of `clew run`. Pure."""

import json
from collections.abc import Mapping
from typing import Any

from clew_shared.record.moment import local
from clew_shared.text import words

_LEVEL_STYLE = {"debug": "dim", "warning": "yellow", "error": "bold red", "critical": "bold red"}
_HEAD_KEYS = ("timestamp", "level", "event", "goal", "epoch", "seq")
_NONE = (None, "")
_BELOW = ("question", "exception", "stack")
_CODES = {"dim": "2", "bold": "1", "cyan": "36", "yellow": "33", "bold red": "1;31"}


def pieces(entry: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return an entry as a line for a person: local time, level, event, goal, and the rest as `key=value`."""
    level = str(entry.get("level", ""))
    goal = f" {entry['goal']}" if entry.get("goal") else ""
    epoch = f" epoch {entry['epoch']}" if entry.get("epoch") else ""
    seq = f" #{entry['seq']}" if entry.get("seq") else ""
    rest = [key for key in entry if key not in (*_HEAD_KEYS, *_BELOW) and entry[key] not in _NONE]
    shown = "".join(f" {_clean(key)}={_clean(in_words(entry, key))}" for key in rest)
    lines = (line for key in _BELOW for line in str(entry.get(key) or "").splitlines())
    below = "".join(f"\n    {_clean(line)}" for line in lines)
    return [
        (_clean(local(str(entry.get("timestamp", "")))) + " ", "dim"),
        (f"{_clean(level):<8}", _LEVEL_STYLE.get(level, "")),
        (f"{_clean(str(entry.get('event', ''))):<20}", "bold"),
        (_clean(f"{goal}{epoch}{seq}"), "cyan"),
        (f"{shown}{below}", ""),
    ]


# How a code is put into words, by the event and the key that has it.
_WORDS = {
    ("worker.exited", "reason"): words.ending,
    ("action.interrupted", "reason"): words.cut_off,
    ("action.finished", "result"): words.outcome,
    ("attempt.ended", "reason"): words.ending,
    ("attempt.started", "reason"): words.ending,
    ("action.blocked", "reason"): words.refusal,
    ("loop.detected", "kind"): words.loop,
    ("intervention.sent", "kind"): words.warned,
}


def in_words(entry: Mapping[str, Any], key: str) -> str:
    """Return a value as people read it: a code in words, a text of several lines in one."""
    if not isinstance(value := entry[key], str):
        return json.dumps(value, ensure_ascii=False)
    usual = words.signature_text if key == "signature" else words.one_line
    return _WORDS.get((str(entry.get("event")), key), usual)(value)


def coloured(entry: Mapping[str, Any]) -> str:
    """Return the same line with the terminal's codes for its styles."""
    return "".join(
        f"\x1b[{_CODES[style]}m{text}\x1b[0m" if style else text for text, style in pieces(entry)
    )


def plain(entry: Mapping[str, Any]) -> str:
    return "".join(text for text, _ in pieces(entry))


def _clean(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
