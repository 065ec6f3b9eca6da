"""What `clew herald` stores: each event counts once, and what was not acknowledged is sent again."""

import http.client
import json
import threading
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from clew_daemon.herald import alerts, messenger, notices, spools
from clew_daemon.herald.alerts import Alerts, DaemonHealth
from clew_daemon.herald.book import Book, BookError
from clew_daemon.herald.counters import MetricSeries
from clew_daemon.herald.folding import Folding, UnknownEventError
from clew_daemon.herald.messenger import Messenger
from clew_daemon.herald.sending import AddressError, Delivery, read_addresses
from clew_daemon.herald.server import Answers, MetricsServer
from clew_daemon.herald.spools import Channels, MessageSpool, SpanSpool
from clew_daemon.inbox.leftovers import Left
from clew_daemon.reading.client import Address
from clew_daemon.reading.follow import StreamEvent
from clew_shared.config.tables import NotifySettings
from clew_shared.ledger import Cursor
from clew_shared.record import events as ev
from clew_shared.record.codec import encode
from clew_shared.record.daemon_events import GoalForgotten
from clew_shared.record.spec import Spec

GOAL = "say-hello-1a2b"
ON = NotifySettings().on
LIFE = [
    ev.GoalAccepted(at=1.0, goal_id=GOAL, spec=Spec(description="Say hello")),
    ev.WorkerStarted(at=2.0, epoch=1, agent="default"),
    ev.ActionAllowed(at=3.0, epoch=1, tool="run_cmd", args={}, signature="s"),
    ev.ActionFinished(at=4.0, of=3, result="success", outcome="o"),
    ev.GoalBlocked(at=5.0, reason="asked", question="Which name?"),
]
ALLOWED = MetricSeries("clew_actions_total", ("allowed", "success"))


def seen(events, first=1):
    return [StreamEvent(n, GOAL, e.kind, encode(e)) for n, e in enumerate(events, first)]


def take(book, events, after, channels=("a", "b"), since=0.0):
    folding = Folding(book, book.counters(), ON, since=since)
    book.store(folding.page(events, Cursor(after)), channels, spans=True)
    return folding


@pytest.fixture
def path(tmp_path):
    return tmp_path / "herald.db"


@pytest.fixture
def book(path):
    with_channels = Book.open(path)
    Channels(with_channels.database).configure({"a": "line 1", "b": "line 2", "otlp": "OTLP"})
    yield with_channels
    with_channels.close()


def test_counters_goals_and_cursor_are_those_of_the_last_page_when_it_is_opened_again(path, book):
    take(book, seen(LIFE), 5)
    book.close()
    again = Book.open(path)
    assert again.cursor == Cursor(5)
    assert again.counters().values == {ALLOWED: 1}
    assert again.statuses() == {"blocked": 1}
    assert again.unsettled()[GOAL].question == "Which name?"
    again.close()


def test_a_page_that_cannot_be_stored_leaves_nothing_behind(book):
    page = Folding(book, book.counters(), ON).page(seen(LIFE), Cursor(5))
    page.spans[0].name = "\ud800"  # cannot be encoded
    with pytest.raises(ValueError, match="surrogates"):
        book.store(page, ["a"], spans=True)
    assert book.cursor is None
    assert book.counters().values == {}
    assert book.unsettled() == {}
    assert MessageSpool(book.database, Channels(book.database)).due(0.0) == []


def test_an_event_of_a_later_clew_is_not_passed_over(book):
    later = StreamEvent(6, GOAL, "new_kind", b'{"kind":"new_kind"}')
    with pytest.raises(UnknownEventError, match="event 6"):
        take(book, [*seen(LIFE), later], 6)
    assert book.cursor is None


def test_a_goal_that_waits_for_a_person_is_told_after_an_hour(book):
    folding = take(book, seen([LIFE[0], ev.GoalWaiting(at=5.0, reason="who?")]), 2)
    found = folding.overdue(Cursor(2), 4000.0).notices
    assert [notice.kind for notice in found] == ["waiting_long"]


def test_purging_a_goal_lowers_its_gauge_and_no_counter(book):
    ended = [*LIFE, ev.GoalEnded(at=6.0, status="completed")]
    take(book, seen(ended), 6)
    gone = GoalForgotten(goal=GOAL, status="completed")
    take(book, [StreamEvent(7, "", gone.kind, encode(gone))], 7)
    assert book.statuses() == {}
    assert book.counters().values == {ALLOWED: 1}


