"""A coding agent's bridge: calls of clew's tools, its CLI's output and home, and what the end of a run means."""

import asyncio
import errno
import os
import socket
import threading
from contextlib import suppress
from pathlib import Path
from unittest.mock import Mock

import pytest

from clew_shared.record.model import Goal, Subtask, Task
from clew_shared.wire.hello import HelloAnswer, HelloState
from clew_shared.wire.nursery import CellSpec, SandboxSpec
from clew_worker.agent.client import AgentClient, CannotContinue
from clew_worker.bridge.calls import IDLE_CALLS_MAX, ToolCalls
from clew_worker.bridge.cli_cell import CliEnded, CliRun, StartCli, packet
from clew_worker.bridge.clis.cli import Cli, Fault, SessionStarted, TurnEnded, fault_of
from clew_worker.bridge.starter import CliStarter, clear
from clew_worker.bridge.turn import CliCrashError, CliTurn, Conversation
from clew_worker.sandbox import grants

DONE = {"verdict": "allowed", "seq": 7, "outcome": {"result": "success", "output": "built"}}


class PlayedDaemon(AgentClient):
    """Answers by method, with a value, an error to raise or a function that waits."""

    def __init__(self, **answers):
        self.answers = {"act": DONE, **answers}
        self.asked = []
        self.notices = {}

    def on(self, method, callback):
        self.notices.setdefault(method, []).append(callback)

    def notify(self, method, **params):
        for callback in self.notices[method]:
            callback(params)

    async def greet(self, _name):
        subtask = Subtask(description="Write b.txt", status="in_progress")
        task = Task(description="Files", subtasks=[subtask, Subtask(description="Write c.txt")])
        goal = Goal(description="Files", tasks=[task])
        state = HelloState(goal=goal, replan_required=self.answers.get("replan"))
        return HelloAnswer(state=state)

    async def call(self, method, **params):
        self.asked.append((method, params))
        answer = self.answers.get(method, {})
        if isinstance(answer, Exception):
            raise answer
        return await answer() if callable(answer) else answer


async def test_a_call_is_one_act_under_the_built_in_name():
    daemon = PlayedDaemon()
    calls = ToolCalls(daemon, "cli/1")
    answer = await calls.call("clew_run", {"cmd": "make"})
    assert daemon.asked == [("act", {"tool": "run_cmd", "args": {"cmd": "make"}})]
    assert answer.text == "built"
    assert calls.effects == 1
    assert calls.take_records()[0]["tool"] == "run_cmd"


async def test_a_long_call_is_answered_meanwhile_and_stays_one_action():
    go = asyncio.Event()

    async def act():
        daemon.notify("allowed", seq=7)
        await go.wait()
        return DONE

    daemon = PlayedDaemon(act=act)
    calls = ToolCalls(daemon, "cli/1", 0.01)
    assert (await calls.call("clew_run", {"cmd": "make"})).text.startswith("still running, #7.")
    assert (await calls.call("clew_wait", {"seq": 7})).text.startswith("still running, #7.")
    other = await calls.call("clew_read", {"path": "a"})
    assert other.refused
    assert "was not carried out" in other.text
    waiting = asyncio.create_task(calls.call("clew_read", {"path": "a"}))
    await asyncio.sleep(0)
    waiting.cancel()  # the CLI has given it up
    go.set()
    await asyncio.sleep(0.05)
    late = await calls.call("clew_read", {"path": "a"})
    assert late.refused
    assert late.text.endswith("Call again if it is still needed. The earlier one's result:\nbuilt")
    assert len(daemon.asked) == 1
    assert (await calls.call("clew_read", {"path": "a"})).text == "built"


async def test_a_turn_of_calls_that_carry_nothing_out_has_an_end():
    calls = ToolCalls(PlayedDaemon(), "cli/1")
    for _ in range(IDLE_CALLS_MAX):
        assert "End your turn" not in (await calls.call("clew_nothing", {})).text
    assert "End your turn" in (await calls.call("clew_run", {"cmd": "make"})).text
    assert calls.turn_over.is_set()
    calls.begin()
    assert (await calls.call("clew_run", {"cmd": "make"})).text == "built"


async def test_a_subtask_that_is_done_is_answered_with_the_next_one():
    daemon = PlayedDaemon(advance={"subtask": {"description": "Write b.txt"}, "task": None})
    calls = ToolCalls(daemon, "cli/1")
    answer = await calls.call("clew_done", {"success": True, "summary": "wrote a"})
    assert [method for method, _ in daemon.asked] == ["complete_subtask", "advance"]
    assert answer.text == "Next subtask: Write b.txt"


async def test_the_last_subtask_is_answered_with_the_checks_that_fail():
    failing = {"name": "there", "cmd": "test -f b", "exit_code": 1, "output": ""}
    daemon = PlayedDaemon(finish={"accepted": False, "failing_checks": [failing]})
    calls = ToolCalls(daemon, "cli/1")
    said = (await calls.call("clew_done", {"success": True})).text
    assert "Check failed with exit code 1: test -f b" in said
    assert not calls.over.is_set()
    daemon.answers["finish"] = {"accepted": True}
    assert "completed" in (await calls.call("clew_done", {"success": "yes"})).text
    assert calls.over.is_set()
    assert (await calls.call("clew_run", {"cmd": "ls"})).refused


