"""`clew undo`: what a goal changed is restored, what someone else changed stays, and an undo can be undone."""

import json

import pytest
from tests.process.cells.snapshots import picture

GOAL = """\
---
name: tea
workspace: {workspace}
---
# Make tea
## Kitchen
- [ ] Boil
  ```sh
  echo hot > water && rm cup && mkdir -p shelf && mv spoon shelf/spoon
  ```
- [ ] Steep
  ```sh
  echo leaves >> water && echo new > pot && chmod 600 recipe
  ```
"""


@pytest.fixture
def kitchen(tmp_path):
    """A workspace with work of a person's own in it."""
    folder = tmp_path / "kitchen"
    folder.mkdir()
    for name in ("water", "cup", "spoon", "recipe", "notes"):
        (folder / name).write_text(f"the {name}\nbefore\n")
    return folder


@pytest.fixture
def done(clew, kitchen):
    """A daemon whose goal has completed in the kitchen; the picture of the kitchen before."""
    before = seen(kitchen)
    clew.start()
    goal = clew.submit(GOAL.format(workspace=kitchen), "tea.md")
    clew.wait("goal.completed", goal=goal)
    clew.until(lambda: not clew.goal(goal)["pid"], "the end of the worker")
    return before


def seen(folder):
    return {
        name: what
        for name, what in picture(folder).items()
        if not name.startswith((b".agent_context", b".git/"))
    }


def undone(clew, *args, code=0):
    return json.loads(clew.cli("undo", "tea", *args, "--json", code=code))


def actions(answer):
    return {one["path"]: one["action"] for one in answer["entries"]}


def test_an_undo_of_a_goal_brings_every_file_back(clew, kitchen, done):
    plan = undone(clew)
    assert not plan["done"]
    assert actions(plan) == {
        "water": "restore",
        "cup": "create",
        "spoon": "create",
        "shelf/spoon": "remove",
        "pot": "remove",
        "recipe": "restore",
    }
    assert seen(kitchen) != done
    said = clew.cli("undo", "tea", "--yes")
    assert seen(kitchen) == done
    assert "6 files restored" in said
    assert clew.verified()
