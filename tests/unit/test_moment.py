"""Moments as people read them: local time to the second."""

import time

import pytest

from clew_shared.record.moment import iso, local

AT = 1_790_000_000.123456


@pytest.fixture
def nepal(monkeypatch):
    monkeypatch.setenv("TZ", "NPT-05:45")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def test_a_moment_is_told_in_local_time_without_fractions(nepal):
    assert local(AT) == local(iso(AT)) == "2026-09-21 19:58:20"


@pytest.mark.parametrize("text", ["", "yesterday", "2026-13-01"])
def test_text_that_is_not_a_moment_is_returned_as_it_is(text):
    assert local(text) == text


def test_a_moment_beyond_the_calendar_is_returned_as_a_number():
    assert local(1e20) == "1e+20"
