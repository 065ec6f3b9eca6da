"""Dropping goal files, the config, the doctor and the service, where no daemon runs."""

import contextlib
import errno
import io
import json
import os
import re
import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from clew_daemon.cli import run
from clew_daemon.cli.commands.doctor import Finding
from clew_daemon.cli.commands.doctor.command import ready_for, summary
from clew_daemon.host import units
from clew_daemon.inbox.goalfile.parse import parse
from clew_daemon.reading import submission as submit
from clew_daemon.reading.client import Address, NoDaemon
from clew_shared.ledger.lock import DAEMON, acquire, beside

REPO = Path(__file__).resolve().parents[2]


@pytest.fixture
def clew(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)  # in no git repository
    for name in list(os.environ):
        if name.startswith("CLEW_"):
            monkeypatch.delenv(name)

    def call(*args: object) -> tuple[int, str, str]:
        code = run([str(arg) for arg in args])
        said = capsys.readouterr()
        return code, said.out, said.err

    return call


# ---- submit


def test_submit_without_a_daemon_drops_the_file_whole_and_exits_zero(clew, tmp_path):
    goal = tmp_path / "my goal.md"
    goal.write_text("# Do it\n")
    code, out, _ = clew("--home", tmp_path / "h", "submit", goal)
    dropped = list((tmp_path / "h" / "inbox").iterdir())
    assert code == 0
    assert "clew run" in out
    assert [path.read_text() for path in dropped] == ["# Do it\n"]
    assert re.fullmatch(r"my goal-[0-9a-f]{6}\.md", dropped[0].name)


def _gone(*_: object, **__: object) -> None:
    raise NoDaemon(Address(Path("/nowhere")))


def _interrupted(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


@pytest.fixture
def leaving(monkeypatch):
    """A daemon that answers until the files are dropped."""

    def call(_: object, method: str, **__: object) -> dict:
        if method == "status" and dropped:
            dropped[0]()
        return {"goals": []}

    def drop_all(*args: Any) -> list[Path]:
        paths = original(*args)
        dropped.append(then[-1])
        return paths

    dropped: list[Any] = []
    then: list[Any] = [_gone]
    original = submit.drop_all
    monkeypatch.setattr("clew_daemon.reading.client.call", call)
    monkeypatch.setattr(submit, "drop_all", drop_all)
    return then


@pytest.mark.parametrize(
    ("then", "options", "expected", "told"),
    [
        (_gone, [], 0, "no daemon is running: it starts once one runs"),
        (_gone, ["--wait"], 3, "no daemon is running: it starts once one runs"),
        (_interrupted, [], 130, "not accepted yet"),
    ],
)
def test_a_goal_is_not_lost_sight_of_when_the_daemon_leaves_after_the_drop(
    clew, tmp_path, leaving, then, options, expected, told
):
    leaving.append(then)
    code, out, _ = clew("--home", tmp_path / "h", "submit", *options, "Make tea")
    (path,) = (tmp_path / "h" / "inbox").iterdir()
    assert (code, f"added to the inbox as {path}" in out) == (expected, True)
    assert told in out


def test_a_workspace_that_is_a_folder_of_clew_says_which(clew, tmp_path):
    code, _, err = clew("--home", tmp_path, "submit", "--workspace", tmp_path / "state", "Make tea")
    assert (code, f"{tmp_path}/state is, contains or is inside clew's own" in err) == (1, True)


@pytest.mark.parametrize("command", [["submit"], ["playbook", "import"]])
def test_a_file_that_may_not_be_read_is_no_fault_of_usage(clew, tmp_path, monkeypatch, command):
    def refused(path: Path, *_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    goal = tmp_path / "g.md"
    goal.write_text("Do it\n")
    monkeypatch.setattr(os, "access", lambda path, _: str(path) != str(goal))
    monkeypatch.setattr(Path, "open", refused)
    code, _, err = clew("--home", tmp_path, *command, goal)
    assert (code, "Permission denied" in err) == (1, True)


def test_submit_reads_stdin(clew, tmp_path, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"Do it\n")))
    assert clew("--home", tmp_path, "submit", "-")[0] == 0
    assert len(list((tmp_path / "inbox").glob("stdin-*.md"))) == 1


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        (b"", "empty"),
        (b"\xff\xfe\x00", "UTF-8"),
        (b"---\npriority: much\nagent: nobody\n---\n# x\n", "priority"),
        (b"---\nagent: nobody\n---\n# x\n", "nobody"),
        (b"x" * (1024 * 1024 + 1), "bytes"),
    ],
)
def test_a_file_that_cannot_be_a_goal_is_told_at_once_and_not_dropped(clew, tmp_path, raw, told):
    goal = tmp_path / "goal.md"
    goal.write_bytes(raw)
    code, out, err = clew("--home", tmp_path / "h", "submit", goal)
    assert (code, out) == (1, "")
    assert told in err
    assert not (tmp_path / "h").exists()


