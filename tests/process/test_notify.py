"""What the daemon tells a service manager, over a real datagram socket."""

import os
import signal
import socket
import time

import pytest

QUICK = "# Quick\n\n## Do\n- [ ] It\n  ```sh\n  true\n  ```\n"


class Manager:
    """The other end of NOTIFY_SOCKET."""

    def __init__(self, path):
        self.path = str(path)
        self.said = []
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(self.path)
        self._socket.settimeout(60)

    def until(self, *words):
        """Read datagrams until one holds all these words; that one."""
        while True:
            text = self._socket.recv(65536).decode()
            self.said.append(text)
            if all(word in text for word in words):
                return text

    def close(self):
        self._socket.close()


@pytest.fixture
def manager(tmp_path):
    manager = Manager(tmp_path / "notify.sock")
    yield manager
    manager.close()


def test_every_reload_is_told_as_notify_reload_wants_it(clew, manager):
    clew.start(NOTIFY_SOCKET=manager.path)
    manager.until("READY=1")
    for config in ("[loops]\nrepeat_limit = 5\n", "[nonsense]\n", "", "not = [toml\n"):
        (clew.home / "config.toml").write_text(config)
        asked_us = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        os.kill(clew.daemon.pid, signal.SIGHUP)
        said = manager.until("RELOADING=1").splitlines()
        (told_us,) = [line[15:] for line in said if line.startswith("MONOTONIC_USEC=")]
        assert int(told_us) >= asked_us  # or systemd takes it for an answer to an earlier one
        manager.until("READY=1")
    for _ in range(20):  # a manager with an ExecReload= beside it sends more than one
        os.kill(clew.daemon.pid, signal.SIGHUP)
    manager.until("RELOADING=1")
    manager.until("READY=1")
    assert clew.stop() == 0
    manager.until("STOPPING=1")
    told = [text for text in manager.said if "READY=1" in text or "RELOADING=1" in text]
    alternating = [n % 2 == 0 for n in range(len(told) - 1)]  # the stop may cut off the last reload
    assert ["RELOADING=1" in text for text in told[1:]] == alternating


def test_the_status_tells_what_runs_what_is_blocked_and_the_last_restart(clew, manager):
    clew.start(NOTIFY_SOCKET=manager.path)
    text = QUICK.replace("true", "until test -e go; do sleep 0.02; done; exit 1")
    goal = clew.submit(f"---\non_interrupt: retry\n---\n{text}")
    manager.until("STATUS=", "1 goal running")
    clew.kill_agent(goal)
    manager.until("STATUS=", "last restart", goal)
    (clew.workspace(goal) / "go").touch()
    manager.until("STATUS=", "1 blocked")


def test_workers_do_not_get_the_managers_socket(clew, manager):
    text = QUICK.replace("true", "env > seen")
    goal = clew.start(NOTIFY_SOCKET=manager.path, WATCHDOG_USEC="60000000").submit(text)
    clew.wait("goal.completed", goal=goal)
    seen = "\n".join(clew.lines(goal, "seen"))
    assert "PATH=" in seen
    assert "NOTIFY_SOCKET" not in seen
    assert "WATCHDOG" not in seen