async def test_a_replan_replaces_all_that_is_pending():
    daemon = PlayedDaemon(replan="task")
    calls = ToolCalls(daemon, "cli/1")
    await calls.call("clew_plan", {"tasks": [{"description": "All", "subtasks": ["Another way"]}]})
    [(_, sent)] = [one for one in daemon.asked if one[0] == "plan"]
    assert sent["covers"] == [1]


@pytest.fixture
def ends():
    """What the bridge is given of a run: its output and its channel; and the other ends of these."""
    out, out_w = os.pipe()
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        yield (out, ours), (out_w, theirs)
    with suppress(OSError):
        os.close(out_w)


async def lines_of(run):
    async with asyncio.timeout(60):
        return [line async for line in run.lines()]


def test_a_run_is_read_to_the_end_of_its_output(ends):
    given, (out_w, theirs) = ends

    async def read():
        run = CliRun(*given)
        os.write(out_w, b"one\ntwo\nthree")
        os.close(out_w)
        lines = await lines_of(run)
        theirs.send(packet(CliEnded(code=3, errors="a complaint")))
        return lines, (await run.ended).errors, run.end.code

    assert asyncio.run(read()) == ([b"one", b"two", b"three"], "a complaint", 3)


def test_reading_ends_with_the_cli_although_a_process_that_it_left_holds_its_pipes(ends):
    given, (out_w, theirs) = ends

    async def read():
        run = CliRun(*given)
        os.write(out_w, b"last\n")
        theirs.send(packet(CliEnded(code=0)))
        return await lines_of(run)

    assert asyncio.run(read()) == [b"last"]


def test_reading_ends_although_a_process_that_the_cli_left_prints_for_ever(ends, monkeypatch):
    given, (out_w, theirs) = ends
    monkeypatch.setattr("clew_worker.bridge.cli_cell.LEFT_S", 0.3)

    async def prints():
        while True:
            os.write(out_w, b"x")
            await asyncio.sleep(0.01)

    async def read():
        run, printing = CliRun(*given), asyncio.create_task(prints())
        theirs.send(packet(CliEnded(code=0)))
        async with asyncio.timeout(5):
            lines = await lines_of(run)
        printing.cancel()
        return lines

    [line] = asyncio.run(read())
    assert line.strip(b"x") == b""


@pytest.fixture
def starter(tmp_path, monkeypatch):
    """A starter in a thread, which ends no process but its CLI; the bridge's end of its socket."""
    monkeypatch.setattr("clew_worker.bridge.starter.end_descendants", Mock())
    box = SandboxSpec(private=(str(tmp_path), str(tmp_path / "absent")), workspace="/w")
    spec = CellSpec(kind="agent", cwd="/", env={}, sandbox=box)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    serving = threading.Thread(target=CliStarter(spec, theirs, alone=False).serve)
    serving.start()
    with theirs:
        with ours:
            yield ours
        serving.join()


def started(sock, *argv, **order):
    """Start a CLI; its standard output, and how it has ended."""
    out, out_w = os.pipe()
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    message = packet(StartCli(argv=argv, env=dict(os.environ), **order))
    with theirs:
        socket.send_fds(sock, [message], [out_w, theirs.fileno()])
    os.close(out_w)
    with ours, os.fdopen(out, "rb") as lines:
        ended = CliEnded.model_validate_json(ours.recv(1 << 18))
        return lines.read(), ended


def test_a_cli_needs_no_disk_and_the_end_of_its_complaints_is_kept(starter):
    script = "cat >&2; head -c 1000000 /dev/zero >&2; echo last >&2; exec wc -c <&0"
    said, ended = started(starter, "sh", "-c", script, stdin="x" * 150_000)
    assert (said, ended.fault) == (b"0\n", "")
    assert ended.errors.endswith("last")
    assert len(ended.errors) < 4_000


def test_a_login_comes_back_also_beside_files_that_are_too_large_for_a_packet(starter, tmp_path):
    names = ("a", "b", "c", "login")
    for name in names:
        (tmp_path / name).write_text("{}" if name == "login" else "x" * 65_000)
    _, ended = started(starter, "true", back=names)
    assert len(ended.files) == 3
    assert ended.files["login"] == "{}"


@pytest.mark.parametrize(("number", "temporary"), [(errno.EMFILE, True), (errno.EPERM, False)])
def test_why_a_cli_cannot_be_started_says_whether_to_try_again(
    starter, monkeypatch, number, temporary
):
    monkeypatch.setattr(os, "pipe2", Mock(side_effect=OSError(number, "no")))
    _, ended = started(starter, "true")
    assert ended.fault
    assert ended.temporary == temporary


