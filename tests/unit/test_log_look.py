"""How a line of the log looks to a person."""

import re

from clew_daemon.logs.look import coloured, plain
from clew_shared.record.moment import local

ENTRY = {
    "timestamp": "2026-01-02T03:04:05.678901Z",
    "level": "warning",
    "event": "worker.hung",
    "goal": "g-1",
    "epoch": 2,
    "seq": 17,
    "why": "no word since\tthen [x]",
    "left": ["a", 1, None],
}


def test_a_line_has_the_local_time_the_event_the_goal_and_every_value():
    assert plain(ENTRY) == (
        f"{local(ENTRY['timestamp'])} warning worker.hung          g-1 epoch 2 #17"
        ' why=no word since\\tthen [x] left=["a", 1, null]'
    )


def test_colours_change_nothing_else():
    assert re.sub("\x1b\\[[0-9;]*m", "", coloured(ENTRY)) == plain(ENTRY)
    assert "\x1b[33mwarning" in coloured(ENTRY)


def test_no_value_can_steer_the_terminal_or_make_another_line():
    evil = {"event": "x\x1b[2J", "why": "a\nb\u202ec\x9b", "\x07key": "v"}
    line = plain(evil)
    assert line.isprintable()
    assert "why=a ⏎ b\\u202ec\\x9b" in line


def test_the_traceback_of_an_error_stands_below_its_line():
    entry = {"level": "error", "event": "python.logged", "exception": "Traceback:\n  x\x1b\nError"}
    assert plain(entry).splitlines()[1:] == ["    Traceback:", "      x\\x1b", "    Error"]
