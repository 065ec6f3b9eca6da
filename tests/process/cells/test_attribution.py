"""What an executor reports as changed: by its actions and checks, and by someone else in between."""

import pytest
from snapshots import GIT

from clew_shared.record.touched import Touched
from clew_shared.wire.executor import CheckRequest, DigestRequest
from clew_worker.executor.world.world import blob_id

pytestmark = pytest.mark.skipif(not GIT, reason="git is not installed")


@pytest.fixture
def begun(snapshots):
    """Start an executor as the daemon does: with a look at the workspace, and a snapshot."""

    def start():
        one = snapshots()
        digest(one)
        return one, one.take()

    return start


def digest(one, **request):
    one.hands.send(DigestRequest(id=1, **request))
    return one.hands.receive()


def check(one, cmd):
    one.hands.send(CheckRequest(id=1, name="check", cmd=cmd))
    return one.hands.receive()


def test_an_action_has_what_it_changed_and_what_was_changed_before_it(begun):
    one, _ = begun()
    (one.workspace / "theirs").write_text("x")
    done = one.hands.sh("printf new > mine; mkdir folder; ln -s mine link; mkfifo pipe")
    assert done.touched.foreign == ("theirs",)
    assert dict(done.touched.own) == {
        "mine": blob_id(b"new"),
        "folder": "/",
        "link": blob_id(b"mine"),
        "pipe": "?",
    }
    assert one.hands.run("read_file", path="mine").touched == Touched()
    assert dict(one.hands.run("write_file", path="mine", content="n").touched.own) == {
        "mine": blob_id(b"n")
    }


def test_a_check_changes_things_for_the_goal(begun):
    one, _ = begun()
    (one.workspace / "theirs").write_text("x")
    check(one, "printf c > by-check")
    (one.workspace / "later").write_text("x")
    touched = one.take().touched
    assert (touched.own, touched.foreign) == ((("by-check", blob_id(b"c")),), ("later", "theirs"))


def test_a_new_executor_begins_with_what_is_there(begun):
    one, _ = begun()
    one.hands.sh("echo 1 > mine")
    one.hands.cell.kill_payload()
    (one.workspace / "between").write_text("x")
    two, first = begun()
    assert first.touched == Touched()
    assert two.hands.sh("echo 2 > mine").touched.foreign == ()
