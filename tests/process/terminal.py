"""A program on a real terminal: what it prints there, and what is typed at its questions."""

import contextlib
import fcntl
import os
import select
import struct
import subprocess
import termios
import time

from harness import DEADLINE_S

EOF = "\x04"


def on_terminal(argv, env, width, *, answers=(), code=0):
    """Run a program with a terminal of that width for its output; what arrives there.

    `answers` are pairs of what must be shown and what is typed then. With answers, the terminal is its input, too.
    """
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
    shown, deadline = b"", time.monotonic() + DEADLINE_S
    stdin, left, seen = slave if answers else subprocess.DEVNULL, list(answers), 0
    with subprocess.Popen(argv, stdin=stdin, stdout=slave, stderr=slave, env=env) as process:
        os.close(slave)
        with contextlib.suppress(OSError):  # EIO: the other end is closed
            while select.select([master], [], [], max(0, deadline - time.monotonic()))[0]:
                if not (part := os.read(master, 65536)):
                    break
                shown += part
                if left and left[0][0].encode() in shown[seen:]:
                    seen = len(shown)
                    os.write(master, left.pop(0)[1].encode())
        os.close(master)
        assert process.wait(DEADLINE_S) == code, shown.decode()
    assert not left, shown.decode()
    return shown.decode().replace("\r\n", "\n")
