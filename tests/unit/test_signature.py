"""When two actions are the same action."""

import json

import pytest

from clew_shared.record.signature import signature


def test_it_is_the_name_and_canonical_json():
    assert signature("run", {"b": 1, "a": [True, None]}) == 'run::{"a":[true,null],"b":1}'


def test_the_order_of_the_args_makes_no_difference():
    assert signature("t", {"a": {"x": 1, "y": 2}, "b": 3}) == signature(
        "t", {"b": 3, "a": {"y": 2, "x": 1}}
    )


@pytest.mark.parametrize(
    "path",
    ["src/a.py", "./src/a.py", "src//a.py", "src/x/../a.py", "/w/s/src/a.py", "//w/s/src/a.py"],
)
def test_paths_are_normalised_against_the_workspace(path):
    assert signature("read_file", {"path": path}, "/w/s") == 'read_file::{"path":"src/a.py"}'


@pytest.mark.parametrize(
    "key", ["path", "file_path", "cwd", "source_path", "out_dir", "config_file"]
)
def test_what_is_called_a_path_is_one(key):
    assert signature("t", {key: "./a/"}) == signature("t", {key: "a"})


def test_white_space_at_the_ends_of_lines_is_dropped_and_before_them_kept():
    assert signature("t", {"s": "a  \n  b\t\r\n"}) == signature("t", {"s": "a\n  b\n"})
    assert signature("t", {"s": " a"}) != signature("t", {"s": "a"})


def test_two_hundred_characters_are_shown_and_more_are_a_digest():
    assert "x" * 200 in signature("t", {"s": "x" * 200})
    shown = json.loads(signature("t", {"s": "x" * 201}).partition("::")[2])["s"]
    assert shown.startswith("sha256:")
    assert len(shown) == len("sha256:") + 16


def test_a_whole_number_is_one_number_however_it_is_written():
    assert signature("t", {"n": 5.0}) == signature("t", {"n": 5}) != signature("t", {"n": 5.5})


def test_true_is_not_one():
    assert signature("t", {"n": True}) != signature("t", {"n": 1})
