"""What a log line looks like, and what it may cost."""

import errno
import fcntl
import json
import logging
import os
import resource
import select
import threading
from pathlib import Path
from unittest.mock import Mock

import pytest
import structlog

from clew_daemon.logs import setup
from clew_shared.config.tables import LogSettings
from clew_shared.exit_codes import ExitCode
from clew_shared.text.redact import hide


def settings(**given):
    """The settings of a log; its file may be smaller than the config allows."""
    return LogSettings.model_construct(**{"format": "json", "backups": 2, **given})


class Broken:
    def __str__(self):
        raise RuntimeError


@pytest.fixture(autouse=True)
def _as_it_was():
    handlers = logging.getLogger().handlers[:]
    yield
    setup.close()
    structlog.reset_defaults()
    logging.getLogger().handlers[:] = handlers


@pytest.fixture
def out(tmp_path: Path):
    """A regular file as stdout: its descriptor, and a function that gives its lines."""
    path = tmp_path / "stdout"
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
    yield fd, lambda: [json.loads(line) for line in path.read_text().splitlines()]
    os.close(fd)


@pytest.fixture
def pipe():
    reader, writer = os.pipe()
    ends = {reader, writer}
    yield reader, writer, ends
    for fd in ends:
        os.close(fd)


def read_lines(fd: int, count: int) -> list[bytes]:
    data = b""
    while data.count(b"\n") < count:
        assert select.select([fd], [], [], 20)[0], f"only {data!r} came"
        data += os.read(fd, 1 << 16)
    return data.splitlines()


def test_no_value_holds_a_key(out):
    fd, lines = out
    setup.configure(settings(), stdout_fd=fd)
    hide(["open-Sesame-1"])
    structlog.get_logger().error(
        "worker.exited",
        error=ValueError("Bearer abc123def456"),
        api_key="not-short",
        nested={"headers": [{"Authorization": "not-short"}], "text": "say open-Sesame-1"},
        password="hunter2 and more",
        secret=["hunter2"],
        access_token=12345678,
        maps=[{"password": "p"}],
        digest="9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    )
    (line,) = lines()
    assert line["error"] == "Bearer [redacted]"
    assert line["api_key"] == "[redacted]"
    assert line["nested"] == {
        "headers": [{"Authorization": "[redacted]"}],
        "text": "say [redacted]",
    }
    assert {line[key] for key in ("password", "secret", "access_token")} == {"[redacted]"}
    assert line["maps"] == [{"password": "[redacted]"}]
    assert line["digest"].startswith("9f86d081")


def test_whatever_is_logged_makes_one_line_of_json(out):
    fd, lines = out
    setup.configure(settings(), stdout_fd=fd)
    circle = {"password": "p"}
    circle["again"] = [circle]
    structlog.get_logger().info(
        "action.finished", name=os.fsdecode(b"\xff"), control="a\nb\x1b[2J\x9b\u2028", raw=b"\x00",
        keys={(1, 2): 3, "b": {4}}, code=ExitCode.FAILED, broken=Broken(), long="x" * 100_000,
        many=list(range(50_000)), texts=["y" * 20_000] * 20,
        numbers=[float("inf"), float("nan"), 10**5000, 1.5], circle=circle,
        deep=json.loads("[" * 900 + "]" * 900),
    )  # fmt: skip
    structlog.get_logger().info("action.finished", seconds=float("inf"))
    line, infinite = lines()
    assert infinite["seconds"] == "inf"
    assert line["numbers"] == ["inf", "nan", "<int: ValueError>", 1.5]
    assert line["circle"]["again"][0]["password"] == "[redacted]"
    assert '"p"' not in json.dumps(line["circle"])
    assert len(line["many"]) < setup.ITEMS_MAX
    assert len(json.dumps(line)) < 5 * setup.TEXT_CHARS
    assert line["broken"] == "<Broken: RuntimeError>"
    assert len(line["long"]) <= setup.TEXT_CHARS
    assert line["control"] == "a\nb\x1b[2J\x9b\u2028"
    assert line["keys"] == {"(1, 2)": 3, "b": [4]}
    assert line["code"] == 1


def test_a_full_disk_costs_lines_that_are_counted_and_said(out, tmp_path, monkeypatch):
    fd, _ = out
    path = tmp_path / "clew.log"
    setup.configure(settings(file=str(path)), stdout_fd=fd)
    logger = structlog.get_logger()
    logger.info("goal.started")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 10, hard))
    try:
        for _ in range(3):
            logger.info("goal.completed")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    logger.info("goal.started")
    events = [json.loads(line)["event"] for line in path.read_text().splitlines()]
    assert events == ["goal.started", "goal.completed", "log.dropped", "goal.started"]


