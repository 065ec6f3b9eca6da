"""The rules of `clew herald`: what is counted, what becomes a span, and what a person is told, once."""

import http.client
import random
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from prometheus_client import CollectorRegistry

from clew_daemon.herald import channels, notices
from clew_daemon.herald.channels import Book, Messages
from clew_daemon.herald.herald import Herald, Metrics, MetricsServer
from clew_daemon.herald.notices import Sender, Situation, UndeliveredError
from clew_shared.config.tables import NotifySettings
from clew_shared.ledger.errors import LedgerCorrupt, LedgerUnwell, NewEvent
from clew_shared.ledger.reader import Cursor, EventRow, Reader
from clew_shared.record import events as ev
from clew_shared.record.codec import encode
from clew_shared.record.fold import apply
from clew_shared.record.spec import Prompt, Spec
from clew_shared.record.state import State

GOAL = "say-hello-1a2b"
NOTIFY = NotifySettings()
ACCEPTED = ev.GoalAccepted(at=1.0, goal_id=GOAL, spec=Spec(description="Say hello", name="hello"))
QUESTION = ev.GoalBlocked(at=9.0, reason="the agent asked", question="Which name?")
ALLOWED = ev.ActionAllowed(at=4.0, epoch=1, tool="run_cmd", args={"cmd": "ls"}, signature="s")
FINISHED = ev.ActionFinished(at=5.0, of=4, result="success", outcome="o", head="a b")
REFUSED = ev.ActionBlocked(
    at=6.0, epoch=1, tool="run_cmd", args={}, signature="s", reason="repetition", message="no"
)
TURN = ev.Reflected(
    at=8.0, iteration=1, tokens=9, tokens_in=7, tokens_out=2, llm_s=1.5, prompt=Prompt(model="m@h")
)
STARTED = ev.WorkerStarted(at=3.0, epoch=1, agent="default")
EXITED = ev.WorkerExited(at=10.0, epoch=1, reason="finished")
CRASHED = ev.WorkerExited(at=8.0, epoch=1, reason="exit 3", crash=True)
ENDED = ev.GoalEnded(at=9.5, status="completed")
LIFE = [ACCEPTED, ev.GoalStarted(at=2.0), STARTED, ALLOWED, FINISHED, REFUSED, TURN, ENDED, EXITED]


def state_of(*events):
    state = State(goal_id=GOAL)
    for seq, event in enumerate(events, 1):
        apply(state, event, seq)
    return state


def rows(events, first=1):
    return [EventRow(n, GOAL, n, e.kind, encode(e), b"") for n, e in enumerate(events, first)]


def spans_of(events):
    spans = pytest.importorskip("clew_daemon.herald.spans", exc_type=ImportError)
    trace = spans.Trace(GOAL)
    return list(filter(None, (trace.advance(event, n) for n, event in enumerate(events, 1))))


def test_ends_are_told_with_what_proves_nothing_and_a_cancelled_goal_is_not():
    state = state_of(ACCEPTED)
    ended = ev.GoalEnded(status="completed", verified=True, passed_before=("lint", "Unit"))
    body = notices.of_end(state, ended).body
    assert "but checks lint, Unit passed before any work: they prove nothing" in body
    assert notices.of_end(state, ENDED).title.endswith(" is completed, unverified")
    assert notices.of_end(state, ev.GoalEnded(status="failed")).kind == "failed"
    assert notices.of_end(state, ev.GoalEnded(status="cancelled")) is None


class Recorded:
    """A ledger with a book, and what a channel was sent; `fails` is why the channel takes nothing."""

    def __init__(self, ledger, folder):
        self.ledger = ledger
        self.path = folder / "herald.json"
        self.sent = []
        self.fails = ""

    async def add(self, *events, goal=GOAL):
        await self.ledger.append([NewEvent(goal, e.kind, encode(e)) for e in events])[1]

    def send(self, notice):
        if self.fails:
            raise UndeliveredError(self.fails)
        self.sent.append(notice)

    def look(self, now=100.0, notify=NOTIFY):
        """Let a new herald look once; return the kinds of the messages that it sends."""
        self.sent.clear()
        seen = Situation(SimpleNamespace())
        with Reader.open(self.ledger.path) as reader:
            seen.load(reader)
        seen.look(now)
        sender = Sender("a", "line 1", self.send)
        self.channel = Messages(sender, Book(self.path), self.ledger.path, notify, seen)
        self.channel.step()
        return [notice.kind for notice in self.sent]


