"""The attacks on `clew web` that docs/web.md lists, against a real server and a real daemon."""

import contextlib
import json
import os
import socket
import subprocess
import sys
from urllib.parse import urlsplit

import pytest
from web_server import WebServer

pytestmark = pytest.mark.xdist_group("web_attacks")  # which share a server
NOBODY = 65534


def test_a_web_socket_is_not_opened(calm):
    upgrade = {
        "connection": "Upgrade",
        "upgrade": "websocket",
        "sec_websocket_key": "dGhlIHNhbXBsZSBub25jZQ==",
        "sec_websocket_version": "13",
    }
    assert calm.page("/events", **upgrade).status == 403


def test_a_link_opens_one_session_and_says_so_when_it_is_used_again(calm):
    path = urlsplit(calm.link).path
    again = calm.get(path, cookie=None)
    assert again.status == 401
    assert "used already" in again.body
    assert "clew web --link" in again.body
    assert "set-cookie" not in again.headers
    wrong = calm.get("/link/wrong", cookie=None)
    assert (wrong.status, "not valid" in wrong.body) == (401, True)


def test_without_a_session_there_is_nothing_to_read(calm):
    for path in ("/", f"{calm.prefix}/", f"{calm.prefix}/static/clew.css", "/goals/x"):
        assert calm.get(path, cookie=None).status == 401


def test_the_cookie_of_a_server_on_another_port_opens_nothing(calm):
    name, _, value = calm.cookie.partition("=")
    assert name == f"clew-{calm.port}"
    assert calm.get("/", cookie=f"clew-{calm.port + 1}={value}").status == 401


def test_the_browser_keeps_the_cookie_from_scripts_and_other_servers_of_this_machine(calm):
    answer = calm.get(urlsplit(calm.clew.cli("web", "--link").strip()).path)
    kept = answer.headers["set-cookie"].split("; ")[1:]
    assert sorted(kept) == ["HttpOnly", f"Path={answer.headers['location']}", "SameSite=Strict"]
    assert len(answer.headers["location"]) > 16


@pytest.mark.parametrize(
    "path",
    [
        "/static/../../../../etc/passwd",
        "/static/%2e%2e/%2e%2e/rendering.py",
        "/static/..%2f..%2frules.py",
        "/static//etc/passwd",
        "/goals/..%2f..%2fconfig.toml",
        "/goals/x/actions/999999999999999999999999",
    ],
)
def test_a_path_leads_to_no_file_but_the_static_ones(calm, path):
    answer = calm.page(path)
    assert answer.status == 404
    assert "root:" not in answer.body


def test_a_huge_head_is_refused_and_the_server_goes_on(calm):
    with contextlib.suppress(OSError):
        assert calm.get("/", x_large="x" * 200_000).status in (400, 431)
    assert calm.page().status == 200


def test_a_body_that_is_too_long_is_refused_before_it_is_read(calm):
    too_long = {"content_length": str(50 << 20), "content_type": "application/json"}
    answer = calm.request(
        "POST", f"{calm.prefix}/change/pause", origin=f"http://{calm.host}", **too_long
    )
    assert answer.status == 413


def test_clients_that_never_finish_their_head_are_closed_and_take_no_place(calm):
    slow = [socket.create_connection(("127.0.0.1", calm.port)) for _ in range(300)]
    try:
        for one in slow:
            with contextlib.suppress(ConnectionError):  # a newer one has its place
                one.sendall(b"GET / HTTP/1.1\r\nHost: ")
        assert calm.page().status == 200
        for one in slow:
            one.settimeout(60)
            with contextlib.suppress(ConnectionResetError):
                assert one.recv(1 << 16)[:12] in (b"", b"HTTP/1.1 408", b"HTTP/1.1 400")
    finally:
        for one in slow:
            one.close()


def test_no_page_can_be_put_into_a_frame_or_run_a_script_of_its_content(calm):
    for answer in (calm.page(), calm.get("/", cookie=None), calm.page("/nowhere")):
        policy = answer.headers["content-security-policy"]
        assert "frame-ancestors 'none'" in policy
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert "server" not in answer.headers
        assert not [name for name in answer.headers if name.startswith("access-control")]


