"""What the journal is sent: entries with fields, of any size, and never a wait for it."""

import array
import json
import os
import socket
import struct

import pytest

from clew_daemon.logs import sinks as log_journal
from clew_daemon.logs.sinks import Journal, entry, is_journal

LINE = b'{"level": "error", "event": "worker.gave_up", "goal": "g-1", "epoch": 3, "crashes": 6}\n'


@pytest.fixture
def listening(tmp_path):
    """A journal's socket, and its address."""
    address = str(tmp_path / "journal")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
        server.bind(address)
        server.settimeout(10)
        yield server, address


@pytest.fixture
def journal(listening):
    journal = Journal(listening[1])
    yield journal
    journal.close()


def fields(data):
    """Read an entry as journald does."""
    found = {}
    while data:
        head, data = data.split(b"\n", 1)
        if b"=" in head:
            name, value = head.split(b"=", 1)
        else:
            name, size = head, struct.unpack_from("<Q", data)[0]
            value, data = data[8 : 8 + size], data[9 + size :]
        found[name.decode()] = value.decode()
    return found


def test_an_entry_has_the_line_its_priority_and_what_it_is_about():
    said = fields(entry(LINE))
    assert said.pop("MESSAGE") == LINE.decode().rstrip()
    assert said == {
        "PRIORITY": "3",
        "SYSLOG_IDENTIFIER": "clew",
        "CLEW_EVENT": "worker.gave_up",
        "CLEW_GOAL": "g-1",
        "CLEW_EPOCH": "3",
    }


def test_a_value_cannot_make_a_field_of_its_own():
    line = json.dumps({"event": "x", "goal": "a\nPRIORITY=0\n"}).encode()
    said = fields(entry(line))
    assert said["PRIORITY"] == "6"
    assert said["CLEW_GOAL"] == "a\nPRIORITY=0\n"


def test_a_line_arrives_as_one_datagram(listening, journal):
    assert journal.write(LINE)
    assert listening[0].recv(65536) == entry(LINE)


def test_a_line_longer_than_any_datagram_arrives_as_a_file(listening, journal):
    line = json.dumps({"event": "x", "text": "y" * 2_000_000}).encode()
    assert journal.write(line)
    _, ancillary, _, _ = listening[0].recvmsg(16, socket.CMSG_SPACE(4))
    fd = array.array("i", ancillary[0][2])[0]
    try:
        assert os.pread(fd, 3_000_000, 0) == entry(line)
    finally:
        os.close(fd)


def test_a_journal_that_does_not_read_costs_lines_and_one_short_wait(
    listening, journal, monkeypatch
):
    monkeypatch.setattr(log_journal, "PATIENCE_MS", 0)
    for _ in range(10_000):
        if not journal.write(LINE):
            break
    else:
        pytest.fail("its queue never filled")
    monkeypatch.setattr(log_journal, "PATIENCE_MS", None)  # to wait once more would be for ever
    assert not journal.write(LINE)
    listening[0].recv(65536)
    assert journal.write(LINE)


def test_a_journal_that_comes_back_is_found_again(listening, journal, tmp_path):
    assert journal.write(LINE)
    listening[0].close()
    assert not journal.write(LINE)
    (tmp_path / "journal").unlink()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as again:
        again.bind(listening[1])
        assert journal.write(LINE)


def test_stdout_is_the_journal_only_where_the_manager_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(log_journal, "SOCKET", str(tmp_path))
    with (tmp_path / "out").open("w") as file:
        found = os.fstat(file.fileno())
        mine = f"{found.st_dev}:{found.st_ino}"
        assert is_journal(file.fileno(), {"JOURNAL_STREAM": mine})
        assert not is_journal(file.fileno(), {"JOURNAL_STREAM": "8:1"})
        assert not is_journal(file.fileno(), {})
        monkeypatch.setattr(log_journal, "SOCKET", str(tmp_path / "absent"))
        assert not is_journal(file.fileno(), {"JOURNAL_STREAM": mine})
