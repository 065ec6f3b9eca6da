"""What tests of the whole daemon share; `harness.py` says how it works."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # importlib mode has no path of its own

from harness import Clew, become_subreaper


@pytest.fixture
def make_clew(tmp_path):
    """A function that makes a home, with keys of its config as {"table.key": value}."""
    made = []

    def make(config=None, name="clew"):
        folder = tmp_path / name
        folder.mkdir()
        made.append(Clew(folder, config))
        return made[-1]

    become_subreaper()
    try:
        yield make
    finally:
        for clew in made:
            clew.close()
        become_subreaper(on=False)
    for clew in made:
        bugs = clew.seen("daemon.bug") + clew.seen("goal.run_failed")
        assert not bugs, bugs
        clew.assert_alone()


@pytest.fixture
def clew(make_clew):
    """A home, its daemon not yet started."""
    return make_clew()
