"""Ending all that a process has started, in a process of its own."""

import subprocess
import sys

FORKING = """
import os, sys, time
from clew_worker.sandbox import kernel
from clew_worker.sandbox.kernel import descendants, end_descendants

kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
started, start = os.pipe()
if os.fork() == 0:
    os.setsid()
    os.write(start, b"!")
    while True:  # a child goes on, and its parent ends: the pid always changes
        if os.fork():
            os._exit(0)
        time.sleep(0.002)
os.read(started, 1)
end_descendants(60, alone=False)
print(descendants(os.getpid()))
"""


def printed(script: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_process_that_forks_all_the_time_is_ended():
    assert printed(FORKING) == "[]"
