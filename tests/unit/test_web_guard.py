"""Which requests `clew web` refuses, each beside one that is served; one-time links and their sessions."""

import pytest
from starlette.datastructures import Headers

from clew_daemon.web.guard import (
    LINK_S,
    LINKS_MAX,
    SESSIONS_MAX,
    Policy,
    Refusal,
    Sessions,
    served_hosts,
)

HOST = "127.0.0.1:8420"
POLICY = Policy(served_hosts("127.0.0.1", 8420, ["phone.lan"]))
JSON = {
    "content-type": "application/json",
    "content-length": "2",
    "origin": f"http://{HOST}",
    "sec-fetch-site": "same-origin",
}


def refused(method="GET", policy=POLICY, **headers):
    """The status of the refusal; 0 for a request that is served. A list gives a header several times."""
    given = {"host": HOST, **{k.replace("_", "-"): v for k, v in headers.items()}}
    pairs = [
        (name.encode(), value.encode())
        for name, values in given.items()
        if values is not None
        for value in (values if isinstance(values, list) else [values])
    ]
    refusal = policy.refusal(method, Headers(raw=pairs))
    return refusal.status if refusal else 0


def post(**changed):
    headers = {k.replace("-", "_"): v for k, v in JSON.items()} | changed
    return refused("POST", **headers)


@pytest.mark.parametrize(
    "host", [HOST, "localhost:8420", "[::1]:8420", "phone.lan", "phone.lan:8420"]
)
def test_a_known_host_is_served(host):
    assert refused(host=host) == 0


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8420",
        "127.0.0.1",
        "127.0.0.1:80",
        "localhost",
        "127.0.0.1:8420.evil.example",
        "phone.lan.evil.example",
        "",
        None,
        [HOST, "evil.example"],
        [HOST, HOST],
    ],
)
def test_any_other_host_is_421_whatever_it_resolves_to(host):
    assert refused(host=host) == 421


@pytest.mark.parametrize("site", ["cross-site", "same-site", "odd"])
def test_a_request_from_another_sites_page_is_refused_also_for_reading(site):
    assert refused(sec_fetch_site=site) == 403


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:9999"])
def test_a_foreign_origin_is_refused_also_for_reading(origin):
    assert refused(origin=origin) == 403
    assert post(origin=origin) == 403


def test_a_change_as_json_from_an_own_page_is_served():
    assert post() == 0
    assert post(content_type="application/json; charset=utf-8") == 0


@pytest.mark.parametrize(
    "changed",
    [
        {"origin": None},
        {"origin": [f"http://{HOST}", f"http://{HOST}"]},
        {"content_type": None},
        {"content_type": "application/x-www-form-urlencoded"},
        {"content_type": "multipart/form-data; boundary=x"},
        {"content_type": "text/plain"},
        {"content_type": "text/plain; application/json"},
    ],
    ids=str,
)
def test_a_change_in_any_other_form_is_refused(changed):
    assert post(**changed) == 403


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "PATCH", "CONNECT", "TRACE"])
def test_other_methods_are_not_used_so_that_no_preflight_succeeds(method):
    assert refused(method) == 405


def test_a_read_only_server_refuses_every_change():
    policy = Policy(POLICY.hosts, read_only=True)
    headers = {k.replace("-", "_"): v for k, v in JSON.items()}
    assert refused("POST", policy=policy, **headers) == 403
    assert refused(policy=policy) == 0


def why_not(sessions, token, now):
    """Why a link opens no session."""
    found = sessions.redeem(token, now)
    assert isinstance(found, Refusal)
    assert found.status == 401
    return found.reason


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
