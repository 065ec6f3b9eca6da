"""The programs that show and tell what clew does, as a bench uses them: `clew top` in a terminal, pages, the herald."""

import contextlib
import fcntl
import http.client
import os
import re
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from urllib.parse import urlsplit

import psutil
from bench.home import WAIT_S, Home, wait_for

ROWS, COLUMNS = 24, 80
REST_S_MAX = 2.0
"""As in clew.js."""


class Top:
    """A `clew top` in a terminal of its own, whose output is read as it comes."""

    def __init__(self, home: Home) -> None:
        self._master, slave = os.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        streams = dict.fromkeys(("stdin", "stdout", "stderr"), slave)
        env = os.environ | {"TERM": "xterm-256color"}
        self.process = psutil.Popen(home.command("top"), start_new_session=True, env=env, **streams)
        os.close(slave)
        self._seen = b""
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        with contextlib.suppress(OSError):  # it has ended
            while part := os.read(self._master, 65536):
                self._seen += part

    def shows(self, text: str) -> "Top":
        """Wait until it has written a text since the last key."""
        wait_for(lambda: text.encode() in self._seen, every_s=0.002)
        return self

    def press(self, key: str, text: str) -> None:
        """Press a key, and wait for a text."""
        self._seen = b""
        os.write(self._master, key.encode())
        self.shows(text)

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(WAIT_S)
        os.close(self._master)


class Web:
    """A `clew web`, and one browser's session with it."""

    def __init__(self, home: Home) -> None:
        command = home.command("web", "--listen", "127.0.0.1:0")
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
        self.process = psutil.Popen(command, **streams)
        line = self.process.stdout.readline()
        found = re.search(r"http://\S+", line)
        assert found, line
        self._home, self.link = home, found[0]
        self.host = urlsplit(self.link).netloc
        self._cookie = self._prefix = ""

    def open(self) -> "Web":
        """Open a session, with the link."""
        connection, answer = self._ask(urlsplit(self.link).path)
        self._cookie = answer.headers["set-cookie"].partition(";")[0]
        self._prefix = answer.headers["location"].rstrip("/")
        connection.close()
        return self

    def another_link(self) -> str:
        """Return a link for another browser."""
        command = self._home.command("web", "--link")
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    def page(self, path: str = "/") -> bytes:
        """Return a page."""
        connection, answer = self._ask(self._prefix + path)
        with contextlib.closing(connection):
            assert answer.status == 200, (path, answer.status)
            return answer.read()

    def stay(self, path: str = "/") -> None:
        """Keep a page open as a browser does: after a message it is fetched again, and rests twice as long."""
        told = threading.Event()

        def listen() -> None:
            with contextlib.suppress(OSError, http.client.HTTPException):  # the server has ended
                _, messages = self._ask(f"{self._prefix}/events")
                while line := messages.readline():
                    if line.startswith(b"data:"):
                        told.set()

        def refresh() -> None:
            with contextlib.suppress(OSError, http.client.HTTPException):
                while told.wait(WAIT_S):
                    told.clear()
                    began = time.monotonic()
                    self.page(path)
                    time.sleep(min(REST_S_MAX, 2 * (time.monotonic() - began)))

        self.page(path)
        for each in (listen, refresh):
            threading.Thread(target=each, daemon=True).start()

    def _ask(self, path: str) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        connection = http.client.HTTPConnection(self.host, timeout=WAIT_S)
        connection.request("GET", path, headers={"Cookie": self._cookie})
        return connection, connection.getresponse()

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(WAIT_S)
        self.process.stdout.close()


@contextmanager
def herald(home: Home) -> Iterator[psutil.Popen]:
    """A `clew herald` that is ready, beside the block."""
    command = home.command("herald", "--listen", "127.0.0.1:0")
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    with psutil.Popen(command, **streams) as one:
        try:
            line = one.stdout.readline()
            assert "herald.ready" in line, line
            yield one
        finally:
            one.terminate()


@contextmanager
def top(home: Home, text: str) -> Iterator[Top]:
    """A `clew top` that shows a text, beside the block."""
    with contextlib.closing(Top(home)) as one:
        yield one.shows(text)


@contextmanager
def web(home: Home) -> Iterator[Web]:
    """A `clew web` with a session, beside the block."""
    with contextlib.closing(Web(home)) as one:
        yield one.open()


@contextmanager
def all_views(home: Home, text: str, path: str) -> Iterator[None]:
    """All of them beside the block: `clew top` shows a text, a page is open."""
    with ExitStack() as stack:
        stack.enter_context(top(home, text))
        stack.enter_context(web(home)).stay(path)
        stack.enter_context(herald(home))
        yield
