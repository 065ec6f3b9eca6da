"""What is read from the event streams of coding agents.

`recorded/agents` has what the real CLIs printed, cut to what matters.
"""

from pathlib import Path

import pytest

from clew_worker.bridge.clis import CLIS
from clew_worker.bridge.clis.claude import ClaudeReader
from clew_worker.bridge.clis.cli import (
    NOTHING_USED,
    TOOLS,
    Fault,
    SessionStarted,
    ThoughtReported,
    ToolsOffered,
    TurnEnded,
    UsageReported,
    unexpected_tools,
)
from clew_worker.bridge.clis.codex import CodexReader
from clew_worker.bridge.clis.opencode import OpencodeReader

RECORDED = Path(__file__).parent / "recorded" / "agents"
READERS = {"codex": CodexReader, "claude": ClaudeReader, "opencode": OpencodeReader}
NOW = 1_795_431_100.0
"""2026-11-23 10:51:40 UTC, when the limits were recorded."""

USED = UsageReported(200, 20, 80, 0.000896)
"""What the first turn of each recorded session had used before it was resumed."""


def read(cli, name, used=NOTHING_USED):
    reader = CLIS[cli].reader(used)
    reader._clock = lambda: NOW
    lines = next(RECORDED.glob(f"{cli}/{name}.*")).read_bytes().splitlines()
    return [event for line in lines for event in reader.feed(line)]


def of(events, kind):
    return [event for event in events if isinstance(event, kind)]


def spent(events):
    reports = of(events, UsageReported)
    cost = sum(report.cost_usd or 0 for report in reports)
    sums = [sum(getattr(r, part) for r in reports) for part in ("input", "output", "cached")]
    return UsageReported(*sums, round(cost, 6))


@pytest.mark.parametrize("cli", READERS)
def test_a_turn_has_a_session_thoughts_usage_and_an_end(cli):
    events = read(cli, "turn")
    assert isinstance(events[0], SessionStarted)
    assert of(events, ThoughtReported) == [ThoughtReported("It is done.")]
    assert events[-1] == TurnEnded(ok=True, message="It is done.")
    cost = 0.001792 if cli == "claude" else 0
    assert spent(events) == UsageReported(400, 40, 160, cost)


@pytest.mark.parametrize("cli", READERS)
def test_a_resumed_session_reports_its_name_and_what_the_new_turn_used(cli):
    events = read(cli, "resumed", USED)
    assert events[0].id
    assert events[-1] == TurnEnded(ok=True, message="Second.")
    cost = 0.000896 if cli == "claude" else 0
    assert spent(events) == UsageReported(200, 20, 80, cost)


FAULTS = {
    ("codex", "wrong-key"): Fault("", "login"),
    ("codex", "no-key"): Fault("", "login"),
    ("codex", "too-many-requests"): Fault("exceeded retry limit"),
    ("codex", "server-error"): Fault("currently experiencing"),
    ("codex", "unknown-model"): Fault("model: m not found", "lasting"),
    ("codex", "no-quota"): Fault("Quota exceeded", "lasting"),
    ("codex", "too-long"): Fault("ran out of room", "session"),
    ("codex", "unknown-session"): Fault("no rollout found", "session"),
    ("codex", "unknown-flag"): Fault("Unknown feature flag", "lasting"),
    ("codex", "no-server"): Fault("failed to initialize"),
    ("claude", "wrong-key"): Fault("", "login"),
    ("claude", "no-login"): Fault("", "login"),
    ("claude", "too-many-requests"): Fault("Request rejected (429)"),
    ("claude", "server-error"): Fault("API Error: 500"),
    ("claude", "unknown-model"): Fault("issue with the selected model", "lasting"),
    ("claude", "no-credit"): Fault("Credit balance is too low", "lasting"),
    ("claude", "too-long"): Fault("Prompt is too long", "session"),
    ("claude", "unknown-session"): Fault("No conversation found", "session"),
    ("opencode", "wrong-key"): Fault("", "login"),
    ("opencode", "unknown-model"): Fault("model: m not found", "lasting"),
    ("opencode", "unknown-session"): Fault("Session not found", "session"),
}


