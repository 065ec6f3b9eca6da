"""The walls: what an agent and an executor can and cannot reach."""

import os
import socket
import subprocess
import sys
import traceback
from pathlib import Path

import pytest

from clew_shared.wire.nursery import CellSpec, SandboxReport, SandboxSpec
from clew_worker import sandbox
from clew_worker.sandbox import grants, kernel

needs_landlock = pytest.mark.skipif(
    sandbox.landlock.abi() == 0, reason="this kernel has no Landlock"
)
REPORT = SandboxReport(
    landlock_abi=sandbox.landlock.abi(), isolation="guard", userns=False, network_off="seccomp"
)


def confined(spec, attempt, report=REPORT):
    """Whether `attempt` succeeds in a forked process behind the walls of `spec`."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
            sandbox.Box(spec, report).confine()
            attempt()
            code = 0
        except OSError:
            code = 3
        except BaseException:  # noqa: BLE001
            traceback.print_exc()
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, 3), "see the traceback above"
    return code == 0


def agent(home, **box):
    folders = {"workspace": str(home / "workspace"), "hide": (str(home / "state"),)}
    return CellSpec(
        kind="agent",
        agent="runbook",
        cwd=str(home / "workspace"),
        sandbox=SandboxSpec(**{**folders, **box}),
    )


@needs_landlock
def test_an_agent_reads_the_workspace_and_the_system(home):
    (home / "workspace" / "notes").write_text("x")

    def read():
        (home / "workspace" / "notes").read_text()
        list(Path("/usr").iterdir())
        Path(os.__file__).read_bytes()
        Path("/dev/null").write_text("x")

    assert confined(agent(home), read)


@needs_landlock
@pytest.mark.parametrize("allowed", ["", "state", "state/secret"])
def test_hidden_folders_stay_hidden_whatever_is_allowed(home, allowed):
    spec = agent(home, read=(str(home / allowed),))
    assert not confined(spec, (home / "state" / "secret").read_text)


@needs_landlock
def test_a_workspace_inside_a_hidden_folder_is_usable_and_its_neighbours_are_not(home):
    mine, other = home / "state" / "mine", home / "state" / "other"
    for folder in (mine, other):
        folder.mkdir()
        (folder / "file").write_text("x")
    spec = agent(home, workspace=str(mine))
    assert confined(spec, (mine / "file").read_text)
    assert not confined(spec, (other / "file").read_text)


def test_an_agent_with_network_opens_no_unix_socket_but_can_have_a_pair(home):
    def pair():
        for one in (*socket.socketpair(), socket.socket(socket.AF_INET)):
            one.close()

    spec = agent(home).model_copy(update={"agent": "llm"})
    assert confined(spec, pair)
    assert not confined(spec, lambda: socket.socket(socket.AF_UNIX).close())


def test_network_off_without_a_namespace_leaves_no_internet_socket(home):
    spec = agent(home, network=False)
    assert not confined(spec, lambda: socket.socket(socket.AF_INET).close())


def test_enforce_refuses_where_there_is_no_landlock_and_says_what_to_do(home):
    report = REPORT.model_copy(update={"landlock_abi": 0})
    with pytest.raises(sandbox.SandboxError, match="best_effort"):
        sandbox.Box(agent(home), report).confine()


def test_best_effort_goes_on_without_landlock_and_says_so(home):
    report = REPORT.model_copy(update={"landlock_abi": 0})
    spec = agent(home, mode="best_effort")
    assert "Landlock" in sandbox.Box(spec, report).lacks()[0]
    assert confined(spec, (home / "state" / "secret").read_text, report)


def test_a_hidden_folder_that_is_not_there_yet_is_hidden(home):
    later = str(home / "outbox")
    found = list(grants.beside(str(home), [later]))
    assert str(home) not in found
    assert str(home / "workspace") in found


def test_the_chain_of_a_script_has_its_interpreter_and_the_loader(tmp_path):
    script = tmp_path / "agent"
    script.write_text("#!/usr/bin/env sh\n")
    script.chmod(0o755)
    chain = grants.chain(str(script), "/", os.defpath)
    assert chain[:2] == [str(script), "/usr/bin/env"]
    assert any(Path(path).name == "sh" for path in chain)
    assert any("ld-" in path for path in chain)


def test_an_executor_without_network_sees_only_its_own_loopback(executor, variant):
    if variant[0] == "guard":
        pytest.skip("a filter instead of a namespace: see above")
    done = executor(network=False).sh("test $(grep -c : /proc/net/dev) -eq 1")
    assert done.result == "success"


def test_a_mount_that_never_answers_counts_as_not_possible():
    script = (
        "import time; from clew_worker.sandbox import namespaces as n;"
        "n._TRIAL_S = 0.2; n.furnish = lambda **_: time.sleep(1000);"
        f"print(n.possible(userns={os.geteuid() != 0}, netns=False))"
    )
    said = subprocess.check_output([sys.executable, "-c", script], text=True, timeout=60)
    assert said == "False\n"
