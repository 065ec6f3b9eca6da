"""A goal as people see it: in lists, as a tree, in the report, in questions, in a window, and as a timeline."""

import io
from types import SimpleNamespace

import pytest
from rich.console import Console

from clew_daemon.cli.commands import watch
from clew_daemon.cli.commands.watch import LiveView, PlainView
from clew_daemon.herald.notices import of_block, of_end
from clew_daemon.publish.report import render, write
from clew_daemon.reading import goal_list, queries
from clew_daemon.reading.describe import advance, stands
from clew_daemon.reading.goal_list import left_out_lines, needs_lines, overview
from clew_daemon.reading.goal_text import goal_lines
from clew_daemon.record import store
from clew_daemon.record.doing import Work, now_view
from clew_daemon.record.goal_status import goal_detail, status_view
from clew_daemon.record.timeline import TimelineFold, timeline
from clew_daemon.web.pages import environment
from clew_shared.core import questions
from clew_shared.record import events as ev
from clew_shared.record.identity import Identity
from clew_shared.record.model import Action, Goal, GoalStatus
from clew_shared.record.moment import iso, local
from clew_shared.record.spec import Spec
from clew_shared.record.state import State
from clew_shared.views.publish import HistoryFold, action_view

AT = 1_790_000_000.0


def text(lines):
    return ["".join(text for text, _ in line).rstrip() for line in lines]


def drawn(agent, **known):
    detail = goal_detail(agent.state, AT) | known
    return text(goal_lines(detail, at=AT))


def listed(agent, **known):
    return text(overview([status_view(agent.state, AT) | known], at=AT))


def test_the_tree_tells_how_much_of_each_task_is_done(played):
    agent = played(["one", "two", "three"], ["four"])
    agent.core.complete_subtask(AT, success=True, failure="")
    lines = drawn(agent)
    assert "[>] task 0  33%" in lines
    assert "[ ] task 1  0%" in lines


def test_the_view_of_a_daemon_that_is_being_upgraded_is_drawn(agent):
    agent.core.complete_subtask(AT, success=False, failure="no compiler")
    detail = goal_detail(agent.state, AT)
    del detail["continued"]  # which 0.2.0 before it did not have
    assert "        failed once: no compiler" in text(goal_lines(detail, at=AT))


def test_what_a_goal_waits_for_is_told_in_local_time_with_how_to_go_on_now(agent):
    agent.core.emit(ev.GoalWaiting(at=AT, reason="the endpoint http://x/v1", until=AT + 60))
    lines = drawn(agent)
    until = f"(until {local(AT + 60)})"
    assert f"waits: the endpoint http://x/v1 {until}, since {local(AT)}" in lines
    assert f"    continue now: clew continue {agent.state.goal_id}" in lines
    assert f"waits for the endpoint http://x/v1 (until {local(AT + 60)})" in listed(agent)[1]


@pytest.mark.parametrize(("width", "lines"), [(120, 1), (80, 2), (40, 3)])
def test_a_list_has_its_columns_in_any_width_whatever_is_said_of_a_goal(played, width, lines):
    made = {"label": "checked", "why": "as before", "accepted": "person"}
    agent = played(spec={"agent": "a-slow-one"})
    known = {"id": "g" * 34, "status": "completed", "verified": True, "proof": made}
    rows = text(overview([status_view(agent.state, AT) | known], AT, width))[lines:]
    *cells, now = " ".join(rows).split(maxsplit=6)
    assert (len(rows), cells[1], cells[-1]) == (lines, "completed", "a-slow-one")
    assert now == "goal (checked only: as before; accepted by a person)"
    assert max(map(len, rows[:-1]), default=0) <= width


@pytest.mark.parametrize("status", ["blocked", "failed"])
def test_a_list_has_title_and_reason_of_a_goal_that_stopped_and_cuts_no_step_off(played, status):
    step = f"the step `{'make all && ' * 40}true` failed (exit code 1)"
    known = {"status": status, "description": "Release " * 20, "reason": step}
    rows = overview([status_view(played().state, AT) | known], AT, 80)
    [shown] = [line.strip() for line in text(rows) if "the step" in line]
    assert "  Release Release " in shown
    assert shown.endswith(f"…: {step}")


def test_a_list_says_of_a_paused_goal_which_step_still_runs(agent):
    seq = agent.core.propose("run_cmd", {"cmd": "make"}, AT).seq
    agent.core.emit(ev.GoalWaiting(at=AT, reason="paused", paused=True))
    row = listed(agent, now=now_view(agent.state, Work(greeted=True)))[1]
    assert row.endswith(f": running for 0 s: #{seq} make, then waits until `clew continue`")


