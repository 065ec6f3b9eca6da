"""When a usage limit ends, as the coding agents name the time."""

from datetime import UTC, datetime

import pytest

from clew_worker.bridge.clis.cli import FaultReported, LimitReached, LoginNeeded
from clew_worker.bridge.clis.printed import fault, reset_time

NOW = datetime(2026, 11, 23, 22, 30, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("try again at 11:58 PM.", (2026, 11, 23, 23, 58)),
        ("try again at 9:05 AM.", (2026, 11, 24, 9, 5)),
        ("or try again at Nov 28th, 2026 10:51 AM.", (2026, 11, 28, 10, 51)),
        ("or try again at Dec 1st, 2026 12:00 AM.", (2026, 12, 1, 0, 0)),
        ("or try again in 2 days 17 hours 14 minutes.", (2026, 11, 26, 15, 44)),
        ("You've hit your limit · resets 11pm (UTC)", (2026, 11, 23, 23, 0)),
        ("5-hour limit reached ∙ resets 2am", (2026, 11, 24, 2, 0)),
        ("weekly usage limit reached. It will reset in 5 days 10 hours. To", (2026, 11, 29, 8, 30)),
        ("Usage limit reached. It will reset in less than a minute.", None),
        ("try again at 31:99 PM", None),
        ("try again at Feb 30th, 2027 1:00 PM", None),
        ("try again at Nov 28th, 2099 1:00 PM", None),
        ("try again in 999999 days", None),
        ("try again later.", None),
        ("", None),
    ],
)
def test_the_time_is_read_from_the_sentence(text, at):
    expected = datetime(*at, tzinfo=UTC).timestamp() if at else None
    assert reset_time(text, NOW) == expected


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("You\u2019ve hit your usage limit. Upgrade to Pro", LimitReached),
        ("You've hit your session limit · resets 3pm (UTC)", LimitReached),
        ("Claude AI usage limit reached", LimitReached),
        ("weekly usage limit reached. It will reset in 5 days", LimitReached),
        (
            "Your access token could not be refreshed. Please log out and sign in again.",
            LoginNeeded,
        ),
        ("OAuth token revoked · Please run /login", LoginNeeded),
        ("You're out of credits.", FaultReported),
        ("Rate limit reached for requests", FaultReported),
        ("Overloaded", FaultReported),
        ("", FaultReported),
    ],
)
def test_words_of_the_clis_are_known(message, kind):
    assert isinstance(fault(message, NOW), kind)
