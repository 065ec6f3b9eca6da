"""The command line beside a ledger, without a daemon: what it prints, where, and how it ends."""

import asyncio
import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from starlette.requests import Request

from clew_daemon.cli import parameters
from clew_daemon.cli.commands import service
from clew_daemon.cli.commands import undo as undoing
from clew_daemon.cli.commands.demo import own_daemon
from clew_daemon.ledger import verify
from clew_daemon.ledger.ledger import Ledger
from clew_daemon.reading.errors import CliError
from clew_daemon.reading.instance import Instance
from clew_daemon.record import pages
from clew_daemon.record.goals import GoalStore
from clew_daemon.web.pages import Pages
from clew_shared.config.tables import Settings
from clew_shared.core.answers import ActionReport
from clew_shared.record import events as ev
from clew_shared.record.spec import PlannedSubtask, PlannedTask, Spec

AT = 1_790_000_000.0
MATHX, OTHER = "create-mathx-package-7f3a", "create-other-1234"
EVIL = "bell \x07 red \x1b[31m title \x1b]0;pwned\x07 csi \x9b31m rtl \u202e"


async def record(home: Path) -> None:
    """Record two goals: one with a loop that was refused, and one that was only accepted."""
    (home / "state").mkdir(parents=True)
    ledger = Ledger.open(home / "state" / "ledger.db")
    book = GoalStore(ledger, Settings())
    book.listeners.clear()
    subtasks = (PlannedSubtask(description="Create it"), PlannedSubtask(description=EVIL))
    tasks = (PlannedTask(description="Package", subtasks=subtasks),)
    spec = Spec(description="Create mathx", workspace="/tmp/mathx")
    await book.accept(ev.GoalAccepted(at=AT, goal_id=MATHX, spec=spec, tasks=tasks), b"goal")
    other = ev.GoalAccepted(at=AT + 1, goal_id=OTHER, spec=Spec(description=EVIL))
    await book.accept(other, b"goal")
    core = book.cores[MATHX]
    with book.entering(core):
        core.emit(ev.GoalStarted(at=AT))
        core.emit(ev.WorkerStarted(at=AT, epoch=1, agent="runbook", pid=4242))
        core.start(AT)
        for _ in range(4):
            verdict = core.propose("run_cmd", {"cmd": f"false {EVIL}"}, AT)
            if verdict.allowed:
                core.outcome(
                    verdict.seq, ActionReport("failure", f"boom {EVIL}", changed=False), AT
                )
    await book.commit(core)
    await ledger.close(5)


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("clew")
    asyncio.run(record(folder))
    return folder


def test_ctrl_c_exits_130_without_a_traceback(home):
    command = [sys.executable, "-m", "clew_daemon", "--home", str(home), "logs", "-f"]
    (home / "state" / "clew.log").write_text('{"event": "daemon.started"}\n')
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert "daemon.started" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    (home / "state" / "clew.log").unlink()
    assert (process.returncode, err) == (130, "")


def test_a_followed_log_ends_with_its_reader(home):
    command = [sys.executable, "-m", "clew_daemon", "--home", str(home), "logs", "-f"]
    (home / "state" / "clew.log").write_text('{"event": "daemon.started"}\n')
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        process.stdout.close()
        process.wait(30)  # although no further line comes
    (home / "state" / "clew.log").unlink()


@pytest.mark.parametrize(
    "args", [["status"], ["status", MATHX], ["history", MATHX], ["loops"], ["context", MATHX]]
)
def test_no_control_character_of_a_goal_reaches_the_terminal(clew, home, args):
    out = clew("--home", home, *args)[1]
    assert out
    assert not [c for c in out if c != "\n" and not c.isprintable()]


def test_a_history_in_lines_reads_no_output(clew, home, monkeypatch):
    monkeypatch.setattr(pages, "output_text", None)
    code, out, _ = clew("--home", home, "history", MATHX)
    assert (code, out.count("failed")) == (0, 2)


@pytest.mark.parametrize(("goal", "refused"), [(MATHX, 2), (OTHER, 0)])
def test_the_page_of_a_goal_counts_what_was_refused(home, goal, refused):
    shown = Pages(Instance.of(home, {}), read_only=False)
    scope = {"type": "http", "path_params": {"goal": goal}, "query_string": b"", "root_path": ""}
    page = shown._shown(shown.goal, Request(scope)).body.decode()
    assert page.count('class="refusal"') == refused
    assert (f"4 actions, {refused} refused" in page) == bool(refused)