def test_goals_that_failed_are_named_beside_those_that_need_a_person(played):
    views = [status_view(played().state, AT) | {"status": one} for one in ("failed", "blocked")]
    told = text(needs_lines([view | {"needs_person": n > 0} for n, view in enumerate(views)]))
    assert [line.partition(":")[0] for line in told] == ["1 goal needs you", "1 goal failed"]


def test_goals_that_failed_are_counted_also_where_the_list_leaves_them_out(played):
    states = [played().state for _ in range(4)]
    for number, status in enumerate(("failed", "completed", "failed", "failed")):
        states[number].goal.status, states[number].goal_id = GoalStatus(status), f"g-{number}"
    shown, left_out = store.listed(states, 1)
    told = text([*left_out_lines(left_out), *needs_lines([*map(status_view, shown)], 2)])
    assert told == [
        "… 3 more goals that ended, 2 of them failed: clew status --all",
        "3 goals failed: g-3, …; `clew status g-3` shows why, and how to continue",
    ]
    older = text(
        left_out_lines({"left_out": 3, "left_out_failed": None})
    )  # a daemon of an earlier version
    assert older == ["… 3 more goals that ended: clew status --all"]


def test_a_goal_of_a_daemon_that_says_less_is_listed_all_the_same(agent, monkeypatch):
    view = status_view(agent.state, AT)
    del view["waiting"], view["since_gain"], view["proof"]
    answer = {"daemon": None, "goals": [view], "more": False, "left_out": 0}
    monkeypatch.setattr(queries, "ask", lambda *_, **__: answer)
    answered = queries.all_goals(SimpleNamespace(socket=None), None)
    assert answered["left_out_failed"] is None
    found = goal_list.listed(answered)
    assert " stopped " in text(overview(found, at=AT))[1]


def test_a_question_that_says_itself_what_to_do_gets_no_other_advice(agent):
    question = "Put it back, then `clew resume goal-1`."
    agent.core.block(ev.GoalBlocked(at=AT, reason="gone", question=question, gone=True))
    assert not [line for line in drawn(agent) if "feedback" in line]


def test_a_pipe_has_the_whole_question_on_lines_of_its_own(agent, capsys):
    asked = "The endpoint refused. " * 30 + "Then `clew resume goal-1`.\nOr cancel it."
    state = State(goal_id="goal-1")
    entry = advance(state, ev.GoalBlocked(reason="stuck", question=asked), 1)
    PlainView().tell([entry])
    first, second = asked.splitlines()
    assert capsys.readouterr().out.splitlines() == [
        "goal-1: blocked 0%: stuck",
        f"goal-1: question: {first}",
        f"goal-1: question: {second}",
    ]


def test_a_pipe_has_what_a_queued_goal_waits_for_once(agent, capsys, monkeypatch):
    monkeypatch.setattr(watch, "WAITS_S", 0.0)
    view, goal = PlainView(), status_view(agent.state, AT) | {"status": "queued"}
    for why in ("", "for a", "for a", "for a", "for b\x1b", "for b\x1b", ""):
        view.draw([goal | {"waiting": {"for": f"waits {why}", "until": None} if why else None}], "")
    said = ["waits for a", "waits for b\\x1b"]
    assert capsys.readouterr().out.splitlines() == [f"{goal['id']}: {one}" for one in said]


@pytest.mark.parametrize("size", [(80, 24), (60, 20), (40, 24)])
@pytest.mark.parametrize("count", [0, 1, 5, 29])
def test_questions_never_hide_the_goal_that_is_at_work(played, size, count):
    view = LiveView(several=True, foot="FOOT")
    view._console = Console(file=io.StringIO(), width=size[0], height=size[1])
    agents = [played() for _ in range(count + 1)]
    for number, one in enumerate(agents):
        one.state.goal_id = f"goal-with-a-rather-long-name-{number:04}"
    for one in agents[1:]:
        one.core.emit(ev.GoalBlocked(reason="stuck " * 50, question="Which way? " * 50))
    views = [status_view(one.state, AT) for one in agents]
    lines = view.standing(views, "the daemon has ended; it is waited for", AT)
    assert len(view._console.render_lines(view._group(lines))) < size[1]
    shown = text(lines)
    assert [line for line in shown if "name-0000  in_progress" in line]
    assert shown[-1] == "FOOT"
    assert not count or f"{count} goal{'s' * (count > 1)} need" in "".join(shown)


def report(agent):
    folded = HistoryFold()
    ended = [folded.take(seq, event) for seq, event in agent.take()]
    return render(agent.state, [action_view(e[0]) for e in ended if e], folded.loops)


def test_a_blocked_goal_asks_its_question_and_says_how_to_answer(played):
    agent = played(["one"], failure_limit=1, replan_limit=1)
    for level in ("task", "goal"):
        agent.complete(success=False, failure="no disk")
        agent.replan(level, ["another"])
    agent.complete(success=False, failure="no disk")
    text = report(agent)
    assert "## Your answer is needed" in text
    assert text.partition("## Loops")[0].count("no disk") == 1
    assert "clew feedback goal-1" in text
    assert "  - [#] another\n    failed once\n" in text
    assert "## Replaced by replans" in text


