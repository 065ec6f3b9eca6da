"""Who may speak to the daemon, where its socket may lie, and what nonsense on it costs."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil
import pytest
from harness import DEADLINE_S, until

from clew_daemon.host.folders import FolderError, make_private
from clew_daemon.reading.client import ask

OTHER_UID = 12345
LINE_BYTES_MAX = 1 << 20

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to be somebody else")

ASK = """
import contextlib, os, socket, sys
os.setgroups([]); os.setgid({uid}); os.setuid({uid})
sock = socket.socket(socket.AF_UNIX)
sock.connect(sys.argv[1])
with contextlib.suppress(BrokenPipeError):  # refused already
    sock.sendall(b'{{"jsonrpc":"2.0","id":1,"method":"ping","params":{{}}}}\\n')
print(sock.makefile().readline())
"""


AS_OTHER = ["setpriv", f"--reuid={OTHER_UID}", f"--regid={OTHER_UID}", "--clear-groups"]
IMPORTS = "import clew_daemon.app.lifecycle, clew_worker.cell.nursery"
READABLE = [*AS_OTHER, sys.executable, "-P", "-c", IMPORTS]


def socket_of(clew):
    return clew.home / "run" / "control.sock"


def connect(clew):
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(str(socket_of(clew)))  # waits its turn, where one with a deadline would be refused
    sock.settimeout(DEADLINE_S)
    return sock


def answer(sock):
    with sock.makefile("rb") as lines:
        return json.loads(lines.readline())


@contextlib.contextmanager
def open_to_all(clew):
    """Undo for a while what keeps others out by mode, so that only the question of who calls is left."""
    before = {folder: folder.stat().st_mode & 0o7777 for folder in socket_of(clew).parents}
    closed = {folder: mode for folder, mode in before.items() if not mode & 0o001}
    socket_of(clew).chmod(0o666)
    try:
        for folder, mode in closed.items():
            folder.chmod(mode | 0o011)
        yield
    finally:
        for folder, mode in closed.items():
            folder.chmod(mode)


@root_only
def test_another_user_is_refused_even_where_the_modes_would_let_them_in(clew):
    clew.start()
    ask = [sys.executable, "-c", ASK.format(uid=OTHER_UID), str(socket_of(clew))]
    with open_to_all(clew):
        done = subprocess.run(
            ask, capture_output=True, text=True, timeout=DEADLINE_S, check=False, cwd="/"
        )
    assert f"user {OTHER_UID} is not the daemon's user" in done.stdout, done.stderr
    assert f"user {OTHER_UID}" in clew.wait("control.refused")["reason"]
    assert clew.answers()


@pytest.mark.parametrize("mode", ["off", "best_effort", "enforce"])
def test_a_worker_is_refused_also_when_it_has_left_its_process_behind(clew, mode):
    connects = f"""
        hello()
        def ask():
            sock = socket.socket(socket.AF_UNIX)
            try:
                sock.connect({str(socket_of(clew))!r})
            except OSError as error:  # the sandbox is in the way
                say([repr(error)])
                done()
                os._exit(0)
            try:
                sock.sendall(b'{{"jsonrpc":"2.0","id":1,"method":"ping","params":{{}}}}\\n')
            except BrokenPipeError:
                pass  # refused already
            return sock
        ours, theirs = socket.socketpair()
        if os.fork() == 0:
            asked = ask()
            socket.send_fds(theirs, [b"x"], [asked.fileno()])
            os._exit(0)
        _, (fd,), _, _ = socket.recv_fds(ours, 1, 1)
        os.wait()
        say([ask().makefile().readline(), socket.socket(fileno=fd).makefile().readline()])
        done()
    """
    clew.configure({"sandbox.mode": mode})  # "off": only the socket's own question stands between
    agent = clew.agent("caller", connects, own_tools=True)
    goal = clew.start().submit(f"---\nagent: {agent}\n---\nCall\n")
    (heard,) = clew.said(goal)
    refused = "workers may not use the control socket"
    assert all(refused in line or (mode != "off" and "Error" in line) for line in heard), heard


# -- where it may lie


def test_a_folder_that_others_may_write_is_refused_with_what_to_do(tmp_path):
    folder = tmp_path / "run"
    for mode in (0o770, 0o702):
        folder.mkdir(exist_ok=True)
        folder.chmod(mode)
        with pytest.raises(FolderError, match="chmod 700"):
            make_private(folder)


@root_only
def test_a_folder_or_a_link_of_another_user_is_refused(tmp_path):
    (tmp_path / "theirs").mkdir(mode=0o700)
    os.chown(tmp_path / "theirs", OTHER_UID, OTHER_UID)
    (tmp_path / "mine").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "mine")
    os.chown(tmp_path / "link", OTHER_UID, OTHER_UID, follow_symlinks=False)
    for name in ("theirs", "link"):
        with pytest.raises(FolderError, match=rf"belongs to user .*\({OTHER_UID}\)"):
            make_private(tmp_path / name)


def test_a_daemon_says_in_a_line_why_it_does_not_use_its_run_folder(clew):
    (clew.home / "run").mkdir()
    (clew.home / "run").chmod(0o777)
    said = clew.clew("run", code=78)
    assert "can be written by others" in said
    assert "Traceback" not in said


def test_a_stale_socket_is_replaced_and_what_is_none_is_named(clew):
    (clew.home / "run").mkdir(mode=0o700)
    stale = socket.socket(socket.AF_UNIX)
    stale.bind(str(socket_of(clew)))
    stale.close()
    clew.start()
    assert clew.answers()
    clew.stop()
    socket_of(clew).mkdir()
    assert "where the control socket should be" in clew.clew("run", code=78)


# -- what comes over it


def test_huge_lines_half_lines_and_many_clients_cost_little_and_the_daemon_answers(clew):
    clew.start()
    memory = psutil.Process(clew.daemon.pid).memory_info
    before = memory().rss
    with contextlib.ExitStack() as stack:
        for _ in range(20):  # half lines that stay open
            sock = stack.enter_context(connect(clew))
            sock.sendall(b'{"jsonrpc": "2.0", "id": 1, ' + b" " * 200_000)
        for _ in range(5):  # lines without an end
            sock = stack.enter_context(connect(clew))
            with contextlib.suppress(OSError):
                for _ in range(64):
                    sock.sendall(b"x" * LINE_BYTES_MAX)
            with contextlib.suppress(OSError):
                assert "over" in answer(sock)["error"]["message"]
        assert clew.answers()
    for _ in range(2000):
        connect(clew).close()
    clew.until(clew.answers, "an answer after two thousand clients")
    assert memory().rss - before < 100 << 20


# -- who asks


@root_only
def test_root_is_served_by_an_ordinary_users_daemon_that_cannot_see_root(tmp_path):
    """With hidepid=2 the daemon finds nothing in /proc about a process of root."""
    if subprocess.run(READABLE, capture_output=True, cwd="/", check=False).returncode:
        pytest.skip("an ordinary user cannot read the sources here")
    with tempfile.TemporaryDirectory(prefix="clew-") as name:
        os.chown(name, OTHER_UID, OTHER_UID)
        hidden = 'mount -t proc -o hidepid=2 proc /proc && exec "$@"'
        command = ["unshare", "--mount", "sh", "-c", hidden, "sh", *AS_OTHER]
        command += [sys.executable, "-P", "-m", "clew_daemon", "--home", f"{name}/home", "run"]
        env = {"PATH": os.environ["PATH"], "HOME": name, "PYTHONDONTWRITEBYTECODE": "1"}
        out = Path(tmp_path, "log")
        with out.open("wb") as log:
            daemon = subprocess.Popen(command, stdout=log, stderr=log, env=env, cwd="/")
        try:
            sock = Path(name, "home", "run", "control.sock")
            until(lambda: ask(sock, "ping"), "an answer", out.read_text)
        finally:
            daemon.terminate()
            daemon.wait(DEADLINE_S)


def test_a_link_in_the_place_of_the_socket_is_not_followed(clew):
    (clew.home / "run").mkdir(mode=0o700)
    precious = clew.folder / "precious"
    precious.write_text("mine")
    socket_of(clew).symlink_to(precious)
    clew.clew("run", code=78)
    assert precious.read_text() == "mine"