@pytest.mark.parametrize(("cli", "name"), FAULTS)
def test_a_fault_is_known_for_what_it_is(cli, name):
    expected = FAULTS[cli, name]
    *_, found, end = read(cli, name)
    assert end == TurnEnded(ok=False, message=found.message)
    assert found.kind == expected.kind
    assert expected.message in found.message


@pytest.mark.parametrize(
    ("cli", "name", "resets_at"),
    [
        ("codex", "limit-today", 1_795_438_260.0),
        ("codex", "limit-next-week", 1_795_863_060.0),
        ("codex", "limit-without-time", None),
        ("claude", "limit", 1_795_438_737.0),
    ],
)
def test_a_usage_limit_is_reported_with_the_time_at_which_it_ends(cli, name, resets_at):
    limits = [fault for fault in of(read(cli, name), Fault) if fault.kind == "limit"]
    assert limits
    assert {limit.resets_at for limit in limits} == {resets_at}


def test_a_request_that_claude_repeats_is_no_fault():
    assert read("claude", "server-error-retried")[-1] == TurnEnded(ok=True, message="x")


def test_claude_offers_the_tools_of_clew_alone():
    [offered] = of(read("claude", "turn"), ToolsOffered)
    assert set(offered.names) == set(TOOLS)
    assert offered.servers == {"clew": "connected"}
    assert unexpected_tools(CLIS["claude"], offered) == ()


def test_a_tool_that_is_not_clews_is_unexpected_but_for_the_harmless_ones():
    offered = ToolsOffered((*TOOLS, "Bash", "exec"), {})
    assert unexpected_tools(CLIS["claude"], offered) == ("Bash", "exec")
    assert unexpected_tools(CLIS["codex"], offered) == ("Bash",)


def test_claude_without_the_server_of_clew_says_so():
    [offered] = of(read("claude", "no-server"), ToolsOffered)
    assert (offered.names, offered.servers) == ((), {"clew": "failed"})


def test_a_limit_that_claude_names_far_ahead_or_in_the_past_is_not_believed():
    for resets_at in (NOW - 60, NOW + 1e9, "soon", None, True):
        reader = ClaudeReader(clock=lambda: NOW)
        info = f'{{"status":"rejected","resetsAt":{str(resets_at).lower()}}}'
        reader.feed(f'{{"type":"rate_limit_event","rate_limit_info":{info}}}'.encode())
        [found, _] = reader.feed(
            b'{"type":"result","is_error":true,"result":"5-hour limit reached"}'
        )
        assert found == Fault("5-hour limit reached", "limit")


ODD = [
    b"",
    b"not JSON",
    b"{",
    b"[1, 2]",
    b"null",
    b'{"type": 7}',
    b'{"type": "no.such.event", "item": {}}',
    b'{"type": null, "error": null}',
    b'{"type": "item.completed", "item": "text"}',
    b'{"type": "item.completed", "item": {"type": "agent_message", "text": 5}}',
    b'{"type": "assistant", "message": {"content": [1, null, {"text": {}}], "usage": []}}',
    b'{"type": "system", "subtype": "other", "tools": 5}',
    b'{"type": "text", "part": []}',
    b'{"type": "thread.started", "thread_id": {}}',
    b"\xff\xfe\x00",
    b"[" * 100_000,
    b'{"type": ' * 50_000,
]


@pytest.mark.parametrize("cli", READERS)
def test_a_line_of_unknown_form_says_nothing(cli):
    assert [line[:80] for line in ODD if READERS[cli]().feed(line) != ()] == []


@pytest.mark.parametrize("usage", ["null", "[]", '{"input_tokens": -5}', '{"input_tokens": 1e400}'])
def test_odd_counts_of_tokens_are_no_usage(usage):
    line = f'{{"type":"turn.completed","usage":{usage}}}'
    assert CodexReader().feed(line.encode()) == (TurnEnded(ok=True, message=""),)
