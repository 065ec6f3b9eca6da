"""The outcome of an action without what varies from run to run: outcome, error class, soft faults.

Texts in, digests and yes/no out. Each pattern has a comment with what it is for; text that is not certainly volatile
stays, since a poll whose numbers move is work and not a loop.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final

from clew_shared.record.model import Result
from clew_shared.record.signature import digest
from clew_shared.tools import WRITE_ONLY_TOOLS

FAULT_SCAN_CHARS: Final = 2_000
SOFT_LINES: Final = 6

_MONTHS: Final = (
    *("jan", "feb", "mar", "apr", "may", "jun"),
    *("jul", "aug", "sep", "oct", "nov", "dec"),
)

_VOLATILE: Final = tuple(
    (needs, re.compile(pattern, re.IGNORECASE), replacement)
    for needs, pattern, replacement in (
        # dates and times: 2026-11-21T10:00:00.123Z, 21/11/2026, Sat Nov 21 10:00:00 UTC 2026, 10:00:00
        ("-", r"\b\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d([.,]\d+)?)?(Z| ?[+-]\d\d:?\d\d)?)?", "<date>"),
        ("/.", r"\b\d{1,2}[/.]\d{1,2}[/.]\d{4}\b", "<date>"),
        (
            _MONTHS,
            (
                r"\b(mon|tue|wed|thu|fri|sat|sun)[a-z]*,? (\d{1,2} )?"
                r"(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*( \d{1,2})?(,? \d{4})?"
            ),
            "<date>",
        ),
        (
            _MONTHS,
            r"\b(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec) +\d{1,2} +(\d\d:\d\d|\d{4})\b",
            "<date>",
        ),
        (":", r"\b\d{1,2}:\d\d:\d\d([.,]\d+)?( ?[ap]m)?( [A-Z]{3,4}( \d{4})?)?\b", "<time>"),
        # durations: in 0.12s, 3.4 seconds, 12ms, 1m32s, took 5 minutes
        ("s", r"\b\d+m ?\d+(\.\d+)?s\b", "<duration>"),
        (
            "smh",
            r"(?<![\w.])\d+(\.\d+)? ?(ns|µs|us|ms|s|secs?|seconds?|mins?|minutes?|hrs?|hours?)\b",
            "<duration>",
        ),
        # addresses and ids
        (("0x",), r"\b0x[0-9a-f]{4,}\b", "<address>"),
        ("-", r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "<id>"),
        (
            ("port", "localhost:", "127.0.0.1:"),
            r"\b(port|localhost:|127\.0\.0\.1:)\s?\d{4,5}\b",
            r"\1<port>",
        ),
        # temporary paths
        (("tmp/", "/shm/", "/folders/"), r"/(tmp|var/tmp|dev/shm|var/folders)/[^\s'\":,;)\]]+", "<tmp>"),
        (("pytest-",), r"\b(pytest-of-\w+/)?pytest-\d+\b", "<tmp>"),
        # ids, pids and counters that are labelled as such
        # ("job 3 of 10" counts work and stays; "job id 3" names itself)
        (
            (
                *("pid", "tid", "req", "session", "trace", "attempt", "try", "retr", "iteration", "seq"),
                *("counter", "nonce", "uptime", "timestamp", "seed"),
                *("process", "thread", "job", "task", "run", "build"),
            ),
            (
                r"\b(pid|tid|request|req|session|trace|attempt|try|retry|retries|iteration|seq|sequence|counter"
                r"|nonce|uptime|timestamp|seed|(?:process|thread|job|task|run|build) ?(?:id|no|nr|number|#))"
                r"((?: ?(?:id|no|nr|number|count))?\b[ ]*[:=#]?[ ]*)[#(]?\d[\w-]*"
            ),
            r"\1\2<n>",
        ),
        (
            ("id",),
            r"\b(id|[a-z]+_id)(\s*[:=]\s*)['\"]?(?=[\w-]*\d)[\w-]+",
            r"\1\2<id>",
        ),
        ("[", r"\[\d{3,7}\](?=[:\s])", "[<pid>]"),
        (("process", "thread"), r"\b(process|thread) \d{3,}\b", r"\1 <pid>"),
        (
            ("attempt", "try", "iteration"),
            r"\b(attempt|try|retry|iteration) \d+ ?(/|of) ?\d+",
            r"\1 <n>",
        ),
    )
)  # fmt: skip
"""What a text must contain (one of these, in lower case) before the pattern is tried, the pattern, its replacement."""

_BLANKS: Final = re.compile(r"[ \t]+")

_SOFT_FAULT: Final = re.compile(
    r"""
      \b429\b | too\ many\ requests | rate.?limit | quota\ exceeded | throttl
    | \b(http|status|error|code)\W{0,12}(code\W{0,3})?5\d\d\b | \b5\d\d\ (internal|server|bad\ gateway|service|gateway)
    | bad\ gateway | gateway\ time-?out | service\ unavailable | temporarily\ unavailable | overloaded
    | timed?[\ -]?out | etimedout | deadline\ exceeded
    | connection\ (refused|reset|aborted|closed) | econnrefused | econnreset | network\ is\ unreachable
    | temporary\ failure | try\ again\ later | resource\ temporarily
    | could\ not\ get\ lock | unable\ to\ acquire | lock\ (is\ )?held | is\ locked | waiting\ for.{0,20}\ lock
    | index\.lock | another\ (process|instance).{0,40}(running|using|holds)
    """,
    re.IGNORECASE | re.VERBOSE,
)

_EMPTY_POLL: Final = re.compile(
    r"""^\W*(
      (there\ (is|are)\ )?(no|0|zero)\ (new\ )?(more\ )?
        (output|lines?|logs?|messages?|mails?|events?|data|updates?|jobs?|items?|results?\ yet)
    | 0\ new | nothing\ new | no\ changes?\ yet
    | (status\W+)?((still|is)\ )?
        (pending|running|queued|waiting|in[\ _-]?progress|processing|starting
        |not\ (yet\ )?(ready|done|finished|started))
    )\b[^\n]{0,60}$""",
    re.IGNORECASE | re.VERBOSE,
)

_POLL_WORDS: Final = re.compile(
    r"(?<![a-z])(poll|logs?|tail|status|wait|watch|check|inbox|queue|progress|jobs?|ps|health|messages?|notifications?)(?![a-z])",
    re.IGNORECASE,
)

_UNFINISHED: Final = re.compile(
    r"\b(pending|running|queued|waiting|in[ _-]?progress|not (?:yet )?ready|starting|creating|containercreating"
    r"|processing|building|provisioning|scheduled|unfinished|0/\d+)\b",
    re.IGNORECASE,
)
_RECEIVED: Final = frozenset({"queued", "scheduled"})
"""What a receipt says, too: "queued as 8f3a91c2"."""

_SLEEP: Final = re.compile(r"^\s*sleep\s+[\d.]+[smhd]?\s*;?\s*$")
_SLEEP_FIRST: Final = re.compile(r"^\s*sleep\s+[\d.]+[smhd]?\s*(;|&&)")
_WAIT_NAMES: Final = frozenset({"wait", "sleep"})
COMMAND_KEYS: Final = ("cmd", "command", "script")

CHANGES_FOLDER: Final = re.compile(
    r"(?:^|[;&|(\n])\s*(?:cd|pushd)\s+(\"[^\"]+\"|'[^']+'|[^\s;&|()]+)"
)
"""The folder that a command changes to."""

_QUOTED: Final = re.compile(r"`[^`\n]*`|'[^'\n]*'|\"[^\"\n]*\"")
_POSITION: Final = re.compile(
    r"\b(lines?|columns?|offset|position|char)[ :]*\[?\d[\d, :-]*\]?|(?<=:)\d+(?=[:,\s])",
    re.IGNORECASE,
)
ARG_CHARS_MIN: Final = 4
SHORT_LINES: Final = 3
ERROR_CLASS_CHARS: Final = 160


@lru_cache(maxsize=4)
def normalise(text: str) -> str:
    """Return a text without durations, dates, addresses, temporary paths, and ids and counters labelled as such."""
    low = text.lower()
    for needs, pattern, replacement in _VOLATILE:
        for need in needs:
            if need in low:
                text, found = pattern.subn(replacement, text)
                low = text.lower() if found else low
                break
    lines = (line.rstrip() for line in _BLANKS.sub(" ", text).splitlines())
    return "\n".join(lines).strip()


def outcome(tool: str, result: str, output: str | None) -> str:
    """Return the outcome of an action: its result and a digest of its output without the volatile parts.

    An output that is nothing but an id is the answer itself (`uuidgen`).
    """
    if tool in WRITE_ONLY_TOOLS or not output:
        return f"{result}:"
    text = normalise(output)
    return f"{result}:{digest(text if text != '<id>' else output)}"


def error_class(result: str, output: str | None, args: dict[str, Any]) -> str:
    """Return an error without what varies from call to call, "" if there was none.

    Arguments that the message quotes, other quoted text and positions are left out, so that one missing tool, one 401
    or one unknown option is one error whatever the arguments were. Other numbers stay: "2 failed" after "3 failed" is
    another error, and progress.
    """
    if result not in (Result.ERROR, Result.FAILURE) or not output:
        return ""
    text = normalise(output)
    for value in sorted(_given(args, short=text.count("\n") < SHORT_LINES), key=len, reverse=True):
        text = text.replace(value, "<arg>")
    text = _POSITION.sub("<position>", _QUOTED.sub("<q>", text))
    return f"{digest(text)}:{' '.join(text.split())}"[:ERROR_CLASS_CHARS]


def soft(
    tool: str, args: dict[str, Any], result: str, output: str | None, *, waited: bool = False
) -> bool:
    """Return whether a retry may well succeed: a temporary fault, or the empty answer of a poll.

    An agent that `waited` before asking, in a step of its own or by a `sleep` in the command, polls: then an answer
    that mentions something unfinished is enough.
    """
    if result == Result.TIMEOUT:
        return True
    text = output or ""
    if result in (Result.ERROR, Result.FAILURE):
        return bool(_SOFT_FAULT.search(_edges(text)))
    if result != Result.SUCCESS:
        return False
    if _EMPTY_POLL.match(text.strip()):
        return True
    if (waited or _sleeps(args)) and _UNFINISHED.search(_edges(text)):
        return True
    return not text.strip() and is_poll(tool, args)


def is_at_work(text: str) -> bool:
    """Return whether an answer says that something is still going on."""
    return any(word.lower() not in _RECEIVED for word in _UNFINISHED.findall(_edges(text)))


def is_poll(tool: str, args: dict[str, Any]) -> bool:
    """Return whether an action asks for the progress of something."""
    words = " ".join([tool, *_strings(args)])[:FAULT_SCAN_CHARS]
    return bool(_POLL_WORDS.search(words.replace("_", " ").replace("-", " ")))


def is_wait(tool: str, args: dict[str, Any]) -> bool:
    """Return whether an action only lets time pass: the `wait` tool, or a bare `sleep`."""
    if tool in _WAIT_NAMES:
        return True
    return any(_SLEEP.match(command) for command in commands(args))


def _sleeps(args: dict[str, Any]) -> bool:
    return any(_SLEEP_FIRST.match(command) for command in commands(args))


def commands(args: dict[str, Any]) -> list[str]:
    """Return the shell commands among the arguments."""
    found = [args.get(key) for key in COMMAND_KEYS]
    lines = [" ".join(map(str, c)) if isinstance(c, list) else c for c in found]
    return [line for line in lines if isinstance(line, str)]


def _edges(text: str) -> str:
    """Return the first and last lines: a fault is named there, not in the middle of a test report."""
    lines = text[:FAULT_SCAN_CHARS].splitlines()
    tail = text[-FAULT_SCAN_CHARS:].splitlines()
    return "\n".join([*lines[:SOFT_LINES], *tail[-SOFT_LINES:]])


def _given(args: dict[str, Any], *, short: bool) -> list[str]:
    """Return what a message may quote: the arguments, and of a command the words that look like paths.

    The latter only if the message is `short`: in a test report it matters which file failed.
    """
    values = _strings(args)
    if not short:
        return values
    lines = commands(args)
    words = (word.strip("'\"`;,()") for line in lines for word in line.split())
    folders = [found for line in lines for found in CHANGES_FOLDER.findall(line)]
    paths = [w for w in words if len(w) >= ARG_CHARS_MIN and ("/" in w or "." in w)]
    return values + paths + [f for f in folders if len(f) > 1]


def _strings(args: Any) -> list[str]:
    match args:
        case str():
            return [args] if len(args) >= ARG_CHARS_MIN else []
        case dict():
            return [s for v in args.values() for s in _strings(v)]
        case list() | tuple():
            return [s for v in args for s in _strings(v)]
        case _:
            return []
