"""What the tests of surroundings share: the harness of the process tests, and modules beside them."""

import shutil
import tempfile
from pathlib import Path

import pytest
from main_job import Placed
from of_proc import become_subreaper


@pytest.fixture
def base():
    """A folder that every user may enter, with a short path; pytest's own are closed to others."""
    folder = Path(tempfile.mkdtemp(prefix="clew-test-")).resolve()
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)
    assert not folder.exists(), f"left over: {sorted(folder.rglob('*'))}"


@pytest.fixture
def place(base):
    """A function that makes a home in given surroundings."""
    made = []

    def make(ways):
        made.append(Placed(base, ways))
        return made[-1]

    become_subreaper()
    try:
        yield make
    finally:
        for one in made:
            one.close()
        become_subreaper(on=False)
    for one in made:
        bugs = one.seen("daemon.bug") + one.seen("goal.run_failed")
        assert not bugs, bugs
        one.assert_alone()
