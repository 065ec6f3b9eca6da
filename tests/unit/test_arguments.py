"""Arguments as small models write them, and what they become before they are proposed."""

import pytest

from clew_shared.tools import BY_NAME
from clew_worker.agent.json_mode import fitted


@pytest.mark.parametrize(
    ("tool", "given", "meant"),
    [
        ("write_file", {"filename": "a", "text": "x"}, {"path": "a", "content": "x"}),
        ("read_file", {"file_path": "a"}, {"path": "a"}),
        ("run_cmd", {"command": "ls"}, {"cmd": "ls"}),
        (
            "edit_file",
            {"path": "a", "old_string": "x", "new_string": "y"},
            {"path": "a", "old": "x", "new": "y"},
        ),
    ],
)
def test_another_common_name_of_an_argument_is_understood(tool, given, meant):
    assert fitted(BY_NAME[tool], given) == meant


def test_an_object_as_the_content_of_a_file_is_written_as_json():
    given = {"path": "package.json", "content": {"name": "app", "private": True}}
    content = fitted(BY_NAME["write_file"], given)["content"]
    assert content == '{\n  "name": "app",\n  "private": true\n}\n'


def test_a_list_of_lines_as_the_content_of_a_file_is_its_lines():
    given = {"path": "a.txt", "content": ["one", "two"]}
    assert fitted(BY_NAME["write_file"], given)["content"] == "one\ntwo\n"


@pytest.mark.parametrize(("cmd", "meant"), [(["ls -la"], "ls -la"), (["ls", "-la"], ["ls", "-la"])])
def test_a_command_in_a_list_of_one_is_a_command_line(cmd, meant):
    assert fitted(BY_NAME["run_cmd"], {"cmd": cmd}) == {"cmd": meant}