def test_a_file_that_cannot_be_rotated_grows_and_one_that_was_emptied_goes_on(
    out, tmp_path, monkeypatch
):
    fd, lines = out
    file = tmp_path / "clew.log"
    setup.configure(settings(file=str(file), max_bytes=200), stdout_fd=fd)
    log = structlog.get_logger()
    with monkeypatch.context() as failing:
        failing.setattr(Path, "rename", Mock(side_effect=OSError(errno.EIO, "as on NFS")))
        for number in range(3):
            log.info("goal.completed", text="y" * 150, n=number)
    assert [line["n"] for line in lines()] == [0, 1, 2]
    assert file.read_text().count("goal.completed") == 3
    file.write_text("")  # as logrotate does with copytruncate
    for number in range(4):
        log.info("goal.queued", text="y" * 150, n=number)
    names = [file, *(tmp_path / f"clew.log.{number}" for number in (1, 2))]
    assert [json.loads(one.read_text())["n"] for one in names] == [3, 2, 1]
    assert len(list(tmp_path.glob("clew.log*"))) == 3


def test_lines_that_are_written_together_keep_the_smallest_file_within_its_limit(out, tmp_path):
    file = tmp_path / "clew.log"
    setup.configure(settings(file=str(file), max_bytes=4096), stdout_fd=out[0])
    with setup.together():
        for number in range(40):
            structlog.get_logger().info("goal.queued", text="y語" * 200, n=number)
    assert len(list(tmp_path.glob("clew.log*"))) == 3
    assert all(3000 < one.stat().st_size < 4096 for one in tmp_path.glob("clew.log*"))
    assert [line["n"] for line in out[1]()] == list(range(40))


def test_a_file_that_cannot_be_closed_is_let_go_all_the_same(out, tmp_path, monkeypatch):
    """Its number may be that of the ledger by the next line."""
    fd, _ = out
    file = tmp_path / "clew.log"
    setup.configure(settings(file=str(file)), stdout_fd=fd)
    file.rename(tmp_path / "moved")
    held, close = setup._output.sinks[1]._fd, os.close

    def failing(fd):
        close(fd)
        raise OSError(errno.EDQUOT, "as on NFS")

    with monkeypatch.context() as patched:
        patched.setattr(os, "close", failing)
        structlog.get_logger().info("goal.queued")
    assert setup._output.sinks[1]._fd != held
    assert "goal.queued" in file.read_text()


def test_a_reader_that_has_stopped_drops_lines_and_is_told_how_many(pipe):
    reader, writer, _ = pipe
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    setup.configure(settings(), stdout_fd=writer)
    for count in range(1000):
        structlog.get_logger().info("action.allowed", count=count, pad="x" * 1000)
    lines: list[bytes] = []

    def read() -> None:
        while not any(b"log.dropped" in line for line in lines):
            lines.extend(read_lines(reader, 1))

    reading = threading.Thread(target=read)
    reading.start()
    while reading.is_alive():  # what was dropped is said with the next line that goes
        structlog.get_logger().info("action.finished")
        reading.join(0.01)
    text = b"".join(lines).partition(b"log.dropped")
    kept = text[0].count(b"action.allowed")
    assert 0 < kept < 100
    assert all(b'"count": %d,' % count in text[0] for count in range(kept))
    assert int(text[2].split(b'"count": ')[1].split(b"}")[0]) >= 1000 - kept
    assert os.get_blocking(writer)
