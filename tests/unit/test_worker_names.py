import subprocess
import sys

import pytest

import clew_worker

NAMES = ("Bullet", "DualTrackContext", "ExecutionReflector", "Intervention", "IterationLog")
NAMES += ("IterationRecord", "Playbook", "Reflection", "ToolCall")
NAMES += ("Action", "Answer", "ContextManager", "Goal", "LedgerError", "Subtask")
NAMES += ("Task", "WrongState")


@pytest.mark.parametrize("name", NAMES)
def test_a_public_name_is_loaded_and_listed(name):
    assert getattr(clew_worker, name).__name__ == name
    assert name in dir(clew_worker)


def test_importing_the_package_loads_nothing_else_of_weight():
    code = "import sys, clew_worker; print('pydantic' in sys.modules, 'httpx2' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