def test_an_undo_is_not_done_where_something_has_changed_since_it_was_shown(monkeypatch):
    shown = {"plan": "shown", "workspace": "/w", "scope": "goal", "subtask": None, "ended": True}
    shown |= dict.fromkeys(("done", "resumed", "moved", "git_gone", "staged"))
    shown |= dict.fromkeys(("left_total", "left_out", "gone_total"), 0) | {"left": [], "gone": []}
    shown |= {"entries": [{"path": "cup", "action": "remove"}], "entries_total": 1}
    asked, answers = [], [shown, {**shown, "plan": "another"}]
    monkeypatch.setattr(parameters, "confirmed", lambda _: True)
    monkeypatch.setattr(undoing, "_ask", lambda _, **what: asked.append(what) or answers.pop(0))
    with pytest.raises(CliError, match="nothing was restored: `clew undo tea` shows"):
        undoing._converse(None, {"goal": "tea"}, "clew undo tea")
    assert [(one.get("perform"), one.get("expected")) for one in asked] == [
        (None, None),
        (True, "shown"),
    ]


def test_a_backup_that_takes_too_long_lets_go_of_the_ledger(clew, home, tmp_path, monkeypatch):
    monkeypatch.setattr(verify, "COPY_S", -1.0)
    code, _, err = clew("--home", home, "backup", tmp_path / "copy.db")
    assert code == 1
    assert "use a faster disk" in err
    assert list(tmp_path.iterdir()) == []


def test_a_restore_names_what_the_backup_lacks(clew, tmp_path):
    async def go_on() -> None:
        ledger = Ledger.open(tmp_path / "state" / "ledger.db")
        book = GoalStore(ledger, Settings())
        book.listeners.clear()
        await book.accept(ev.GoalAccepted(at=AT, goal_id="new-1", spec=Spec(description="x")), b"g")
        core = book.cores[MATHX]
        with book.entering(core):
            core.emit(ev.GoalEnded(at=AT, status="cancelled"))
        await book.commit(core)
        await ledger.close(5)

    older, newer = tmp_path / "older.db", tmp_path / "newer.db"
    asyncio.run(record(tmp_path))
    assert clew("--home", tmp_path, "backup", older)[0] == 0
    asyncio.run(go_on())
    assert clew("--home", tmp_path, "backup", newer)[0] == 0
    lost = f"lost, or set back: 2 goals ({MATHX}, new-1)"
    code, out, err = clew("--home", tmp_path, "restore", older)
    assert (code, lost in out, err) == (0, True, "")  # without a terminal it does not ask
    code, out, _ = clew("--home", tmp_path, "restore", newer)
    assert (code, "lost" in out) == (0, False)


@pytest.mark.parametrize("installed", [True, False])
def test_a_service_is_stopped_while_a_daemon_in_a_terminal_keeps_its_ledger(
    clew, tmp_path, monkeypatch, installed
):
    done = []
    found = SimpleNamespace(installed=installed, other_home=None, error=None)
    unit = SimpleNamespace(look=lambda: found, control=done.append)
    monkeypatch.setattr(service, "_unit", lambda _: unit)
    monkeypatch.setattr(service, "_unmanaged", lambda _: "clew run runs as process 5")
    code, _, err = clew("--home", tmp_path, "stop")
    assert (code, done) == (1, ["stop"] * installed)
    assert "process 5, not as the service" in err


def test_a_daemon_of_the_demo_that_ends_with_0_before_it_is_ready_has_not_started(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(sys, "executable", shutil.which("true"))
    with (
        pytest.raises(CliError, match="did not start"),
        own_daemon(Instance(tmp_path, {}), tmp_path),
    ):
        pass


def test_verify_names_the_first_event_that_does_not_fold(clew, tmp_path):
    async def damage() -> int:
        await record(tmp_path)
        ledger = Ledger.open(tmp_path / "state" / "ledger.db")
        book = GoalStore(ledger, Settings())
        seqs, done = ledger.append([_nonsense(MATHX)])
        await done
        del book
        await ledger.close(5)
        return seqs[0]

    seq = asyncio.run(damage())
    code, out, _ = clew("--home", tmp_path, "verify", "--json")
    assert code == 1
    fault = json.loads(out)["fault"]
    assert (fault["seq"], fault["goal"]) == (seq, MATHX)
    assert "does not fold" in fault["message"]


def _nonsense(goal: str):
    from clew_shared.ledger.errors import NewEvent

    return NewEvent(goal, "no_such_event", b'{"kind":"no_such_event"}')