def test_only_the_sessions_survive_and_no_link_is_followed(tmp_path):
    home, outside = tmp_path / "home", tmp_path / "outside"
    (home / ".codex" / "sessions" / "2026").mkdir(parents=True)
    (home / ".codex" / "sessions" / "2026" / "one.jsonl").write_text("{}")
    (home / ".codex" / "config.toml").write_text("old")
    (home / ".cache").mkdir()
    outside.mkdir()
    (outside / "precious").write_text("x")
    for name in ("link", "kept"):
        (home / name).symlink_to(outside)
    clear(home, (".codex/sessions", "kept"))
    left = sorted(str(path.relative_to(home)) for path in home.rglob("*"))
    sessions = ".codex/sessions"
    assert left == [".codex", sessions, f"{sessions}/2026", f"{sessions}/2026/one.jsonl"]
    assert (outside / "precious").exists()


@pytest.mark.parametrize("package", ["@maker/coder", "coder", "coder-ai"])
@pytest.mark.parametrize("nested", [False, True])
def test_the_program_in_an_npm_package_is_started_without_its_script(tmp_path, package, nested):
    modules = tmp_path / "node_modules"
    script = modules / package / "bin" / "coder.js"
    machine = "x64" if os.uname().machine == "x86_64" else "arm64"
    beside = modules / package / "node_modules" if nested else modules
    real = beside / Path(package).parent / f"coder-linux-{machine}" / "bin" / "coder"
    for path in (script, real):
        path.parent.mkdir(parents=True)
    (modules / package / "package.json").write_text("{}")
    script.write_text("#!/usr/bin/env node\n")
    real.write_bytes(b"\x7fELF")
    real.chmod(0o755)
    link = modules / ".bin" / "coder"
    link.parent.mkdir()
    link.symlink_to(script)
    assert grants.native(str(link)) == str(real)
    assert grants.native(str(script)) == str(real)


def test_a_conversation_continues_in_its_attempt_and_in_the_next_subtask_only():
    held = Conversation.read(Conversation(id="s1", attempt=(0, 1, 1)).model_dump_json())
    assert held.continues((0, 1, 1))
    assert held.continues((0, 2, 1))
    assert not held.continues((0, 1, 2))


def test_what_a_cli_wrote_in_its_place_is_no_conversation():
    for text in (None, "", "[]", "{", '{"id": 1}', '{"id": "x", "attempt": "abc"}'):
        assert not Conversation.read(text).continues((0, 0, 1))


class Named(Cli):
    name = "coder"


def turn_of(*events):
    turn = CliTurn(Named)
    for event in events:
        turn.lines += 1
        turn.take(event)
    return turn


def outcome(turn, code=0, errors="", *, acted=False):
    turn.acted = acted
    with pytest.raises((CannotContinue, CliCrashError)) as caught:
        turn.close(CliEnded(code=code, errors=errors))
    return caught.value


def test_a_turn_without_clews_tools_is_a_crash_however_it_ended_and_did_not_count():
    turn = turn_of(SessionStarted("s"), TurnEnded("I have no tools."))
    assert not turn.unfinished(0)
    turn.listed = False
    assert turn.unfinished(0)
    assert isinstance(outcome(turn), CliCrashError)
    turn.acted = True
    turn.close(CliEnded(code=0))


@pytest.mark.parametrize(("code", "unfinished"), [(137, True), (None, True), (0, False)])
def test_a_turn_without_an_end_was_cut_off_unless_its_program_ended_well(code, unfinished):
    assert turn_of(SessionStarted("s")).unfinished(code) is unfinished


def test_a_usage_limit_is_waited_for_also_after_a_turn_that_ended_well():
    found = outcome(turn_of(Fault("limit reached", "limit"), TurnEnded()))
    assert (found.kind, found.retry_after_s) == ("temporary", 900.0)


def test_a_fault_of_the_endpoint_is_temporary_and_a_lasting_one_needs_a_person():
    ended = Fault("connection refused")
    assert turn_of(SessionStarted("s"), ended).unfinished(1)
    assert outcome(turn_of(SessionStarted("s"), ended), 1).kind == "temporary"
    lasting = Fault("unknown model", "lasting")
    found = outcome(turn_of(SessionStarted("s"), lasting, ended), 1)
    assert (found.kind, found.reason) == ("configuration", "coder cannot go on: unknown model")


def test_what_it_cannot_start_or_read_is_lasting_with_what_mends_it_only_before_it_has_begun():
    said = fault_of("EACCES: permission denied, open '/x'")
    found = outcome(turn_of(said), 1)
    assert found.reason.startswith("coder cannot be started: EACCES")
    assert "Name the program itself" in found.reason
    assert outcome(turn_of(SessionStarted("s"), said), 1).kind == "temporary"
    assert outcome(turn_of(fault_of("spawn /x EAGAIN")), 1).kind == "temporary"


def test_a_cli_that_was_ended_because_it_had_lost_its_tools_is_a_crash():
    turn = turn_of(SessionStarted("s"), Fault("interrupted"))
    turn.cut_off = True
    found = outcome(turn, 143, acted=True)
    assert isinstance(found, CliCrashError)
    assert str(found) == "coder has lost its connection to clew's tools"