@pytest.fixture
def recorded(ledger, tmp_path):
    return Recorded(ledger, tmp_path)


async def test_events_before_the_first_herald_bring_no_message_but_a_blocked_goal_does(recorded):
    await recorded.add(*LIFE)
    other = ACCEPTED.model_copy(update={"goal_id": "other"})
    await recorded.add(other, QUESTION, goal="other")
    assert recorded.look() == ["blocked"]
    assert recorded.sent[0].goal == "other"
    assert recorded.look() == []


async def test_each_end_is_told_once_and_each_block_again_after_it_was_lifted(recorded):
    await recorded.add(ACCEPTED)
    assert recorded.look() == []
    await recorded.add(QUESTION)
    assert (recorded.look(), recorded.look()) == (["blocked"], [])
    await recorded.add(ev.GoalRequeued(by="feedback"), QUESTION)
    assert (recorded.look(), recorded.look()) == (["blocked"], [])
    await recorded.add(ENDED)
    assert (recorded.look(), recorded.look()) == (["completed"], [])


async def test_what_was_not_taken_is_sent_again_and_the_book_says_since_when(recorded):
    await recorded.add(ACCEPTED)
    recorded.look()
    await recorded.add(ENDED)
    recorded.fails = "no connection"
    assert recorded.look() == []
    record = recorded.channel.record
    assert (record.label, record.error) == ("line 1", "no connection")
    assert record.failing_since
    recorded.fails = ""
    assert recorded.look() == ["completed"]
    assert recorded.channel.record.failing_since is None


@pytest.mark.parametrize(
    ("quiet", "hours"),
    [("22:00-07:00", ["06:59", "22:00"]), ("09:00-17:00", ["09:00", "16:59"]), ("", [])],
)
def test_quiet_hours_have_their_beginning_and_not_their_end_also_over_midnight(quiet, hours):
    times = ("06:59", "07:00", "08:59", "09:00", "16:59", "17:00", "21:59", "22:00")
    assert [now for now in times if channels.is_quiet(now, quiet)] == hours


async def test_ends_that_nobody_is_told_of_cost_no_write_each(recorded, monkeypatch):
    written = []
    monkeypatch.setattr(channels, "write_whole", lambda *_: written.append(1))
    recorded.look()
    before = len(written)
    for number in range(20):
        goal = f"goal-{number}"
        accepted = ACCEPTED.model_copy(update={"goal_id": goal})
        await recorded.add(accepted, ev.GoalEnded(status="cancelled"), goal=goal)
    recorded.channel.step()
    assert recorded.channel.record.cursor.startswith("40-")
    assert len(written) == before


@pytest.mark.parametrize("error", [LedgerUnwell, LedgerCorrupt])
async def test_what_was_counted_while_the_ledger_failed_is_seen_afterwards_but_for_damage(
    recorded, monkeypatch, error
):
    monkeypatch.setattr(notices, "ask_health", lambda _: {"ledger": "ok"})
    herald = Herald(SimpleNamespace(ledger=recorded.ledger.path, socket=None), Book(recorded.path))
    await recorded.add(ACCEPTED)
    herald.look()
    await recorded.add(QUESTION)
    with monkeypatch.context() as failing:
        failed = error(recorded.ledger.path, "cannot be used", "repair the disk")
        failing.setattr(Situation, "advance", Mock(side_effect=failed))
        with pytest.raises(error):
            herald.look()
    herald.look()
    assert (f"goal {GOAL}" in herald._situation.conditions) == (error is LedgerUnwell)


