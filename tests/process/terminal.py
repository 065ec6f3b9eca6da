"""A program on a real terminal: what it prints there, and what is typed at its questions."""

import fcntl
import os
import re
import select
import signal
import struct
import subprocess
import termios
import time

from harness import DEADLINE_S

EOF = "\x04"
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07|\r")


class Terminal:
    """A program whose output is a terminal of a size, and its input too where it `asks`; what arrived there."""

    def __init__(self, argv, env, columns, rows=40, *, asks=False):
        self.master, slave = os.openpty()
        self.raw = b""
        self.resize(columns, rows)
        stdin = slave if asks else subprocess.DEVNULL
        self.process = subprocess.Popen(argv, stdin=stdin, stdout=slave, stderr=slave, env=env)
        os.close(slave)

    def resize(self, columns, rows):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        if self.raw:
            self.process.send_signal(signal.SIGWINCH)  # it is not its controlling terminal

    @property
    def text(self):
        return CONTROL.sub("", self.raw.decode(errors="replace"))

    def read(self, within_s=0.05):
        """Take in what has arrived; False at the end."""
        if not select.select([self.master], [], [], within_s)[0]:
            return True
        try:
            part = os.read(self.master, 65536)
        except OSError:  # EIO: the program has closed the other end
            return False
        self.raw += part
        return bool(part)

    def until(self, pattern, after=0):
        """Wait until something is shown, after some characters of what was shown before."""
        deadline = time.monotonic() + DEADLINE_S
        while not re.search(pattern, self.text[after:]):
            assert time.monotonic() < deadline, f"{pattern!r} did not appear:\n{self.text}"
            assert self.read(), f"it ended without {pattern!r}:\n{self.text}"

    def type(self, text):
        os.write(self.master, text.encode())

    def end(self):
        """Read to the end; the exit code."""
        deadline = time.monotonic() + DEADLINE_S
        while self.read():
            assert time.monotonic() < deadline, self.text
        return self.process.wait(DEADLINE_S)

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.master)


def on_terminal(argv, env, width, *, answers=(), code=0):
    """Run a program with a terminal of that width; what arrives there, `answers` are typed once a text is shown."""
    one = Terminal(argv, env, width, asks=bool(answers))
    try:
        seen = 0
        for asked, typed in answers:
            one.until(re.escape(asked), after=seen)
            seen = len(one.text)
            one.type(typed)
        assert one.end() == code, one.text
        return one.raw.decode().replace("\r\n", "\n")
    finally:
        one.close()
