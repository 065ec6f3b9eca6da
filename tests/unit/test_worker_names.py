import subprocess
import sys

import pytest

import clew_worker

NAMES = ("Bullet", "DualTrackContext", "ExecutionReflector", "Intervention", "IterationLog")
NAMES += ("IterationRecord", "Playbook", "Reflection", "ToolCall", "Windows")
NAMES += ("Action", "Answer", "ContextManager", "Goal", "LedgerError", "Subtask", "SyncClient")
NAMES += ("Task", "WrongState")


@pytest.mark.parametrize("name", NAMES)
def test_a_public_name_is_loaded_and_listed(name):
    assert getattr(clew_worker, name).__name__ == name
    assert name in dir(clew_worker)


def test_a_star_import_gives_all_public_names_and_no_other():
    names = {}
    exec("from clew_worker import *", names)
    assert set(names) - {"__builtins__"} == set(NAMES)


def test_another_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = clew_worker.Nothing


def test_importing_the_package_loads_nothing_else_of_weight():
    code = "import sys, clew_worker; print('pydantic' in sys.modules, 'httpx2' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
