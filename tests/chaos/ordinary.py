"""A home of an ordinary user, for a daemon that root starts as that user."""

import os
import sys
import tempfile
from pathlib import Path

import as_user
import pytest
from harness import Clew
from of_proc import become_subreaper

from clew_shared.files import remove_tree

NOBODY = 65534


def give(folder):
    """Make everything in a folder the ordinary user's."""
    for path in (folder, *folder.rglob("*")):
        os.chown(path, NOBODY, NOBODY)


@pytest.fixture
def nobodys_clew():
    """A home of an ordinary user, and what its daemon is started under; skips where root may not become one."""
    if reason := as_user.reason_to_skip():
        pytest.skip(reason)
    under = (sys.executable, as_user.__file__, str(NOBODY))
    folder = Path(tempfile.mkdtemp(prefix="clew-test-"))
    become_subreaper()
    clew = Clew(folder)
    give(folder)
    yield clew, under
    clew.close()
    become_subreaper(on=False)
    assert not clew.seen("daemon.bug"), clew.seen("daemon.bug")
    clew.assert_alone()
    remove_tree(folder)
