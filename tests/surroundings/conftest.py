"""What the tests of surroundings share: the harness of the process tests, and modules beside them."""

import shutil
import tempfile
from pathlib import Path

import pytest
from harness import left_alone
from main_job import Placed


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

    with left_alone(made):
        yield make
