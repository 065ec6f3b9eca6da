"""Section 2: where things are, and that one ledger has one daemon."""

import json
import shutil
import stat


def test_all_is_under_one_folder_with_home(clew):
    clew.start().completed("# Nothing\n- [ ] it\n  ```sh\n  true\n  ```\n")
    made = {path.name for path in clew.home.iterdir()}
    assert made >= {"config.toml", "inbox", "outbox", "workspaces", "state", "run"}


def test_state_and_control_socket_are_for_their_owner_alone(clew):
    clew.start()
    for folder in ("state", "run"):
        assert stat.S_IMODE((clew.home / folder).stat().st_mode) == 0o700


def test_without_home_the_places_are_those_of_xdg(clew):
    clew.env = {
        f"XDG_{name}_HOME": str(clew.folder / name) for name in ("CONFIG", "DATA", "STATE")
    } | {"XDG_RUNTIME_DIR": str(clew.folder / "RUN")}
    clew.options = []
    config = json.loads(clew.clew("config", "--json"))
    text = json.dumps(config)
    for place in ("DATA/clew/inbox", "DATA/clew/outbox", "DATA/clew/workspaces", "STATE/clew"):
        assert str(clew.folder / place) in text


def test_a_second_daemon_and_a_restore_refuse_and_say_who_holds_the_ledger(clew):
    clew.start()
    clew.clew("backup", str(clew.folder / "copy.db"))
    assert str(clew.daemon.pid) in clew.clew("run", code=1)
    assert str(clew.daemon.pid) in clew.clew("restore", str(clew.folder / "copy.db"), code=1)


def test_a_ledger_deleted_under_the_daemon_stops_it(clew):
    clew.start().submit("# Nothing\n- [ ] it\n  ```sh\n  true\n  ```\n")
    for path in (clew.home / "state").glob("ledger.db*"):
        path.unlink()
    assert clew.daemon.wait(60) == 78


def test_a_copied_home_starts_with_its_goals_in_progress_blocked(make_clew):
    first = make_clew()
    first.agent("idle", "hello()\nnotice('stop')\n")
    first.start()
    goal = first.submit("---\nagent: idle\n---\n# Wait\n")
    first.wait("worker.ready", goal=goal)
    first.stop()
    second = make_clew(name="second")
    shutil.rmtree(second.home)
    shutil.copytree(first.home, second.home)
    second.start()
    assert second.goal(goal)["status"] == "blocked"
