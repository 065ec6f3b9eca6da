"""The catalogue of tools: schemas, and arguments that are wrong in every way."""

import pytest

from clew_shared import tools
from clew_worker.executor.tools import registry


@pytest.mark.parametrize("tool", tools.TOOLS, ids=lambda tool: tool.name)
def test_a_schema_is_closed_and_describes_every_argument(tool):
    schema = tool.parameters
    assert schema["additionalProperties"] is False
    assert set(schema["required"]) <= set(schema["properties"])
    assert all(one["description"] for one in schema["properties"].values())


@pytest.mark.parametrize(
    ("name", "args", "said"),
    [
        ("remove_file", {}, "available: run_cmd"),
        ("readfile", {}, "Did you mean read_file?"),
        ("read_file", {}, "needs path"),
        ("read_file", {"path": 3}, "path must be a string, not int"),
        ("read_file", {"path": "x", "start_line": 0}, "at least 1"),
        ("read_file", {"path": "x", "start_line": "two"}, "whole number"),
        ("read_file", {"path": "x", "lines": 3}, "no argument lines"),
        ("run_cmd", {"cmd": []}, "a string or a list of strings"),
        ("run_cmd", {"cmd": ["a", 1]}, "a string or a list of strings"),
        ("run_cmd", {"cmd": "x", "timeout_s": True}, "a number"),
        ("write_file", {"path": "x", "content": None}, "content must be a string"),
    ],
)
def test_a_wrong_call_is_refused_in_words(name, args, said):
    with pytest.raises(registry.BadArgumentsError, match=said):
        registry.check_arguments(name, args)


def test_every_tool_is_carried_out_by_the_executor_or_by_the_daemon():
    of_the_daemon = {"finish", "recall"}
    assert set(registry.CARRIED_OUT) == {tool.name for tool in tools.TOOLS} - of_the_daemon
