"""What the service manager hears, on a real datagram socket."""

import os
import socket
import time
from pathlib import Path

import pytest

from clew_daemon.host.own_process import Notifier


@pytest.fixture(params=["path", "abstract"])
def manager(request, tmp_path: Path):
    """A listening manager, and the address that it puts in NOTIFY_SOCKET."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        path = f"/tmp/clew-{os.getpid()}-{time.monotonic_ns()}"
        address = path if request.param == "path" else f"@{path}"
        listener.bind(address.replace("@", "\0"))
        listener.settimeout(10)
        yield listener, address
    Path(path).unlink(missing_ok=True)


def test_a_status_is_one_line_and_forges_no_state(manager):
    listener, address = manager
    Notifier(address).tell(status="goal a\nWATCHDOG=1\nb \udcff " + "x" * 9999)
    heard = listener.recv(1 << 16).decode()
    assert heard.startswith("STATUS=goal a WATCHDOG=1 b ? x")
    assert "\n" not in heard
    assert len(heard) < 600


def test_a_manager_that_does_not_listen_holds_nothing_up(manager):
    listener, address = manager
    notifier = Notifier(address)
    for _ in range(10_000):
        notifier.tell("WATCHDOG=1")
    listener.close()
    notifier.tell("WATCHDOG=1")


@pytest.mark.parametrize(
    ("env", "interval_s"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "30000000"}, 15.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getpid())}, 15.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
    ],
)
def test_the_watchdog_is_fed_twice_in_its_time_if_it_watches_us(env, interval_s):
    assert Notifier.from_env(env).watchdog_interval_s == interval_s
