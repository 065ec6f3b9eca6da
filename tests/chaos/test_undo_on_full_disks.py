"""Full disks below the stores and below the workspace: the goal goes on, and no file is half restored."""

import os
import shutil

import pytest
from bad_disk import fill, small

from surroundings import runbook

pytestmark = pytest.mark.skipif(not shutil.which("git"), reason="git is not installed")

STEPS = ("rm -f large; touch script; chmod 600 script; echo new > made", "echo more > second")


def test_what_finds_no_room_in_the_workspace_is_restored_by_the_same_command_later(clew, tmp_path):
    with small(tmp_path / "workspace", "4m") as workspace:
        before = {"large": os.urandom(1 << 20), "script": b"true\n"}
        for name, content in before.items():
            (workspace / name).write_bytes(content)
        goal = clew.start().over(runbook(*STEPS, workspace=workspace))
        ballast = fill(workspace)
        said = clew.cli("undo", goal, "--yes", code=1)
        assert "Not put back:" in said
        assert "large no space left on device" in " ".join(said.lower().split())
        assert "again tries to restore the rest." in said
        left = {path.name for path in workspace.iterdir()} - {".agent_context", ballast.name}
        assert left == {"script"}
        assert (workspace / "script").stat().st_mode & 0o777 == 0o644

        ballast.unlink()
        assert "1 file put back in" in clew.cli("undo", goal, "--yes")
        assert {name: (workspace / name).read_bytes() for name in before} == before
        assert clew.stop() == 0
        assert clew.verified()
