"""What a cell may reach: the network, links on the way to a file."""

import json
import os
import resource
import signal
import struct
import subprocess
from pathlib import Path

import pytest

from clew_daemon.config.places import places
from clew_daemon.processes import cell_rules
from clew_daemon.processes.cell_rules import CellRules, caches
from clew_daemon.processes.nursery import VERSION, NurseryGone, _checked
from clew_shared.config.agent_tables import (
    CommandAgentSettings,
    LlmAgentSettings,
    RunbookAgentSettings,
)
from clew_shared.config.tables import SandboxSettings, Settings
from clew_shared.record.spec import Spec
from clew_shared.record.state import State
from clew_shared.wire.nursery import CellSpec, NurseryHello, SandboxReport, SandboxSpec, to_packet
from clew_worker.sandbox import grants, kernel, namespaces

PLACES = places({}, Path("/srv/clew"), None)
OFFLINE = Settings(sandbox=SandboxSettings(network=False))
STATE = State(goal_id="goal-1", spec=Spec(description="x", workspace="/srv/goal"))
RULES = CellRules(PLACES, OFFLINE, STATE, 1, (0, 0), (), {}, {})
AGENTS = [
    (LlmAgentSettings(model="m"), True),
    (RunbookAgentSettings(), True),
    (CommandAgentSettings(command=("true",)), True),
    (CommandAgentSettings(command=("true",), own_tools=True), False),
]


@pytest.mark.parametrize(("agent", "network"), AGENTS)
def test_network_off_leaves_their_way_to_the_llm_to_agents_that_do_not_act(agent, network):
    assert RULES.agent(agent).sandbox.network == network


def test_every_link_on_the_way_to_the_name_servers_is_made_again(tmp_path, monkeypatch):
    """Only its end was shown: a link by way of another one, as /var/run, led nowhere in a cell."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "resolv.conf").touch()
    (tmp_path / "var-run").symlink_to("run")
    (tmp_path / "resolv.conf").symlink_to(tmp_path / "var-run" / "resolv.conf")
    monkeypatch.setattr(grants, "_LINKED_FILES", (str(tmp_path / "resolv.conf"),))
    spec = CellSpec(
        kind="executor",
        cwd="/",
        env={},
        sandbox=SandboxSpec(mode="enforce", workspace="/w", own_tools=False),
    )
    links = namespaces._links(grants.visible(spec))
    assert links[str(tmp_path / "var-run")] == "run"
    assert str(tmp_path / "resolv.conf") in links


def test_without_a_folder_for_temporary_files_no_overlay_is_tried(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "absent"))
    assert not namespaces.overlay_possible(userns=False)


@pytest.fixture
def tree():
    """A process with one beneath it."""
    with subprocess.Popen(
        ("sh", "-c", "sleep 60 & echo $!; wait"), stdout=subprocess.PIPE
    ) as shell:
        pids = shell.pid, int(shell.stdout.readline())
        yield pids
        for pid in pids:
            os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("lists", ["/proc/thread-self/children", "/absent"])
def test_every_process_is_found_whatever_ends_meanwhile(tree, monkeypatch, lists):
    listdir = os.listdir
    monkeypatch.setattr(os, "listdir", lambda path: ["999999999", *listdir(path)])
    monkeypatch.setattr(kernel, "_CHILDREN", lists)
    assert set(tree) <= set(kernel.descendants(os.getpid()))


def test_processes_that_cannot_be_read_are_not_taken_for_none(tree):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        with pytest.raises(OSError, match="Too many open files"):
            kernel.descendants(tree[0])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    with pytest.raises(FileNotFoundError):
        kernel.descendants(999999999)


@pytest.mark.parametrize(
    ("table", "size", "count"), [(2**63, 56, 3), (2**64 - 8, 56, 1), (64, 0, 9), (4000, 56, 9)]
)
def test_a_file_that_only_begins_as_a_program_has_no_loader(table, size, count, tmp_path):
    """The first number was too large for an offset: whoever named the file in a config got no cell, and no reason."""
    head = bytearray(b"\x7fELF\x02\x01".ljust(64, b"\0"))
    struct.pack_into("<Q", head, 32, table)
    struct.pack_into("<HH", head, 54, size, count)
    program = tmp_path / "program"
    program.write_bytes(head)
    program.chmod(0o755)
    assert grants.chain(str(program), "/", "") == [str(program)]


def test_a_nursery_of_another_clew_says_that_the_daemon_must_be_restarted():
    """One whose greeting had another form was taken for broken."""
    report = SandboxReport(landlock_abi=0, isolation="guard", userns=False, network_off="none")
    hello = to_packet(NurseryHello(pid=1, version=VERSION, preloaded=(), sandbox=report))
    assert _checked(hello).pid == 1
    other = json.loads(hello) | {"of_tomorrow": 1}
    for said in (other, other | {"version": "9.9"}, {}):
        with pytest.raises(NurseryGone, match="restart the daemon"):
            _checked(json.dumps(said).encode())


def test_a_view_has_the_caches_of_a_home_and_nothing_that_a_link_leads_to(tmp_path):
    for name in ("home/.npm", "home/.cache/pip", "home/.cache/go-build", "secret"):
        (tmp_path / name).mkdir(parents=True)
    for link in (".rustup", ".cache/uv", ".m2"):
        (tmp_path / "home" / link).symlink_to(tmp_path / "secret")
    (tmp_path / "secret" / "repository").mkdir()
    (tmp_path / "home/.cache/\udcff").mkdir()  # cannot be told in JSON
    assert sorted(caches(tmp_path / "home")) == [".cache/pip", ".npm"]
    for n in range(300):
        (tmp_path / "home/.cache" / f"{n}").mkdir()
    assert len(caches(tmp_path / "home")) <= 66


@pytest.mark.parametrize("overlay", [True, False])
def test_a_view_has_a_home_and_a_folder_for_temporary_files_of_its_own(overlay):
    spec = RULES.view(Path("/view"), overlay=overlay)
    assert (spec.env["HOME"], spec.env["TMPDIR"]) == ("/view/home", "/view/tmp")
    assert set(spec.sandbox.private) == {"/view/home", "/view/tmp"}
    of_goal = [str(one) for one in cell_rules.private(PLACES, STATE.goal_id)]
    assert not {*of_goal} & {*spec.sandbox.read, *spec.sandbox.write, *spec.env.values()}
