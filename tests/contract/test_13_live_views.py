"""Section 13: the stream of events and the web view."""

import contextlib
import http.client
import json
import re
import socket
from urllib.parse import urlsplit

import pytest
from harness import DEADLINE_S


@pytest.fixture
def web(clew):
    clew.start()
    server, printed = clew.beside(clew.command("web", "--listen", "127.0.0.1:0"))
    with printed:
        yield urlsplit(re.search(r"http://\S+", printed.readline())[0])
        server.terminate()
        server.wait(DEADLINE_S)


def ask(link, path, method="GET", **headers):
    connection = http.client.HTTPConnection(link.hostname, link.port, timeout=DEADLINE_S)
    with contextlib.closing(connection):
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        answer.read()
        return answer


def test_the_web_view_refuses_foreign_hosts_sessions_and_sites(web):
    assert ask(web, "/").status == 401
    assert ask(web, "/", Host="evil.example").status == 421
    opened = ask(web, f"{web.path}?{web.query}" if web.query else web.path)
    cookie = opened.getheader("Set-Cookie").partition(";")[0]
    home = ask(web, "/", Cookie=cookie)
    assert home.status in {200, 303}
    assert home.getheader("Access-Control-Allow-Origin") is None
    foreign = ask(web, "/", "POST", Cookie=cookie, Origin="http://evil.example")
    assert foreign.status == 403


def test_a_link_works_once(web):
    path = f"{web.path}?{web.query}" if web.query else web.path
    assert ask(web, path).getheader("Set-Cookie")
    assert ask(web, path).status == 401


def test_the_stream_gives_events_in_order_from_a_cursor(clew):
    clew.start().completed("# Do\n- [ ] it\n  ```sh\n  true\n  ```\n")
    with socket.socket(socket.AF_UNIX) as stream:
        stream.settimeout(DEADLINE_S)
        stream.connect(str(clew.home / "run" / "control.sock"))
        request = {"jsonrpc": "2.0", "id": 1, "method": "follow", "params": {"after": "0-"}}
        stream.sendall(json.dumps(request).encode() + b"\n")
        lines, events = stream.makefile(), []
        assert json.loads(lines.readline())["result"]["reset"] is False
        while not any(one["event"]["kind"] == "goal_ended" for one in events):
            events += json.loads(lines.readline())["params"]["events"]
    assert [one["seq"] for one in events] == sorted({one["seq"] for one in events})
    assert {"goal_accepted", "action_allowed", "action_finished"} <= {
        one["event"]["kind"] for one in events
    }
