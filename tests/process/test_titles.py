"""Who is who in `ps`: every process of clew says what it is, and which goal it works on."""

import os

import pytest
from of_proc import children, title

pytestmark = pytest.mark.cold

GOAL = """\
---
on_interrupt: retry
workspace: {workspace}
---
# Wait long
## Do
- [ ] Wait
  ```sh
  echo begun > begun; sleep 600
  ```
"""


def below(pid):
    return [one for child in children(pid) for one in (child, *below(child))]


def titles(daemon):
    return {title(daemon): daemon} | {title(pid): pid for pid in below(daemon)}


def test_each_process_says_what_it_is_and_the_next_worker_its_epoch(clew, tmp_path):
    clew.start()
    workspace = tmp_path / "work"
    goal = clew.submit(GOAL.format(workspace=workspace))
    clew.until((workspace / "begun").exists, "the action")
    clew.until(lambda: "sleep 600" in titles(clew.daemon.pid), "the command")
    found = titles(clew.daemon.pid)
    first = {"clew: daemon", "clew: nursery", "clew: guard"}
    first |= {f"clew: agent {goal} epoch 1", f"clew: executor {goal} epoch 1"}
    assert first <= set(found)
    (workspace / "begun").unlink()
    os.kill(found[f"clew: agent {goal} epoch 1"], 9)
    clew.wait("worker.ready", epoch=2)
    second = f"clew: executor {goal} epoch 2"
    clew.until(lambda: second in titles(clew.daemon.pid), "the next executor")
    now = set(titles(clew.daemon.pid))
    assert f"clew: agent {goal} epoch 2" in now
    assert not {one for one in now if one.endswith("epoch 1")}
