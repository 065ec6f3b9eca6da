"""A worker that takes all it can get: it meets its limits, and the others go on."""

import os
import subprocess
import sys

import pytest
from attack_life import ORDINARY_UID, Circumstances, Life

from clew_worker import sandbox

pytestmark = [
    pytest.mark.xdist_group("an ordinary user"),  # the kernel counts what is sent for all of theirs
    pytest.mark.skipif(sandbox.landlock.abi() == 0, reason="needs Landlock"),
]

GREEDY = """
import json, os, resource, signal, sys, time
found = {"descriptors": 0, "processes": 0, "memory_mb": 0}
try:
    while found["descriptors"] < 5000:
        os.dup(0)
        found["descriptors"] += 1
except OSError:
    os.closerange(3, 5000)
children = []
try:
    while found["processes"] < 400:
        child = os.fork()
        if child == 0:
            time.sleep(60)
            os._exit(0)
        children.append(child)
        found["processes"] += 1
except OSError:
    pass
for child in children:
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
try:
    with open("/dev/shm/greed", "wb") as file:
        while found["memory_mb"] < 1024:
            file.write(bytes(1 << 20))
            found["memory_mb"] += 1
except OSError:
    pass
found["core"] = resource.getrlimit(resource.RLIMIT_CORE)[0]
json.dump(found, open("found.json", "w"))
"""
HOARDER = """
    import socket
    hello()
    keep, sent = [], 0
    try:
        for _ in range(200):
            pair = socket.socketpair()
            pair[0].setblocking(False)
            keep.append(pair)
            for _ in range(4):
                socket.send_fds(pair[0], [b"x"], [0] * 200)
                sent += 200
    except OSError as error:
        say([sent, error.errno])
    notice("stop")
"""


def life(**config):
    uid = ORDINARY_UID if os.geteuid() == 0 else os.geteuid()
    return Life(Circumstances(uid, "pidns", network=True), {"hoarder": HOARDER}, **config)


def test_a_command_meets_the_limits_of_descriptors_processes_and_shared_memory():
    # in a process of its own: only one with a single thread may fork as `probe` does
    probe = "from clew_worker import sandbox; print(sandbox.probe().isolation)"
    if "pidns" not in subprocess.check_output([sys.executable, "-c", probe], text=True):
        pytest.skip("no namespaces here")
    with life(open_files=256, processes=100) as one:
        folder = one.workspace("executor")
        (folder / "greedy.py").write_text(GREEDY)
        found = one.perform("python -I greedy.py", folder)
    assert found["descriptors"] < 256
    assert found["processes"] < 100
    assert found["memory_mb"] <= 256
    assert found["core"] == 0


@pytest.mark.long
def test_descriptors_that_a_worker_sends_to_nobody_keep_no_other_worker_from_its_start():
    with life(open_files=1024) as one:
        hoarder = one.clew.submit("---\nagent: hoarder\n---\n# Hoarder\n", "hoarder.md")
        sent, _ = one.clew.said(hoarder)[0]
        assert sent >= 1000
        assert one.perform("echo '{}' > found.json", one.workspace("executor")) == {}
