"""The LLM server goes wrong: each fault costs a bounded time and memory, has its words, and is got over."""

import contextlib
import functools
import gzip
import json
import socket
import struct
import sys

import pytest
from hostile_llm import HostileLlm, http

from surroundings import bystander, resident_mb, sound, unharmed

GOAL = "---\nagent: {name}\nmax_iterations: 60\n---\n# Think\n"
WORKER_MB_MAX = 400


def chunk(data):
    return b"%x\r\n" % len(data) + data + b"\r\n"


def stall(_, released):
    released.wait(60)


def stall_within(sock, released):
    sock.sendall(http(b'{"choices": [', length=10_000))
    released.wait(60)


def drip(sock, released):
    sock.sendall(http(length=100_000))
    while not released.wait(0.2):
        sock.sendall(b" ")


def reset(sock, _):
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.sendall(b"HTTP/1.1 200 OK\r\ncontent-")
    sock.close()


def close_half_way(sock, _):
    sock.sendall(http(b'{"choices": [{"message": {"content": "I wa', length=10_000))


def half_a_stream(sock, _):
    sock.sendall(
        http(b'data: {"choices": [{"delta": {"content": "I', content_type="text/event-stream")
    )


def endless(sock, released, status="200 OK"):
    sock.sendall(http(status=status, length=-1, transfer_encoding="chunked"))
    while not released.is_set():
        sock.sendall(chunk(b"[" * 65536))


def endless_error(sock, released):
    endless(sock, released, "500 Internal Server Error")


def endless_header(sock, released):
    sock.sendall(b"HTTP/1.1 200 OK\r\nx-")
    while not released.is_set():
        sock.sendall(b"x" * 65536)


@functools.cache
def gigabyte_of_zeros():
    return gzip.compress(bytes(1 << 30), 1)


def bomb(sock, _, status="200 OK"):
    sock.sendall(http(gigabyte_of_zeros(), status, content_encoding="gzip"))


def bomb_as_error(sock, _):
    bomb(sock, _, "500 Internal Server Error")


def no_http(sock, _):
    sock.sendall(b"\x16\x03\x01 this is no HTTP\r\n\r\n")


def answers(body, status="200 OK", **headers):
    def answer(sock, _):
        sock.sendall(http(body, status, **headers))

    return answer


FAULTS = {
    "stall": stall,
    "stall_within": stall_within,
    "drip": drip,
    "reset": reset,
    "close_half_way": close_half_way,
    "half_a_stream": half_a_stream,
    "endless": endless,
    "endless_error": endless_error,
    "endless_header": endless_header,
    "bomb": bomb,
    "bomb_as_error": bomb_as_error,
    "no_http": no_http,
    "empty": answers(b""),
    "no_choices": answers(b'{"choices": []}'),
    "wrong_types": answers(b'{"choices": {"0": 1}, "usage": [1]}'),
    "number": answers(b"5"),
    "error_in_200": answers(b'{"error": {"message": "the model is loading"}}'),
    "deep": answers(b"[" * 200_000),
    "deep_error": answers(b"[" * 200_000, "500 Internal Server Error"),
    "no_utf8": answers(b'{"choices": [{"message": {"content": "\xff\xfe"}}]}'),
    "50_mb": answers(b'{"choices": [{"message": {"content": "' + b"x" * (50 << 20) + b'"}}]}'),
    "500": answers(b"oops", "500 Internal Server Error"),
    "429": answers(b'{"error": {"message": "slow down"}}', "429 Too Many Requests"),
    "429_soon": answers(b'{"error": {}}', "429 Too Many Requests", retry_after=30),
    "429_date": answers(
        b"{}", "429 Too Many Requests", retry_after="Fri, 31 Dec 9999 23:59:59 GMT"
    ),
    "429_absurd": answers(b"{}", "429 Too Many Requests", retry_after="1" + "0" * 30),
    "429_odd": answers(b"{}", "429 Too Many Requests", retry_after="soon \x1b[31m"),
}


TELLING = ("reset", "endless_error", "wrong_types", "429_soon")


