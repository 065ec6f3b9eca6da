"""Where the program of a coding agent is found, and what its absence says."""

import pytest

from clew_daemon.processes.cells import INSTALLED_BY, cli_program, cli_program_fault
from clew_daemon.processes.nursery import SpawnError
from clew_shared.config.agent_tables import CliAgentSettings


def program_at(path, mode=0o755):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(mode)
    return path


@pytest.mark.parametrize("named", ["~/bin/next", "{home}/bin/next", "next"])
def test_it_may_have_another_name_and_place(tmp_path, named):
    program = program_at(tmp_path / "bin" / "next")
    agent = CliAgentSettings(cli="codex", program=named.format(home=tmp_path))
    assert cli_program(agent, {"HOME": str(tmp_path), "PATH": str(tmp_path / "bin")}) == program


@pytest.mark.parametrize("cli", INSTALLED_BY)
def test_where_it_is_not_installed_the_fault_says_how_to_install_it(cli, tmp_path):
    fault = cli_program_fault(CliAgentSettings(cli=cli), {"PATH": str(tmp_path)})
    assert fault.startswith(f"{cli} is not found on the PATH of the daemon")
    assert INSTALLED_BY[cli] in fault


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: None, "does not exist"),
        (lambda path: path.mkdir(), "is a directory"),
        (lambda path: path.symlink_to("nowhere"), "is a link to something that does not exist"),
        (lambda path: program_at(path, 0o644), "is not executable"),
    ],
    ids=["absent", "folder", "dangling link", "not executable"],
)
def test_a_path_that_is_no_program_is_a_fault_that_says_why(tmp_path, make, words):
    path = tmp_path / "codex"
    make(path)
    with pytest.raises(SpawnError, match=words):
        cli_program(CliAgentSettings(cli="codex", program=str(path)), {})