WORKER = """
import json, socket, sys
port, path = int(sys.argv[1]), sys.argv[2]
def http():
    with socket.create_connection(("127.0.0.1", port), 5) as sock:
        sock.sendall(f"GET / HTTP/1.1\\r\\nHost: 127.0.0.1:{port}\\r\\nConnection: close\\r\\n\\r\\n".encode())
        return sock.recv(4096).decode().split()[1]
def link():
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(5)
        sock.connect(path)
        try:
            sock.sendall(b'{"jsonrpc": "2.0", "id": 1, "method": "link", "params": {}}\\n')
        except BrokenPipeError:
            pass  # a refusal may come before the request is read
        return sock.recv(4096).decode().strip()
for attempt in (http, link):
    try:
        print(attempt.__name__, attempt())
    except OSError as error:
        print(attempt.__name__, type(error).__name__)
"""


@pytest.mark.parametrize("mode", ["best_effort", "off"])
def test_a_worker_gets_neither_a_page_nor_a_link(clew, served, mode):
    clew.configure({"sandbox.mode": mode})
    clew.start()
    web = served()
    script = clew.home / "workspaces" / "attack"
    script.mkdir(parents=True)
    (script / "worker.py").write_text(WORKER)
    asked = f"{sys.executable} -I worker.py {web.port} {clew.home}/run/web.sock"
    goal = clew.completed(
        f"---\nworkspace: {script}\n---\n# Attack\n- [ ] Attack\n  ```sh\n  {asked}\n  ```\n"
    )
    [action] = json.loads(clew.cli("history", goal, "--json"))["actions"]
    said = dict(line.split(" ", 1) for line in action["output"].splitlines())
    assert said["http"] in ("401", "ConnectionRefusedError")
    assert "/link/" not in said["link"]
    if mode == "off":  # nothing but the check of the peer is in its way
        assert "workers may not use" in said["link"]


@pytest.mark.skipif(os.getuid() != 0, reason="only root can act as another user")
def test_another_user_gets_neither_a_page_nor_a_link(calm):
    web, path = calm, calm.clew.home / "run" / "web.sock"
    assert path.stat().st_mode & 0o777 == 0o600
    become = f"import os; os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})\n"
    as_nobody = WORKER.replace("port, path", f"import encodings.idna\n{become}port, path", 1)
    program = [sys.executable, "-I", "-c", as_nobody, str(web.port), str(path)]
    done = subprocess.run(program, capture_output=True, text=True, check=True)
    said = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    assert said["http"] == "401"
    assert said["link"] == "PermissionError"


def test_a_service_prints_no_link_and_gives_one_when_asked(clew):
    server = WebServer(clew)
    clew.configure({"web.listen": "127.0.0.1:0"})
    process, printed = clew.beside(clew.command("web"), INVOCATION_ID="0" * 32)
    try:
        clew.until((clew.home / "run" / "web.sock").exists, "the socket for links")
        link = clew.cli("web", "--link").strip()
        server.port = urlsplit(link).port
        assert server.get(urlsplit(link).path).status == 303
    finally:
        process.terminate()
        assert process.wait(60) == 0
    with printed:
        assert printed.read() == ""


def test_a_unix_socket_for_a_reverse_proxy_is_its_users_alone(clew, tmp_path):
    path = tmp_path / "web.sock"
    clew.configure({"web.hosts": ["clew.example"]})
    process, printed = clew.beside(clew.command("web", "--listen", f"unix:{path}"))
    try:
        link = printed.readline()
        assert path.stat().st_mode & 0o777 == 0o600
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(str(path))
            token = link.strip().rpartition("/")[2]
            sock.sendall(f"GET /link/{token} HTTP/1.1\r\nHost: clew.example\r\n\r\n".encode())
            assert sock.recv(4096).startswith(b"HTTP/1.1 303")
    finally:
        process.terminate()
        process.wait(60)
        printed.close()
    assert not path.exists()