def test_submit_wait_without_a_daemon_drops_nothing(clew, tmp_path):
    goal = tmp_path / "goal.md"
    goal.write_text("# x\n")
    code, _, err = clew("--home", tmp_path / "h", "submit", "--wait", goal)
    assert (code, "nothing was submitted" in err) == (3, True)
    assert not (tmp_path / "h").exists()


def test_a_text_submitted_inside_a_git_repository_works_in_it(clew, tmp_path, monkeypatch):
    top = tmp_path / "repo"
    (top / ".git").mkdir(parents=True)
    (top / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (top / "sub").mkdir()
    (tmp_path / "tea.md").write_text("Make tea.\n")
    monkeypatch.chdir(top / "sub")
    named = ["--", "---\npriority: 1\nworkspace: /elsewhere\n---\nMake tea."]
    for number, (given, workspace, told) in enumerate(
        (
            (["Make tea."], str(top), f"workspace: {top} (the git repository here"),
            (["Make tea.", "--new"], None, "a folder of its own (new)"),
            (["../../tea.md"], None, "a folder of its own (new)"),
            (
                named,
                "/elsewhere",
                "workspace: /elsewhere (new: it does not exist; it will be created)",
            ),
            (["Make tea.", "--workspace", "."], str(top / "sub"), f"{top}/sub (it exists)"),
        )
    ):
        home = tmp_path / f"home{number}"
        code, _, err = clew("--home", home, "submit", *given)
        goal = parse(dropped(home)[-1].read_bytes(), "", ["default"])
        assert (code, goal.workspace, told in err) == (0, workspace, True), err
    code, out, _ = clew("--home", home, "submit", "Make tea.", "--json")
    (goal,) = json.loads(out)["goals"]
    assert (goal["workspace"], goal["new_workspace"]) == (str(top), False)


def test_a_repository_in_which_no_goal_may_work_is_told_with_the_ways_to_go_on(clew, tmp_path):
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").touch()
    code, _, err = clew("--home", tmp_path / "h", "submit", "Make tea.")
    assert (code, "clew's own" in err, "--new" in err) == (1, True, True)
    assert not (tmp_path / "h").exists()


def dropped(home):
    return sorted((home / "inbox").iterdir(), key=lambda path: path.stat().st_mtime_ns)


@pytest.mark.parametrize("given", ["absent", "no file.md", "not here.txt", "folder/absent"])
def test_what_looks_like_a_file_is_one_and_an_error_where_it_is_absent(
    clew, tmp_path, monkeypatch, given
):
    monkeypatch.chdir(tmp_path)
    code, _, err = clew("--home", "h", "submit", given)
    hint = "" if " " in given else '; to submit a text, put it in quotes: "…"'
    assert (code, err) == (1, f"clew: no such file: {given}{hint}\n")
    assert not (tmp_path / "h").exists()


def test_a_file_whose_name_has_white_space_is_that_file(clew, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("write a poem").write_text("About tea.\n")
    assert clew("--home", tmp_path, "submit", "write a poem")[0] == 0
    assert dropped(tmp_path)[0].read_text() == "About tea.\n"


def test_options_are_in_what_is_dropped_and_the_file_stays_as_it_is(clew, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = "---\nagent: default\nchecks: {tea: test -e tea}\n---\n# Make tea\n"
    Path("tea.md").write_text(text)
    options = (
        "--name",
        "tea",
        "--agent",
        "runbook",
        "--workspace",
        "work/x",
        "--check",
        'test "$A"',
    )
    assert clew("--home", tmp_path / "h", "submit", "tea.md", *options)[0] == 0
    assert Path("tea.md").read_text() == text
    goal = parse(dropped(tmp_path / "h")[0].read_bytes(), "tea.md", ["runbook"])
    assert (goal.name, goal.agent, goal.workspace) == ("tea", "runbook", str(tmp_path / "work/x"))
    assert goal.checks == {"tea": "test -e tea", "check_1": 'test "$A"'}


def test_all_errors_of_several_goals_and_options_are_told_and_nothing_is_dropped(clew, tmp_path):
    files = {"a.md": "---\npriority: much\n---\nx\n", "b.md": "", "c.md": "Fine\n"}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    paths = [tmp_path / name for name in (*files, "absent.md")]
    code, _, err = clew(
        "--home", tmp_path / "h", "submit", *paths, "--agent", "nobody", "--check", ""
    )
    assert code == 1
    for told in (
        "a.md",
        "line 2: `priority`",
        "b.md",
        "empty",
        "absent.md",
        "options: `agent` names an unknown agent `nobody`",
        "options: `checks.check_1` must be text",
    ):
        assert told in err
    assert not (tmp_path / "h").exists()


def test_errors_are_told_with_the_lines_of_the_file_also_where_options_are_put_into_it(
    clew, tmp_path
):
    (tmp_path / "a.md").write_text(
        "---\nagent: nobody\npriority: much\n---\n# x\n## Done when\n- pytest\n##\n"
    )
    code, _, err = clew(
        "--home", tmp_path, "submit", tmp_path / "a.md", "--agent", "runbook", "--name", "x"
    )
    assert code == 1
    assert "line 3: `priority`" in err
    assert "line 6: " in err
    assert "line 8: " in err
    assert "nobody" not in err


@pytest.mark.parametrize(
    "args", [["a b", "c d", "--name", "x"], ["-", "-"], ["a b", "--wait", "--json"], []]
)
def test_what_cannot_go_together_is_wrong_usage(clew, tmp_path, args):
    assert clew("--home", tmp_path / "h", "submit", *args)[0] == 2
    assert not (tmp_path / "h").exists()


@pytest.mark.parametrize(
    "workspace", ["/", "/proc/self", "/dev/shm/x", "{home}/state", "{user}/.local/state/clew/x"]
)
def test_a_workspace_that_is_refused_is_told_with_its_line_before_anything_is_dropped(
    clew, tmp_path, monkeypatch, workspace
):
    """Without a daemon it was dropped, and rejected much later without a line number."""
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    for name in ("XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    workspace = workspace.format(home=tmp_path / "h", user=tmp_path / "user")
    (tmp_path / "a.md").write_text(f"---\npriority: 1\nworkspace: {workspace}\n---\nx\n")
    code, _, err = clew("--home", tmp_path / "h", "submit", tmp_path / "a.md")
    assert (code, "line 3: `workspace`" in err) == (1, True)
    code, _, err = clew("--home", tmp_path / "h", "submit", "do it", "--workspace", workspace)
    assert (code, "options: `workspace` " in err) == (1, True)
    assert not (tmp_path / "h").exists()


@pytest.mark.parametrize(("file", "told"), [("/dev/zero", "bytes"), ("absent", "no such file")])
def test_a_config_to_check_that_never_ends_or_is_absent_is_an_error(clew, tmp_path, file, told):
    code, _, err = clew("--home", tmp_path, "config", "--check", file)
    assert (code, told in err) == (1, True)


def test_submit_as_json_names_what_was_dropped(clew, tmp_path):
    code, out, _ = clew("--home", tmp_path, "submit", "make tea", "drink it", "--json")
    assert code == 0
    assert json.loads(out)["goals"] == [
        {"id": None, "file": str(path), "error": None, "workspace": None, "new_workspace": True}
        for path in dropped(tmp_path)
    ]


def test_of_several_files_none_is_dropped_where_one_cannot_be_written(tmp_path, monkeypatch):
    """As on a full disk."""
    written = []

    def full(fd: int) -> None:
        written.append(fd)
        if len(written) > 1:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        submit.drop_all(tmp_path, [("a.md", b"a"), ("b.md", b"b"), ("c.md", b"c")])
    assert list(tmp_path.iterdir()) == []


# ---- config, places, doctor


def test_config_says_where_each_value_comes_from(clew, tmp_path, monkeypatch):
    (tmp_path / "config.toml").write_text("[daemon]\nmax_workers = 2\n")
    monkeypatch.setenv("CLEW_LOOPS__REPEAT_LIMIT", "4")
    keys = json.loads(clew("--home", tmp_path, "config", "--json")[1])["keys"]
    assert keys["daemon.max_workers"] == {"value": 2, "source": f"{tmp_path}/config.toml:2"}
    assert keys["loops.repeat_limit"] == {"value": 4, "source": "env CLEW_LOOPS__REPEAT_LIMIT"}
    assert keys["daemon.sweep_s"]["source"] == "default"
    assert "config.toml:2" in clew("--home", tmp_path, "config")[1]


def test_config_shows_what_profiles_set_for_the_models_of_the_agents(clew, tmp_path):
    (tmp_path / "config.toml").write_text(
        '[agents.a]\nmodel = "qwen3:8b"\n[context.models."qwen3*"]\nmax_tokens = 6000\n'
    )
    keys = json.loads(clew("--home", tmp_path, "config", "--json")[1])["keys"]
    assert keys["agents.a.temperature"] == {"value": 0.6, "source": "profile built-in qwen3"}
    line = f"{tmp_path}/config.toml:4"
    assert keys['context.models."qwen3*".max_tokens'] == {"value": 6000, "source": line}


def test_config_check_names_all_faults_of_a_file(clew, tmp_path):
    bad = tmp_path / "bad.toml"
    bad.write_text("[daemon]\nmax_workers = 0\nsettle = 1\n[nope]\n")
    code, out, err = clew("--home", tmp_path, "config", "--check", bad)
    assert (code, out) == (1, "")
    assert all(word in err for word in ("bad.toml:2", "bad.toml:3", "nope"))
    code, out, _ = clew("--home", tmp_path, "config", "--check", bad, "--json")
    assert code == 1
    assert len(json.loads(out)["faults"]) == 3


def test_config_check_of_the_example_finds_nothing(clew, tmp_path):
    code, _, err = clew("--home", tmp_path, "config", "--check", REPO / "config.example.toml")
    assert (code, err) == (0, "")


def test_the_places_are_those_that_the_whole_config_gives(tmp_path, monkeypatch):
    from clew_daemon.reading.instance import Instance
    from clew_shared.config.places import places
    from clew_shared.config.settings import load

    text = '[paths]\nstate = "elsewhere"\n[ledger]\nurl = "sqlite:///<state>/x.db"\n'
    (tmp_path / "config.toml").write_text(text)
    env = {"HOME": "/home/x", "CLEW_PATHS__RUN": "/run/y"}
    where = Instance.of(tmp_path, env)
    settings = load(text, env, "config.toml").settings
    assert where.places == places(env, tmp_path, settings)
    assert str(where.ledger) == settings.ledger.located(str(where.places.state))[10:]


def test_a_relative_home_is_meant_from_here(tmp_path, monkeypatch):
    from clew_daemon.reading.instance import Instance

    monkeypatch.chdir(tmp_path)
    assert Instance.of(Path("h"), {}).places.state == tmp_path / "h" / "state"
    assert Instance.of(None, {"CLEW_HOME": "h"}).places.state == tmp_path / "h" / "state"


def test_doctor_looks_at_everything_and_makes_nothing(clew, tmp_path):
    _, out, _ = clew("--home", tmp_path, "doctor", "--json")
    checks = {check["name"]: check for check in json.loads(out)["checks"]}
    assert {"python", "packages", "config", "inbox", "state", "ledger", "sandbox"} <= set(checks)
    assert checks["python"]["level"] == "ok"
    assert checks["daemon"]["level"] == "note"
    assert list(tmp_path.iterdir()) == []


def test_doctor_fails_with_what_to_mend(clew, tmp_path):
    (tmp_path / "config.toml").write_text(
        '[agents.far]\nbase_url = "http://127.0.0.1:1/v1"\nmodel = "m"\n'
    )
    (tmp_path / "state").write_text("a file where a folder should be")
    code, out, _ = clew("--home", tmp_path, "doctor", "--json")
    checks = {check["name"]: check for check in json.loads(out)["checks"]}
    assert code == 1
    assert checks["state"]["level"] == "fail"
    assert checks["agent far"]["level"] == "fail"
    assert "base_url" in checks["agent far"]["mend"]
    assert clew("--home", tmp_path, "doctor")[0] == 1


def test_doctors_last_line_says_what_it_is_ready_for(clew, tmp_path):
    checks = [("state", "ok"), ("git", "warn"), ("agent a", "ok"), ("agent a: proof", "ok")]
    checks += [("agent b", "ok"), ("agent b: login", "warn"), ("agent c", "fail")]
    findings = [Finding(name, level, "") for name, level in checks]
    assert ready_for(findings) == ["runbooks", "a"]
    assert ready_for([*findings, Finding("ledger", "fail", "")]) == []
    assert summary(findings, ["runbooks", "a"]) == "ready for runbooks and a; 1 failure; 2 warnings"
    told = clew("--home", tmp_path, "doctor")[1].splitlines()
    assert re.fullmatch(r"(not ready|ready for runbooks)(; \d+ (failure|warning)s?)*", told[-1])
    assert f"config: {tmp_path}/config.toml does not exist: all defaults" in "\n".join(told)


def test_the_config_is_shown_with_its_file_and_whether_that_exists(clew, tmp_path):
    first = clew("--home", tmp_path, "config")[1].splitlines()[0]
    assert first == f"# the file: {tmp_path}/config.toml, which does not exist"
    (tmp_path / "config.toml").touch()
    first = clew("--home", tmp_path, "config")[1].splitlines()[0]
    assert first == f"# the file: {tmp_path}/config.toml"


def test_how_to_start_a_daemon_depends_on_whether_its_unit_is_installed(
    clew, tmp_path, monkeypatch
):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    home = tmp_path / "home"
    assert "`clew run` in another terminal" in clew("--home", home, "reload")[2]
    clew("--home", home, "service", "install")
    assert "start it with `clew start`" in clew("--home", home, "reload")[2]
    assert "`clew run` in another terminal" in clew("--home", tmp_path, "reload")[2]


def test_service_install_writes_a_unit_for_this_home_and_says_what_is_left(
    clew, tmp_path, monkeypatch
):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("PATH", str(tmp_path))  # no systemctl: nothing of this machine is touched
    monkeypatch.setattr(units, "LINGER", tmp_path)
    unit = tmp_path / "config" / "systemd" / "user" / "clew.service"
    code, out, err = clew("--home", tmp_path / "my home", "service", "install")
    assert code == 1
    assert "systemctl is not installed" in err
    assert "not enabled" not in out
    assert "enable-linger" in out
    assert f'--home "{tmp_path}/my home" run' in unit.read_text()
    code, out, _ = clew("--home", tmp_path / "my home", "service", "status", "--json")
    said = json.loads(out)
    assert (code, said["installed"], said["up_to_date"], said["active"]) == (0, True, True, None)
    assert "systemctl is not installed" in said["error"]
    assert "cannot be asked" in clew("--home", tmp_path / "my home", "service", "status")[1]
    code, _, err = clew("start")
    assert (code, "for another home" in err) == (1, True)
    code, out, err = clew("service", "uninstall")
    assert (code, out) == (1, "")
    assert f"clew --home '{tmp_path}/my home' service uninstall" in err
    assert unit.exists()
    code, out, _ = clew("service", "status")
    assert f"installed for another home: {tmp_path}/my home" in out
    assert "run that again" not in out
    code, out, err = clew("--home", tmp_path / "my home", "service", "uninstall")
    assert (code, "not stopped" in out, "not stopped" in err) == (1, False, True)
    assert not unit.exists()
    assert "not installed: clew service install" in clew("service", "status")[1]


@pytest.fixture
def outside(tmp_path, monkeypatch):
    """Hold the ledger of a home as a daemon does, and answer `ping` with what is put into `answer`."""
    home = tmp_path / "h"
    (home / "state").mkdir(parents=True)
    (home / "run").mkdir()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("PATH", str(tmp_path))  # no systemctl
    place, answer = home / "run" / "control.sock", {"managed": False}
    held = acquire(beside(home / "state" / "ledger.db"), role=DAEMON, socket=place)
    with held, socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(place))
        listening.listen()
        answering = threading.Thread(target=_answer, args=(listening, answer), daemon=True)
        answering.start()
        yield home, answer
        listening.shutdown(socket.SHUT_RDWR)
        answering.join(10)


def _answer(listening: socket.socket, answer: dict) -> None:
    with contextlib.suppress(OSError):
        while True:
            asking, _ = listening.accept()
            with asking:
                asking.recv(1 << 16)
                asking.sendall(json.dumps({"id": 1, "result": answer}).encode() + b"\n")


@pytest.mark.parametrize("command", ["start", "stop", "restart"])
def test_a_daemon_that_is_not_the_service_is_ended_where_it_was_started(clew, outside, command):
    """`start` said "stop it first", and `stop` that the service is not installed."""
    home, _ = outside
    code, _, err = clew("--home", home, command)
    assert (code, "not as the service: end it where it was started" in err) == (1, True)
    assert "service install" not in err


@pytest.mark.parametrize("command", ["start", "stop", "restart"])
def test_the_services_own_daemon_is_known_where_systemd_cannot_be_asked(clew, outside, command):
    home, answer = outside
    answer["managed"] = True
    units.install("/usr/bin/clew", home=home)
    code, _, err = clew("--home", home, command)
    assert (code, "not as the service" in err) == (1, False)
    assert "systemd cannot be asked" in err
    assert "login session" in err


@pytest.mark.parametrize("command", ["start", "restart"])
def test_a_service_is_not_started_with_a_config_that_cannot_be_used(clew, tmp_path, command):
    (tmp_path / "config.toml").write_text("[nope]\n")
    code, _, err = clew("--home", tmp_path, command)
    assert (code, "nope" in err) == (1, True)


def test_service_install_with_a_broken_config_names_its_faults(clew, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "config.toml").write_text("[nope]\n")
    code, _, err = clew("--home", tmp_path, "service", "install")
    assert code == 1
    assert "nope" in err
    assert not (tmp_path / "config").exists()


def test_an_agent_that_is_only_a_coding_agents_name_is_told_what_to_add(clew, tmp_path):
    said = clew("--home", tmp_path, "submit", "--agent", "codex", "Make tea")[2]
    assert 'add [agents.codex] with cli = "codex" to the config' in said