def test_keys_and_control_characters_do_not_come_through(agent):
    agent.run("curl -H 'Authorization: Bearer sk-abcdefghijklmnop1234567890'")
    agent.run("printf '\x1b[2J\x07'")
    text = report(agent)
    assert "abcdefghijklmnop1234567890" not in text
    assert "\x1b" not in text
    assert "\x07" not in text


@pytest.mark.parametrize("times", [1, 3])
def test_the_file_is_written_whole_and_leaves_no_other(agent, tmp_path, times):
    for n in range(times):
        path = write(tmp_path / "outbox", agent.state, f"text {n}\n")
    assert path.name == "goal-1.md"
    assert path.read_text() == f"text {times - 1}\n"
    assert list(path.parent.iterdir()) == [path]


PASSED = ev.CheckFinished(name="ok", passed=True)
ASKED = {"reason": "it fails without a.py", "question": "Since it fails without a.py: `clew proof`"}
PROVEN = [
    PASSED,
    ev.ProofMade(label="proven", world="w"),
    ev.GoalEnded(status="completed", verified=True),
]


def undone(scope):
    return [*PROVEN, ev.UndoStarted(scope=scope, first=1), ev.UndoFinished(of=1, restored=1)]


SITUATIONS = {  # what has happened, and how it stands and why, in the same words wherever people look
    "at work": ([], "in_progress", ""),
    "waiting": ([ev.GoalWaiting(reason="the endpoint")], "waiting", "the endpoint"),
    "looping": ([ev.GoalBlocked(reason="again", question="It did again.")], "blocked", "again"),
    "failed": ([ev.GoalEnded(status="failed", reason="ok fails")], "failed", "ok fails"),
    "proven": (PROVEN, "completed, proven", ""),
    "undone": (undone("goal"), "proven, then undone", ""),
    "one subtask": (undone("subtask"), "proven, then partly undone", ""),
    "unverified": ([ev.GoalEnded(status="completed")], "completed, unverified", ""),
    "changed tests": (
        [PASSED, ev.ProofMade(label="changed_tests", world="w"), ev.GoalBlocked(**ASKED)],
        "blocked",
        ASKED["reason"],
    ),
    "cancelled": ([ev.GoalEnded(status="cancelled", reason="by you")], "cancelled", "by you"),
    "paused": ([ev.GoalWaiting(reason="paused", paused=True)], "paused", ""),
    "no daemon": ([], "stopped", "continues when the daemon runs"),
}
PAGE = '{% import "parts.html" as part %}{{ part.standing(goal) }} {{ goal | now }}'


@pytest.mark.parametrize("situation", SITUATIONS)
def test_what_one_view_says_of_a_goal_all_say_in_the_same_words(played, situation):
    events, status, why = SITUATIONS[situation]
    agent = played(spec={"checks": {"ok": "true"}} if PASSED in events else {})
    for event in events:
        agent.core.emit(event)
    stopped = {"stopped": status == "stopped"}
    view = status_view(agent.state, AT) | stopped
    said = {
        "status, top": " ".join(listed(agent, **stopped)),
        "status of one": " ".join(drawn(agent, **stopped)),
        "watch": stands(view, AT).title,
        "web": environment().from_string(PAGE).render(goal=view),
        "report": report(agent) if events else f"{status} {why}",
    }
    notice = None
    if status == "blocked":
        notice = of_block(agent.state, died=False)
    elif agent.state.ended:
        notice = of_end(agent.state, next(e for e in events if isinstance(e, ev.GoalEnded)))
    if notice:
        said["message"] = f"{notice.title} {notice.body}".replace("needs you", "blocked")
    assert {name for name, text in said.items() if not (status in text and why in text)} == set()


MISSING = "Reading.\ncat: answer.txt: No such file or directory"


def test_a_question_says_what_was_tried_what_came_out_why_it_stopped_and_what_to_do(played):
    agent = played(["Find the answer"], ["Write it down"])
    while not agent.state.plan.replan_required:
        agent.fail("cat answer.txt", MISSING)
    lines = questions.stuck(agent.state).text.splitlines()
    cannot = "cat: answer.txt: No such file or directory"
    assert lines == [
        'Working on: 1.1 "Find the answer"',
        f"Tried last: `cat answer.txt`, which failed: {cannot}",
        "Stopped: the agent asked for `cat answer.txt` again 3 times after clew had refused it",
        "You can:",
        '- say what to do differently: `clew feedback goal-1 "…"`',
        "- when you have fixed the cause, continue: `clew continue goal-1`",
        "- end the goal: `clew cancel goal-1`",
    ]


