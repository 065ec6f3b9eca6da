"""Arguments as small models write them, and what they become before they are proposed."""

import pytest

from clew_shared.tools import BY_NAME
from clew_worker.agent.json_mode import fitted


def test_right_arguments_stay_as_they_are():
    args = {"path": "a.py", "content": "print('```')\n"}
    assert fitted(BY_NAME["write_file"], args) == args


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


def test_an_option_of_zero_is_left_out_where_only_more_is_possible():
    edit = {"path": "a", "old": "x", "new": "y"}
    assert fitted(BY_NAME["edit_file"], edit | {"count": 0}) == edit
    assert fitted(BY_NAME["edit_file"], edit | {"count": 2})["count"] == 2
    assert fitted(BY_NAME["edit_file"], edit | {"count": False})["count"] is False
    assert fitted(BY_NAME["run_cmd"], {"cmd": "ls", "timeout_s": 0})["timeout_s"] == 0


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


def test_a_text_is_written_as_it_was_given():
    args = {"path": "a.py", "content": "```python\nprint(1)\n```"}
    assert fitted(BY_NAME["write_file"], args) == args
