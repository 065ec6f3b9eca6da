"""The command line beside a ledger, without a daemon: what it prints, where, and how it ends."""

import asyncio
import contextlib
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import click
import pytest

import clew_daemon
from clew_daemon import VERSION
from clew_daemon.cli import run
from clew_daemon.cli.app import COMMANDS, version_line
from clew_daemon.record.goals import GoalStore
from clew_shared.config.tables import Settings
from clew_shared.core.answers import ActionReport
from clew_shared.ledger import Ledger
from clew_shared.record import events as ev
from clew_shared.record.spec import PlannedSubtask, PlannedTask, Spec

AT = 1_790_000_000.0
MATHX, OTHER = "create-mathx-package-7f3a", "create-other-1234"
EVIL = "bell \x07 red \x1b[31m title \x1b]0;pwned\x07 csi \x9b31m rtl \u202e"
RE_COMMANDS = ["resume", "retry", "restart", "reload", "restore"]
REPO = Path(__file__).resolve().parents[2]


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


def begun(path: Path) -> None:
    """Make the file as a first start has it before its schema is there."""
    with closing(sqlite3.connect(path)) as con:
        con.execute("PRAGMA journal_mode = wal")


@pytest.fixture
def clew(capsys, monkeypatch):
    for name in list(os.environ):
        if name.startswith("CLEW_"):
            monkeypatch.delenv(name)

    def call(*args: object) -> tuple[int, str, str]:
        code = run([str(arg) for arg in args])
        said = capsys.readouterr()
        return code, said.out, said.err

    return call


def spawned(*args: object, **options) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "clew_daemon", *map(str, args)]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=False, **options
    )


# ---- the whole


def test_without_arguments_it_prints_help_and_exits_zero(clew):
    code, out, err = clew()
    assert (code, err) == (0, "")
    assert "Goals:" in out


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_every_command_has_help(clew, flag):
    for command in ("", "run", "status", "service", "service install", "demo"):
        code, out, _ = clew(*command.split(), flag)
        assert code == 0
        assert out.startswith("Usage: clew")


def test_the_version_is_that_of_the_package(clew):
    assert re.fullmatch(r"clew \d+\.\d+\.\d+( \(\w{7}\))?\n", clew("--version")[1])


