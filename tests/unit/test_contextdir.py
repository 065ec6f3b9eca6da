"""The `.gitignore` of published files: it is there, it is clew's own, and nothing outside is written for it."""

import pytest

from clew_shared.views.contextdir import ContextDir


@pytest.fixture
def published(tmp_path):
    workspace = tmp_path / "work"
    workspace.mkdir()

    def publish():
        ContextDir(str(workspace)).rebuild({}, [], [])
        return workspace / ".agent_context" / ".gitignore"

    return publish


def test_a_file_that_a_user_has_changed_stays_as_it_is(published):
    published().write_text("state.json\n")
    assert published().read_text() == "state.json\n"
