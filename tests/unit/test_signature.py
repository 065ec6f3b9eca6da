"""When two actions are the same action."""

import json
import re

import pytest

from clew_shared.record.signature import signature


def test_it_is_the_name_and_canonical_json():
    assert signature("run", {"b": 1, "a": [True, None]}) == 'run::{"a":[true,null],"b":1}'


def test_no_args_are_an_empty_object():
    assert signature("ls", {}) == "ls::{}"


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


def test_what_is_not_called_a_path_is_left_alone():
    assert signature("t", {"cmd": "./a/"}) != signature("t", {"cmd": "a"})


def test_paths_in_a_list_are_normalised():
    assert signature("t", {"path": ["./a", "b/"]}) == signature("t", {"path": ["a", "b"]})


def test_the_workspace_itself_is_a_dot_and_its_neighbour_is_not_in_it():
    assert signature("t", {"path": "/w/s/"}, "/w/s") == 't::{"path":"."}'
    assert signature("t", {"path": "/w/other"}, "/w/o") == 't::{"path":"/w/other"}'


def test_white_space_at_the_ends_of_lines_is_dropped_and_before_them_kept():
    assert signature("t", {"s": "a  \n  b\t\r\n"}) == signature("t", {"s": "a\n  b\n"})
    assert signature("t", {"s": " a"}) != signature("t", {"s": "a"})


def test_two_hundred_characters_are_shown_and_more_are_a_digest():
    assert "x" * 200 in signature("t", {"s": "x" * 200})
    shown = json.loads(signature("t", {"s": "x" * 201}).partition("::")[2])["s"]
    assert shown.startswith("sha256:")
    assert len(shown) == len("sha256:") + 16


def test_long_texts_that_differ_at_their_ends_differ():
    assert signature("t", {"s": "x" * 500 + "1"}) != signature("t", {"s": "x" * 500 + "2"})


def test_arguments_that_are_long_in_all_are_a_digest():
    numbers = list(range(80_000))
    assert re.fullmatch("t::sha256:[0-9a-f]{16}", signature("t", {"of": numbers}))
    assert signature("t", {"of": numbers}) != signature("t", {"of": [*numbers, 1]})


def test_a_whole_number_is_one_number_however_it_is_written():
    assert signature("t", {"n": 5.0}) == signature("t", {"n": 5}) != signature("t", {"n": 5.5})


def test_true_is_not_one():
    assert signature("t", {"n": True}) != signature("t", {"n": 1})


@pytest.mark.parametrize("odd", ["\ud800", "\0", "é\n", 10**400, 1e308, {"k": []}])
def test_odd_values_have_a_signature(odd):
    assert signature("t", {"v": odd}).startswith("t::")
