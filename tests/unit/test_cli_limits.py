"""When a usage limit ends, as the coding agents name the time."""

from datetime import UTC, datetime

import pytest

from clew_worker.bridge.clis.cli import reset_time

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
