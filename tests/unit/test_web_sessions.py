"""One-time links and their sessions."""

import pytest

from clew_daemon.web.sessions import LINK_S, LINKS_MAX, SESSIONS_MAX, NotOpenedError, Sessions


@pytest.fixture
def sessions():
    return Sessions()


def test_a_link_expires(sessions):
    token = sessions.new_link(0.0)
    with pytest.raises(NotOpenedError, match="expired"):
        sessions.redeem(token, LINK_S + 1)
    with pytest.raises(NotOpenedError, match="used"):
        sessions.redeem(token, 1.0)


def test_links_and_sessions_are_bounded_and_the_oldest_is_dropped(sessions):
    tokens = [sessions.new_link(0.0) for _ in range(LINKS_MAX + 1)]
    with pytest.raises(NotOpenedError, match="not valid"):
        sessions.redeem(tokens[0], 1.0)
    first = sessions.redeem(tokens[1], 1.0)
    for _ in range(SESSIONS_MAX):
        sessions.redeem(sessions.new_link(0.0), 1.0)
    assert not sessions.knows(first)