def test_in_quiet_hours_messages_wait_and_afterwards_outdated_ones_are_dropped(book, monkeypatch):
    now = datetime.now().astimezone()
    take(book, seen(LIFE), 5, ["a"])
    spool = MessageSpool(book.database, Channels(book.database))
    sent, still_blocked = [], [True]

    def send(notice, _repeated):
        sent.append(notice.seq)
        return Delivery()

    def look(until):
        monkeypatch.setattr(messenger, "quiet_until", lambda *_: until)
        one = Messenger(spool, {"a": send}, {"a": "x"}, "on", lambda _: not still_blocked[0])
        return one.send_due("a")

    assert look(now + timedelta(seconds=100)) > 0
    assert (sent, spool.due(now.timestamp() + 99)) == ([], [])
    [waiting] = spool.due(now.timestamp() + 100)
    spool.hold(waiting, 0.0)
    look(None)
    assert sent == [5]
    take(book, seen([ev.GoalStarted(at=6.0), LIFE[4]], 6), 7, ["a"])
    still_blocked[0] = False
    look(None)
    assert (sent, spool.next_due("a")) == ([5], None)


def test_a_message_about_a_full_disk_needs_no_disk(book):
    sent = []

    def send(notice, _repeated):
        sent.append(notice.title)
        return Delivery()

    spool = MessageSpool(book.database, Channels(book.database))
    sender = Messenger(spool, {"a": send, "b": send}, {"a": "x", "b": "y"}, "", lambda _: False)
    sender.send_unrecorded(notices.ledger_trouble(1.0, "full"))
    assert sent == ["clew: the disk is full"] * 2


def test_a_channel_that_does_not_answer_holds_up_no_other(book):
    take(book, seen(LIFE), 5)
    arrived, never = threading.Event(), threading.Event()

    def hang(_notice, _repeated):
        never.wait(30)
        return Delivery()

    def arrive(_notice, _repeated):
        arrived.set()
        return Delivery()

    spool = MessageSpool(book.database, Channels(book.database))
    labels = {"a": "x", "b": "y"}
    Messenger(spool, {"a": hang, "b": arrive}, labels, "", lambda _: False).begin()
    assert arrived.wait(10)
    never.set()


def test_each_channel_gets_a_message_once_and_keeps_it_until_it_is_acknowledged(book):
    take(book, seen(LIFE), 5)
    spool = MessageSpool(book.database, Channels(book.database))
    first, second = spool.due(10.0)
    assert (first.channel, second.channel) == ("a", "b")
    assert first.notice == second.notice
    spool.sending(first)
    assert [message.maybe_sent for message in spool.due(10.0)] == [True, False]
    spool.sent(first)
    spool.sending(second)
    spool.failed(second, 10.0, "no connection", maybe_sent=False)
    assert spool.due(10.0) == []
    [again] = spool.due(10.0 + spools.BACKOFF_MAX_S)
    assert (again.channel, again.maybe_sent) == ("b", False)


def test_events_before_the_first_herald_bring_no_message_but_a_blocked_goal_does(book):
    ended = [LIFE[0], ev.GoalEnded(at=2.0, status="failed")]
    folding = take(book, seen(ended), 2, since=100.0)
    other = [StreamEvent(seq, "other", e.kind, e.body) for seq, _, _, e in _rows(seen(LIFE, 3))]
    page = folding.page(other, Cursor(7))
    assert page.notices == []
    book.store(page, ["a"], spans=True)
    overdue = folding.overdue(Cursor(7), 101.0)
    assert [(notice.goal, notice.kind) for notice in overdue.notices] == [("other", "blocked")]
    book.store(overdue, ["a"], spans=True)
    assert folding.overdue(Cursor(7), 102.0).notices == []


def _rows(events):
    return [(event.seq, event.goal, event.kind, event) for event in events]


def test_another_ledger_changes_goals_and_no_counter_and_tells_nothing_twice(book):
    take(book, seen(LIFE), 5)
    folding = Folding(book, book.counters(), ON)
    book.store(folding.rebuilt(seen(LIFE), Cursor(5)), ["a"], spans=True)
    assert book.counters().values == {ALLOWED: 1}
    assert folding.overdue(Cursor(5), 9.0).notices == []
    book.store(folding.rebuilt(seen(LIFE[:4]), Cursor(4)), ["a"], spans=True)
    assert book.statuses() == {"queued": 1}


