"""Which requests `clew web` refuses, each beside one that is served; one-time links and their sessions."""

import pytest
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException

from clew_daemon.web.guard import LINK_S, LINKS_MAX, SESSIONS_MAX, Policy, Sessions, served_hosts

HOST = "127.0.0.1:8420"
POLICY = Policy(served_hosts("127.0.0.1", 8420, ["phone.lan"]))
FORM = "application/x-www-form-urlencoded"
JSON = {
    "content-type": "application/json",
    "content-length": "2",
    "origin": f"http://{HOST}",
    "sec-fetch-site": "same-origin",
}


def refused(method="GET", policy=POLICY, **headers):
    """The status of the refusal; 0 for a request that is served. A list gives a header several times, None none."""
    given = {"host": HOST, **(JSON if method == "POST" else {})}
    given |= {name.replace("_", "-"): value for name, value in headers.items()}
    pairs = [
        (name.encode(), value.encode())
        for name, values in given.items()
        if values is not None
        for value in (values if isinstance(values, list) else [values])
    ]
    try:
        policy.check(method, Headers(raw=pairs))
    except HTTPException as refusal:
        return refusal.status_code
    return 0


@pytest.mark.parametrize(
    ("status", "method", "header", "values"),
    [
        (0, "GET", "host", [HOST, "localhost:8420", "[::1]:8420", "phone.lan", "phone.lan:8420"]),
        (421, "GET", "host", ["evil.example", "evil.example:8420", "127.0.0.1", "127.0.0.1:80"]),
        (421, "GET", "host", [f"{HOST}.evil.example", "phone.lan.evil.example", "localhost", ""]),
        (421, "GET", "host", [None, [HOST, "evil.example"], [HOST, HOST]]),
        (403, "GET", "sec_fetch_site", ["cross-site", "same-site", "odd"]),
        (403, "GET", "origin", ["http://evil.example", "null", "http://127.0.0.1:9999"]),
        (403, "POST", "origin", ["http://evil.example", "null", "http://127.0.0.1:9999", None]),
        (403, "POST", "origin", [[f"http://{HOST}", f"http://{HOST}"]]),
        (0, "POST", "content_type", ["application/json", "application/json; charset=utf-8"]),
        (403, "POST", "content_type", [None, FORM, "multipart/form-data; boundary=x"]),
        (403, "POST", "content_type", ["text/plain", "text/plain; application/json"]),
    ],
)
def test_a_request_is_served_or_refused_by_its_headers(status, method, header, values):
    assert {str(one): refused(method, **{header: one}) for one in values} == {
        str(one): status for one in values
    }


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "PATCH", "CONNECT", "TRACE"])
def test_other_methods_are_not_used_so_that_no_preflight_succeeds(method):
    assert refused(method) == 405


def test_a_read_only_server_refuses_every_change():
    policy = Policy(POLICY.hosts, read_only=True)
    assert refused("POST", policy) == 403
    assert refused(policy=policy) == 0


def why_not(sessions, token, now):
    """Why a link opens no session."""
    with pytest.raises(HTTPException) as refused:
        sessions.redeem(token, now)
    assert refused.value.status_code == 401
    return refused.value.detail


def test_a_link_expires():
    sessions = Sessions()
    token = sessions.new_link(0.0)
    assert "expired" in why_not(sessions, token, LINK_S + 1)
    assert "used" in why_not(sessions, token, 1.0)


def test_links_and_sessions_are_bounded_and_the_oldest_is_dropped():
    sessions = Sessions()
    tokens = [sessions.new_link(0.0) for _ in range(LINKS_MAX + 1)]
    assert "not valid" in why_not(sessions, tokens[0], 1.0)
    first = sessions.redeem(tokens[1], 1.0)
    for _ in range(SESSIONS_MAX):
        sessions.redeem(sessions.new_link(0.0), 1.0)
    assert not sessions.knows(first)