async def test_in_quiet_hours_messages_wait_and_what_no_longer_holds_is_not_told(
    recorded, monkeypatch
):
    await recorded.add(ACCEPTED)
    recorded.look()
    await recorded.add(QUESTION)
    monkeypatch.setattr(channels, "is_quiet", lambda *_: True)
    assert recorded.look() == []
    await recorded.add(ev.GoalRequeued(by="feedback"), ENDED)
    assert recorded.look() == []
    monkeypatch.setattr(channels, "is_quiet", lambda *_: False)
    assert recorded.look() == ["completed"]


def test_a_daemon_that_is_down_is_told_once_and_only_if_it_was_up(tmp_path, monkeypatch):
    monkeypatch.setattr(notices, "DOWN_S", 0.0)
    up, full = {"ledger": "ok"}, {"ledger": "full"}
    answers = iter(["gone", up, "gone", "gone", up, full, full])
    monkeypatch.setattr(notices, "ask_health", lambda _: next(answers))
    told, counts = [], []
    seen = Situation(SimpleNamespace(socket=SimpleNamespace(to_start="clew run")))
    sender = Sender("a", "line 1", told.append)
    channel = Messages(sender, Book(tmp_path / "book"), tmp_path / "no ledger", NOTIFY, seen)
    for now in range(7):
        seen.ask(float(now + 1))
        seen.look(now)
        channel.step()
        counts.append(len(told))
    assert counts == [0, 0, 1, 1, 1, 2, 2]
    assert [notice.kind for notice in told] == ["daemon_down", "ledger_full"]


def test_counters_are_those_of_the_events_and_stay_in_the_book(tmp_path):
    book = Book(tmp_path / "book")
    counting = Metrics(book, Situation(SimpleNamespace()))
    events = [*LIFE, ev.CheckFinished(name="c", passed=False), CRASHED]
    counting.take(rows(events), Cursor(11, b"x"))
    assert Metrics(Book(tmp_path / "book"), Situation(SimpleNamespace())).values == {
        ("clew_actions", "allowed", "success"): 1,
        ("clew_actions", "blocked", "blocked"): 1,
        ("clew_refusals", "repetition"): 1,
        ("clew_checks", "failed"): 1,
        ("clew_llm_tokens", "input", "default"): 7,
        ("clew_llm_tokens", "output", "default"): 2,
        ("clew_worker_restarts", "exit 3"): 1,
    }


def test_a_call_of_a_model_says_whose_it_is_and_what_was_served():
    prompt = Prompt(model="gpt@api.openai.com:443", served="gpt-2026")
    [call] = spans_of([ACCEPTED, STARTED, TURN.model_copy(update={"prompt": prompt})])
    assert call.name == "chat gpt"
    said = {name.removeprefix("gen_ai."): value for name, value in call.attributes.items()}
    assert (said["provider.name"], said["response.model"]) == ("openai", "gpt-2026")


def test_no_two_spans_of_a_life_have_one_id_however_it_goes():
    chosen = random.Random(7)
    kinds = [*LIFE[1:], ev.GoalRequeued(by="retry"), ev.ActionInterrupted(of=4, reason="killed")]
    for _ in range(200):
        ids = [span.context.span_id for span in spans_of([ACCEPTED, *chosen.choices(kinds, k=30)])]
        assert len(ids) == len(set(ids))


def test_the_server_answers_its_own_host_name_and_get_alone():
    server = MetricsServer("127.0.0.1", 0, CollectorRegistry(), lambda: "no")
    try:
        asked = [("GET", "/metrics", None), ("GET", "/readyz", None), ("GET", "/../etc", None)]
        asked += [("GET", "/metrics", "evil.example"), ("POST", "/metrics", None)]
        assert [answered(server.port, *one) for one in asked] == [200, 503, 404, 421, 501]
    finally:
        server.close()


def answered(port, method, path, host):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request(method, path, headers={"Host": host} if host else {})
    try:
        return connection.getresponse().status
    finally:
        connection.close()