def suffer(clew, servers):
    """Give each server a goal of its own, all at once; their ids by fault, and what memory their agents took."""
    clew.start()
    goals, peaks = {}, {}
    for fault in servers:
        goals[fault] = clew.submit(GOAL.format(name=f"at_{fault}"), f"{fault}.md")
    other = bystander(clew)
    pids = {fault: clew.agent_pid(goal) for fault, goal in goals.items()}

    def all_wait():
        for fault, pid in pids.items():
            peaks[fault] = max(peaks.get(fault, 0), resident_mb(pid))
        return all(clew.seen("goal.waiting", goal=goal) for goal in goals.values())

    clew.until(all_wait, "that all wait")
    unharmed(clew, other)
    return goals, peaks


def got_over(make_clew, faults):
    """Hold every fault against what must come of it."""
    clew = make_clew({
        "daemon.max_workers": len(faults) + 1,
        "restart.backoff_initial_s": 0.05,
        "restart.backoff_max_s": 0.2,
    })  # fmt: skip
    with contextlib.ExitStack() as stack:
        servers = {fault: stack.enter_context(HostileLlm(FAULTS[fault])) for fault in faults}
        for fault, server in servers.items():
            clew.model(server, f"at_{fault}", mode="json", timeout_s=3)
        goals, peaks = suffer(clew, servers)
        for fault, goal in goals.items():
            reason = clew.seen("goal.waiting", goal=goal)[0]["reason"]
            sys.stdout.write(f"{fault}: {peaks[fault]} MB: {reason[:150]}\n")
            assert servers[fault].base_url in reason
            assert len(reason) < 1000
            assert reason.isprintable(), reason
            assert peaks[fault] < WORKER_MB_MAX
        if "429_soon" in goals:
            shown = clew.clew("status", goals["429_soon"])
            assert "continue now: clew continue" in shown
            clew.ask("resume", goal=goals["429_soon"])  # a person does not wait
        for server in servers.values():
            server.get_well()
        for goal in goals.values():
            clew.wait("goal.completed", goal=goal)
    assert not clew.seen("worker.crashed")
    assert not clew.seen("worker.killed")
    sound(clew)


def test_telling_faults_of_the_server_are_waited_for_and_got_over(make_clew):
    got_over(make_clew, TELLING)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("part", range(4))
def test_every_fault_of_the_server_is_waited_for_and_got_over(make_clew, part):
    got_over(make_clew, [*FAULTS][part::4])


def refuses(status, message="", **headers):
    return answers(json.dumps({"error": {"message": message}}).encode(), status, **headers)


MENDED_BY_A_PERSON = {
    "401": (refuses("401 Unauthorized", "bad key"), "api_key"),
    "404_model": (refuses("404 Not Found", "model m not found"), "model"),
    "404_path": (answers(b"<html>", "404 Not Found"), "base_url"),
    "402": (answers(b"{}", "402 Payment Required"), "quota"),
    "429_quota": (refuses("429 Too Many Requests", "insufficient_quota"), "quota"),
    "redirect": (None, "base_url"),
    "html": (answers(b"<html><h1>Welcome!</h1></html>", content_type="text/html"), "base_url"),
}


def test_faults_that_a_person_must_mend_block_with_what_to_do_and_go_on_when_mended(make_clew):
    clew = make_clew({"daemon.max_workers": 8})
    with contextlib.ExitStack() as stack:
        elsewhere = stack.enter_context(HostileLlm(answers(b"{}")))
        goals = {}
        servers = {}
        for fault, (misbehave, _) in MENDED_BY_A_PERSON.items():
            leads = answers(b"{}", "307 Temporary Redirect", location=elsewhere.base_url)
            servers[fault] = stack.enter_context(HostileLlm(misbehave or leads))
            clew.model(servers[fault], f"at_{fault}", mode="json", timeout_s=3)
        clew.start()
        for fault in servers:
            goals[fault] = clew.submit(GOAL.format(name=f"at_{fault}"), f"{fault}.md")
        other = bystander(clew)
        for fault, (_, hint) in MENDED_BY_A_PERSON.items():
            blocked = clew.wait("goal.blocked", goal=goals[fault])
            assert hint in blocked["reason"], blocked
            assert servers[fault].base_url in blocked["reason"]
            report = clew.report(goals[fault])
            assert hint in report
            assert f"clew continue {goals[fault]}" in report
            assert servers[fault].asked == 1  # nobody asks again what only a person can mend
        assert elsewhere.asked == 0
        unharmed(clew, other)
        for fault, goal in goals.items():
            servers[fault].get_well()
            clew.ask("resume", goal=goal)
            clew.wait("goal.completed", goal=goal)
    sound(clew)
