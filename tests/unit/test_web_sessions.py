"""One-time links and their sessions."""

import pytest

from clew_daemon.web.sessions import LINK_S, LINKS_MAX, SESSIONS_MAX, Refused, Sessions


@pytest.fixture
def sessions():
    return Sessions()


def test_a_link_expires(sessions):
    token = sessions.new_link(0.0)
    assert sessions.redeem(token, LINK_S + 1) is Refused.EXPIRED
    assert sessions.redeem(token, 1.0) is Refused.USED


def test_links_and_sessions_are_bounded_and_the_oldest_is_dropped(sessions):
    tokens = [sessions.new_link(0.0) for _ in range(LINKS_MAX + 1)]
    assert sessions.redeem(tokens[0], 1.0) is Refused.UNKNOWN
    first = sessions.redeem(tokens[1], 1.0)
    for _ in range(SESSIONS_MAX):
        sessions.redeem(sessions.new_link(0.0), 1.0)
    assert not sessions.knows(first)
