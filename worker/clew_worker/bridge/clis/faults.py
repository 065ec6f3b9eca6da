"""Sorts the messages with which a CLI reports a fault, by the words of the CLIs and of their endpoints."""

import re

from clew_worker.bridge.clis.cli import FaultReported, LimitReached, LoginNeeded
from clew_worker.bridge.clis.limits import reset_time

Fault = FaultReported | LimitReached | LoginNeeded

MESSAGE_CHARS = 500

_LIMIT = re.compile(
    r"hit your (?:\w+ )?limit|(?:usage|session|weekly|5-hour|hour) limit|usage_limit_reached"
    r"|(?<!rate )limit reached|limit will reset",
    re.IGNORECASE,
)
_LOGIN = re.compile(
    r"\b401\b|unauthorized|authenticat|not logged in|\blog ?in\b|/login|sign in|api[ _-]key|auth token"
    r"|oauth|access token|refresh token|missing environment variable|credentials",
    re.IGNORECASE,
)
_LASTING = re.compile(
    r"quota|billing|credit|model.{0,80}(?:not ?found|not exist|not supported|invalid|unknown)"
    r"|(?:issue with the selected|unknown|invalid|unsupported|no such) model|\b40[34]\b|forbidden"
    r"|unknown feature flag|error loading config|unknown (?:option|argument|configuration)|unexpected argument"
    r"|configuration is invalid",
    re.IGNORECASE | re.DOTALL,
)
_OVER = re.compile(
    r"context window|context.{0,20}length|prompt is too long|maximum context|no rollout found"
    r"|no conversation found|session not found|notfounderror.{0,40}session",
    re.IGNORECASE | re.DOTALL,
)


def fault(message: str, now: float) -> Fault:
    """Return what a message reports, at the time `now` (seconds since the epoch)."""
    short = " ".join(message.split())[:MESSAGE_CHARS] or "it reported a fault without a reason"
    if _OVER.search(short):
        return FaultReported(short, session_over=True)
    if _LIMIT.search(short):
        return LimitReached(short, reset_time(short, now))
    if _LASTING.search(short):
        return FaultReported(short, lasting=True)
    return LoginNeeded(short) if _LOGIN.search(short) else FaultReported(short)