def test_messages_and_spans_that_wait_are_bounded_and_what_is_dropped_is_counted(book, monkeypatch):
    monkeypatch.setattr(spools, "MESSAGES_MAX", 2)
    monkeypatch.setattr(spools, "SPANS_MAX", 3)
    blocked = [LIFE[4].model_copy(update={"question": f"{n}?"}) for n in range(5)]
    actions = [*LIFE[2:4]] * 5
    numbered = [e.model_copy(update={"of": 8 + n}) if n % 2 else e for n, e in enumerate(actions)]
    take(book, seen([*LIFE[:2], *blocked, ev.GoalStarted(), *numbered]), 18, ["a"])
    channels = Channels(book.database)
    messages, spans = MessageSpool(book.database, channels), SpanSpool(book.database, channels)
    [first] = messages.due(0.0)
    messages.failed(first, 0.0, "no connection", maybe_sent=False)
    spans.failed(0.0, "HTTP 503")
    health = {one.channel: one for one in channels.health()}
    assert (health["a"].waiting, health["a"].dropped) == (2, 3)
    assert (health["otlp"].waiting, health["otlp"].dropped) == (3, 2)
    assert health["otlp"].error == "HTTP 503"
    spans.sent(spans.first()[0])
    assert {one.channel: one.failing_since for one in channels.health()}["otlp"] is None


def test_a_copy_in_memory_leaves_the_book_as_it_is(path, book):
    take(book, seen(LIFE[:2]), 2)
    copy = Book.copied(path)
    take(copy, seen(LIFE[2:], 3), 5)
    assert copy.counters().values == {ALLOWED: 1}
    assert book.cursor == Cursor(2)
    copy.close()


def test_a_file_that_is_no_book_is_refused(path):
    path.write_text("something else, and quite a lot of it\n" * 100)
    with pytest.raises(BookError, match="move it away"):
        Book.open(path)


def test_a_daemon_that_is_down_is_told_once_and_only_if_it_was_up(book, monkeypatch):
    monkeypatch.setattr(alerts, "DOWN_S", 0.0)
    up = DaemonHealth("ok", (1.0,), (1, 0), 0.1)
    answers = iter(["gone", up, "gone", "gone", up, "gone"])
    monkeypatch.setattr(alerts, "ask_health", lambda _: next(answers))
    told = []
    watch = Alerts(lambda: Address(Path("none")), Left, book, ON, told.append)
    counts = []
    for _ in range(6):
        watch.look()
        counts.append(len(told))
    assert counts == [0, 0, 1, 1, 1, 2]
    assert {notice.kind for notice in told} == {"daemon_down"}


def test_a_full_or_slow_disk_is_told_once(book, monkeypatch):
    states = [("ok", 0), ("full", 0), ("full", 0), ("ok", 0), ("ok", 1), ("ok", 2)]
    answers = iter(DaemonHealth(state, (1.0,), (5, slow), 0.1) for state, slow in states)
    monkeypatch.setattr(alerts, "ask_health", lambda _: next(answers))
    told = []
    watch = Alerts(lambda: None, Left, book, ON, told.append)
    for _ in states:
        watch.look()
    assert [notice.title for notice in told] == ["clew: the disk is full", "clew: the disk is slow"]


def test_a_rejected_goal_file_is_told_once_and_not_one_from_before(book, monkeypatch):
    monkeypatch.setattr(alerts, "ask_health", lambda _: "gone")
    files = [{"name": "old.md", "rejected": True, "reason": "?"}]
    told = []

    def look(book):
        Alerts(lambda: None, lambda: Left(tuple(files)), book, ON, told.append).look()

    look(book)
    files += [
        {"name": "new.md", "rejected": True, "reason": "line 2: `agent` names an unknown agent"},
        {"name": "a", "rejected": False, "reason": "a folder"},
    ]
    look(book)
    look(book)
    [notice] = told
    assert notice.title == "clew: a goal file was rejected"
    assert "new.md: line 2: `agent` names an unknown agent" in notice.body
    assert "old.md" not in notice.body


def test_an_address_shows_nothing_but_its_line_and_scheme(tmp_path):
    file = tmp_path / "urls"
    file.write_text("# mine\n\nslack://T0KEN/secret/\n")
    file.chmod(0o600)
    [address] = read_addresses(file)
    assert address.label == "line 3 (slack://)"
    assert "T0KEN" not in repr(address) + address.channel
    file.chmod(0o640)
    with pytest.raises(AddressError, match="chmod 600"):
        read_addresses(file)


def test_the_server_answers_its_own_host_name_and_get_alone():
    server = MetricsServer(
        "127.0.0.1", 0, Answers(lambda _: (b"x 1\n", "text/plain"), lambda: "no")
    )
    server.begin()
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


def test_the_health_file_names_no_channel_by_its_digest(book, tmp_path):
    from clew_daemon.herald.health_file import HealthFile

    HealthFile(tmp_path / "herald.json").write(Channels(book.database).health())
    found = json.loads((tmp_path / "herald.json").read_text())
    assert [one["label"] for one in found["channels"]] == ["line 1", "line 2", "OTLP"]
    assert "channel" not in found["channels"][0]