def test_the_commit_is_that_of_the_clone_or_the_one_in_the_wheel(tmp_path, monkeypatch):
    package = tmp_path / "daemon" / "clew_daemon"
    package.mkdir(parents=True)
    monkeypatch.setattr(clew_daemon, "__file__", str(package / "__init__.py"))
    assert version_line() == f"clew {VERSION}"
    (tmp_path / ".git").mkdir()  # and no repository: git fails
    assert version_line() == f"clew {VERSION}"
    identity = ["-c", "user.name=x", "-c", "user.email=x@example.com"]
    for words in (["init", "-q"], [*identity, "commit", "-q", "--allow-empty", "-m", "x"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    head = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=tmp_path, capture_output=True, check=True
    )
    assert version_line() == f"clew {VERSION} ({head.stdout[:7].decode()})"
    (package / "commit").write_text("1bc7649\n")
    assert version_line() == f"clew {VERSION} (1bc7649)"


@pytest.mark.parametrize("width", [60, 80])
def test_no_line_of_any_help_is_shortened(clew, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    for command in ([], ["playbook"], ["service"]):
        assert "..." not in clew(*command, "--help")[1].replace("[ARGS]...", "")


@pytest.mark.parametrize(
    "args", [["staus"], ["status", "--nope"], ["feedback", "x"], ["logs", "-n", "many"]]
)
def test_wrong_usage_exits_two_with_two_lines_on_stderr(clew, args):
    code, out, err = clew(*args)
    assert (code, out) == (2, "")
    assert err.startswith("clew: ")
    assert len(err.splitlines()) == 2


def test_a_reader_that_goes_away_is_no_error(home):
    command = [sys.executable, "-m", "clew_daemon", "--home", str(home), "config", "--json"]
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, timeout=60, check=False)
    os.close(write)
    assert done.stderr == b""


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


def test_goal_ids_are_completed_from_the_ledger(home):
    env = {
        **os.environ,
        "_CLEW_COMPLETE": "bash_complete",
        "COMP_WORDS": f"clew --home {home} history create-m",
        "COMP_CWORD": "4",
    }
    assert spawned(env=env).stdout.split() == [f"plain,{MATHX}"]


def test_commands_and_options_are_completed_without_importing_the_commands():
    asked = {"_CLEW_COMPLETE": "bash_complete", "COMP_CWORD": "1"}
    for begun, wanted in (
        ("sta", ["status", "start"]),
        ("--ver", ["--version"]),
        ("re", RE_COMMANDS),
    ):
        said = spawned(env={**os.environ, **asked, "COMP_WORDS": f"clew {begun}"})
        assert said.stdout.split() == [f"plain,{name}" for name in wanted]


def test_every_line_of_the_help_is_shown_whole_and_every_command_can_be_imported(clew):
    shown = clew("--help")[1]
    for command in COMMANDS:
        assert f"  {command.name} " in shown
        assert str(command.short_help) in shown
        assert command.imported().name == command.name


# ---- reading the ledger


def test_status_without_a_daemon_says_so_and_lists_goals_in_order(clew, home):
    code, out, _ = clew("--home", home, "status")
    assert code == 0
    assert "no daemon is running" in out
    assert out.index(MATHX) < out.index(OTHER)


def test_status_as_json_has_the_keys_of_the_contract(clew, home):
    view = json.loads(clew("--home", home, "status", "--json")[1])
    assert view["daemon"] is None
    keys = (
        "id description status progress task subtask epoch pid restarts blocked_actions iteration"
    )
    assert set(view["goals"][0]) >= {*keys.split(), "reason", "updated_at"}
    assert view["goals"][0]["pid"] is None


def test_a_home_without_a_ledger_has_no_goals(clew, tmp_path):
    assert json.loads(clew("--home", tmp_path, "status", "--json")[1]) == {
        "daemon": None,
        "goals": [],
        "more": False,
        "left_out": 0,
        "inbox": [],
        "inbox_total": 0,
    }
    assert json.loads(clew("--home", tmp_path, "verify", "--json")[1])["ok"]
    assert json.loads(clew("--home", tmp_path, "loops", "--json")[1]) == {
        "loops": [],
        "more": False,
    }
    assert list(tmp_path.iterdir()) == []


def test_a_goal_may_be_named_by_its_beginning(clew, home):
    view = json.loads(clew("--home", home, "status", "create-m", "--json")[1])
    assert view["goal"]["id"] == MATHX
    assert view["goal"]["goal"]["tasks"][0]["subtasks"][0]["status"] == "in_progress"


@pytest.mark.parametrize(
    ("name", "told"),
    [("create", [MATHX, OTHER]), ("mathx-package", ["did you mean", MATHX]), ("zzz", [OTHER])],
)
def test_a_name_that_is_no_goal_names_those_that_may_be_meant(clew, home, name, told):
    code, out, err = clew("--home", home, "history", name)
    assert (code, out) == (1, "")
    assert all(word in err for word in told)


def test_history_has_every_action_oldest_first(clew, home):
    view = json.loads(clew("--home", home, "history", MATHX, "--json")[1])
    assert view["goal"] == MATHX
    assert [action["result"] for action in view["actions"]] == ["failure"] * 2 + ["blocked"] * 2
    assert [a["seq"] for a in view["actions"]] == sorted(a["seq"] for a in view["actions"])


def test_loops_of_all_goals_name_their_goal(clew, home):
    loops = json.loads(clew("--home", home, "loops", "--json")[1])["loops"]
    assert {loop["goal"] for loop in loops} == {MATHX}
    assert loops[0]["kind"] == "repetition"
    assert "repetition of the same action (3 times)" in clew("--home", home, "loops", MATHX)[1]
    assert MATHX in clew("--home", home, "loops")[1]


def test_home_after_the_command_says_where_it_goes(clew, home):
    code, _, err = clew("status", "--home", home)
    assert (code, err.splitlines()[-1]) == (
        2,
        "--home goes before the command: clew --home DIR status",
    )


@pytest.mark.parametrize(
    "args", [["status"], ["status", MATHX], ["history", MATHX], ["loops"], ["context", MATHX]]
)
def test_no_control_character_of_a_goal_reaches_the_terminal(clew, home, args):
    out = clew("--home", home, *args)[1]
    assert out
    assert not [c for c in out if c != "\n" and not c.isprintable()]


def test_reading_leaves_the_ledger_as_it_was(clew, home):
    before = (home / "state" / "ledger.db").read_bytes()
    clew("--home", home, "status")
    clew("--home", home, "verify")
    assert (home / "state" / "ledger.db").read_bytes() == before


def test_verify_counts_events_and_goals(clew, home):
    code, out, _ = clew("--home", home, "verify", "--json")
    assert code == 0
    report = json.loads(out)
    assert (report["ok"], report["goals"], report["fault"]) == (True, 2, None)


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
    from clew_shared.ledger import NewEvent

    return NewEvent(goal, "no_such_event", b'{"kind":"no_such_event"}')


# ---- what needs a daemon


@pytest.mark.parametrize(
    "args",
    [
        ["pause", MATHX],
        ["resume", MATHX],
        ["cancel", MATHX],
        ["retry", MATHX],
        ["feedback", MATHX, "text"],
        ["unblock", MATHX, "x::{}"],
        ["reload"],
        ["pause", "no-such-goal"],
    ],
)
def test_without_a_daemon_steering_exits_three_and_says_how_to_start_one(clew, home, args):
    code, out, err = clew("--home", home, *args)
    assert (code, out) == (3, "")
    assert len(err.splitlines()) == 1
    assert "clew run" in err
    assert "`clew run` in another terminal" in err


def test_a_stale_socket_is_no_daemon(clew, home, tmp_path):
    import socket

    (tmp_path / "run").mkdir()
    with socket.socket(socket.AF_UNIX) as gone:
        gone.bind(str(tmp_path / "run" / "control.sock"))
    assert clew("--home", tmp_path, "reload")[0] == 3
    assert json.loads(clew("--home", tmp_path, "status", "--json")[1])["daemon"] is None


def test_run_with_a_broken_config_exits_78_with_all_faults(clew, tmp_path):
    text = "[daemon]\nmax_workers = 0\n[heartbeet]\n[loops]\nrepeat_limit = 'x'\n"
    (tmp_path / "config.toml").write_text(text)
    code, out, err = clew("--home", tmp_path, "run")
    assert (code, out) == (78, "")
    assert all(word in err for word in ("max_workers", "heartbeet", "repeat_limit"))


# ---- on a terminal


COLOUR = r"\x1b\[(\d;)*3\dm"


def on_a_terminal(home: Path, *args: str, **env: str) -> str:
    """Run clew with a pseudo-terminal for its stdout; what arrived there."""
    master, slave = os.openpty()
    kept = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR")}
    command = [sys.executable, "-m", "clew_daemon", "--home", str(home), *args]
    with subprocess.Popen(
        command, stdout=slave, stderr=slave, env={**kept, "TERM": "xterm-256color", **env}
    ) as process:
        os.close(slave)
        parts = []
        with contextlib.suppress(OSError):  # EIO: the other end is closed
            while part := os.read(master, 65536):
                parts.append(part)
        os.close(master)
        assert process.wait(60) == 0
    return b"".join(parts).decode()


def test_a_terminal_gets_colours_and_a_pipe_does_not(clew, home):
    assert re.search(COLOUR, on_a_terminal(home, "status", MATHX))
    assert not re.search(COLOUR, on_a_terminal(home, "status", MATHX, NO_COLOR="1"))
    assert "\x1b" not in on_a_terminal(home, "status", MATHX, TERM="dumb")
    assert "\x1b" not in clew("--home", home, "status", MATHX)[1]


def test_a_terminal_gets_no_control_character_of_a_goal(home):
    out = on_a_terminal(home, "status", MATHX)
    assert "\x1b[31m title" not in out
    assert "\x07" not in out
    assert "\u202e" not in out


def test_the_log_is_pretty_on_a_terminal_and_json_in_a_pipe(clew, tmp_path):
    (tmp_path / "state").mkdir()
    entry = {
        "timestamp": "2026-01-02T03:04:05.678901Z",
        "level": "warning",
        "event": "worker.hung",
        "goal": "g-1",
        "epoch": 2,
        "why": "\x1b[31m",
    }
    log = tmp_path / "state" / "clew.log"
    log.write_text(json.dumps(entry) + "\n" + '{"torn\n')
    lines = clew("--home", tmp_path, "logs")[1].splitlines()
    assert json.loads(lines[0]) == entry
    assert json.loads(lines[1])["event"] == '{"torn'
    shown = on_a_terminal(tmp_path, "logs", NO_COLOR="1", TZ="UTC-5")
    assert "2026-01-02 08:04:05 " in shown
    assert "g-1 epoch 2 why=\\x1b[31m" in re.sub(r"\x1b\[[0-9;]*m", "", shown)


# ---- help


def test_every_command_and_option_says_what_it_is_for():
    from clew_daemon.cli.app import clew

    for path, command in _commands(clew, "clew"):
        assert command.help, path
        silent = [p.name for p in command.params if isinstance(p, click.Option) and not p.help]
        assert silent == [], path


def _commands(command, path: str):
    command = getattr(command, "imported", lambda: command)()
    yield path, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from _commands(inner, f"{path} {name}")
