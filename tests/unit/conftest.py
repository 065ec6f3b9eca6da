"""What unit tests share: the goals of a ledger without a daemon, and the command line in this process."""

import os

import pytest

from clew_daemon.cli import run
from clew_daemon.record.goals import GoalStore
from clew_shared.config.tables import Settings


@pytest.fixture
def book(ledger):
    """Give the goals of an empty ledger; nobody listens to what is recorded."""
    made = GoalStore(ledger, Settings())
    made.listeners.clear()
    return made


@pytest.fixture
def clew(capsys, monkeypatch):
    """Give a function that runs a command line; its exit code, output and errors."""
    for name in [name for name in os.environ if name.startswith("CLEW_")]:
        monkeypatch.delenv(name)

    def call(*args: object) -> tuple[int, str, str]:
        code = run([str(arg) for arg in args])
        said = capsys.readouterr()
        return code, said.out, said.err

    return call