CONTINUE = "clew continue a-1"
CANNOT_START = questions.ask(State(goal_id="a-1"), "cannot_start", fault="no model").text


def state(status, **values):
    return State(goal_id="a-1", goal=Goal("a-1", status=status), **values)


@pytest.mark.parametrize(
    ("known", "answer"),
    [
        (state(GoalStatus.BLOCKED, question="Which port?"), 'clew feedback a-1 "…"'),
        (state(GoalStatus.BLOCKED, gone=True), CONTINUE),
        (state(GoalStatus.BLOCKED, stranger=Identity(dev=1, ino=2)), CONTINUE),
        (state(GoalStatus.BLOCKED, question=CANNOT_START), CONTINUE),
        (state(GoalStatus.WAITING, reason="no endpoint"), CONTINUE),
        (state(GoalStatus.WAITING, paused=True), None),
        (state(GoalStatus.WAITING, wait_until=9.0), None),
        (state(GoalStatus.IN_PROGRESS), None),
        (state(GoalStatus.FAILED), None),
    ],
)
def test_a_goal_that_needs_a_person_names_the_command_that_answers(known, answer):
    view = status_view(known)
    assert (view["needs_person"], view["answer"]) == (answer is not None, answer)


def test_what_an_agent_does_now_is_a_call_a_running_action_or_a_check_each_since_it_began(agent):
    work = Work(greeted=True, llm_since=60.0)

    def now():
        found = now_view(agent.state, work)
        return found["doing"], found["since"][11:19], found["what"]

    assert now() == ("thinking", "00:01:00", "LLM call")
    work.llm_queued = True
    assert now() == ("thinking", "00:01:00", "waiting for a free LLM slot")
    work.check, work.check_since = "tests_pass", 90.0
    assert now() == ("checks", "00:01:30", "check tests_pass")
    work = Work(greeted=True)
    verdict = agent.core.propose("run_cmd", {"cmd": "make"}, 120.0)
    assert now() == ("tool", "00:02:00", f"#{verdict.seq} make")


class Told:
    """A fold that is told events with a number and a time."""

    def __init__(self):
        self.fold = TimelineFold()
        self.seq = 0
        self.tell(0.0, ev.GoalAccepted, goal_id="g", spec=Spec(description="g"))

    def tell(self, at, kind, **values):
        self.seq += 1
        self.fold.take(self.seq, kind(at=at, **values))
        return self.seq

    def act(self, at, seconds=1.0, epoch=1, result="success", attempt=1):
        about = {"epoch": epoch, "tool": "run_cmd", "args": {}, "attempt": attempt}
        seq = self.tell(at, ev.ActionAllowed, signature="run_cmd::{}", **about)
        self.tell(at + seconds, ev.ActionFinished, of=seq, result=result, outcome="")
        return seq


@pytest.fixture
def timed():
    return Told()


def test_each_worker_has_a_lane_with_its_actions_in_order(timed):
    timed.tell(1.0, ev.WorkerStarted, epoch=1)
    first = timed.act(2.0)
    timed.tell(5.0, ev.WorkerExited, epoch=1, reason="killed by signal 9", crash=True)
    timed.tell(6.0, ev.WorkerStarted, epoch=2)
    second = timed.act(7.0, epoch=2, result="failure")
    one, two = timeline(timed.fold, 10.0).lanes
    assert [mark.seq for mark in one.marks] == [first]
    assert (one.crashed, one.ending) == (True, "killed by signal 9")
    assert [(mark.seq, mark.result) for mark in two.marks] == [(second, "failure")]
    assert (two.crashed, two.ending) == (False, "")
    assert one.start < one.marks[0].start < one.start + one.width <= two.start


def test_a_refusal_is_a_mark_and_is_remembered_with_its_words(timed):
    timed.tell(1.0, ev.WorkerStarted, epoch=1)
    about = {"epoch": 1, "tool": "run_cmd", "args": {}, "signature": "run_cmd::{}"}
    seq = timed.tell(2.0, ev.ActionBlocked, reason="crash", message="third time", **about)
    [lane] = timeline(timed.fold, 5.0).lanes
    assert [(mark.seq, mark.result) for mark in lane.marks] == [(seq, "blocked")]
    assert [(one.seq, one.why) for one in timed.fold.refusals] == [
        (seq, "the worker died while it ran")
    ]


def test_a_step_that_was_cut_off_says_how_far_it_had_come(agent):
    ran = Action("run_cmd", {"cmd": "up"}, "interrupted", 3, iso(AT))
    said = questions.step(agent.state, ran, cause="killed", said="0 failed\nsent 3 of 7\n").text
    assert "It printed, among others: 0 failed\nLast line of its output: sent 3 of 7\n" in said
