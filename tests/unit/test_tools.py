"""The tools: files of the workspace and of no other, what is kept of an output, schemas, and wrong arguments."""

import inspect
import os
import socket
import stat

import pytest

from clew_shared import tools
from clew_worker.executor.commands import Capture, Commands, Wire, clean, cut
from clew_worker.executor.tools import registry
from clew_worker.executor.tools.files import ToolContext
from clew_worker.executor.tools.registry import carry_out
from clew_worker.executor.workspace import Workspace
from clew_worker.sandbox import kernel


@pytest.fixture(params=["openat2", "walk"])
def tool(tmp_path, request, monkeypatch):
    """Carry out a tool in an empty workspace, with and without the kernel's openat2."""
    if request.param == "walk":

        def without(path, *_args, **_options):
            raise OSError(38, "no openat2", path)

        monkeypatch.setattr(kernel, "open_beneath", without)
    (tmp_path / "ws").mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("secret")
    workspace = Workspace(str(tmp_path / "ws"))
    ours, theirs = socket.socketpair()
    wire = Wire(ours)
    commands = Commands.__new__(Commands)

    def run(name, output_bytes=65536, **args):
        context = ToolContext(workspace, commands, wire, 10.0, output_bytes)
        return carry_out(name, args, context)

    yield run
    workspace.close()
    ours.close()
    theirs.close()


@pytest.mark.parametrize("name", registry.CARRIED_OUT)
def test_a_tool_takes_each_argument_that_its_schema_names(name):
    given = tools.BY_NAME[name].parameters["properties"]
    assert given.keys() <= inspect.signature(registry.CARRIED_OUT[name]).parameters.keys()


@pytest.fixture
def ws(tmp_path, tool):
    return tmp_path / "ws"


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_created_changed_and_left_unchanged(tool, ws):
    said = [tool("write_file", path="a/b.txt", content=text) for text in ("x\ny", "x", "xy", "xy")]
    assert [one.output for one in said] == [
        "created a/b.txt (3 bytes)",
        "changed a/b.txt (1 bytes); no longer in it: `y`",
        "changed a/b.txt (2 bytes)",
        "unchanged a/b.txt (2 bytes)",
    ]
    assert [one.changed for one in said] == [True, True, True, False]
    assert (ws / "a" / "b.txt").read_text() == "xy"


def test_writing_keeps_the_mode_and_leaves_no_draft(tool, ws):
    (ws / "run").write_text("old")
    (ws / "run").chmod(0o750)
    tool("write_file", path="run", content="new")
    assert stat.S_IMODE((ws / "run").stat().st_mode) == 0o750
    assert names(ws) == ["run"]


def test_writing_through_a_link_writes_where_it_leads(tool, ws):
    (ws / "real").write_text("old")
    (ws / "link").symlink_to("real")
    assert tool("write_file", path="link", content="new").result == "success"
    assert (ws / "link").is_symlink()
    assert (ws / "real").read_text() == "new"


READING_OR_WRITING = {
    "read_file": {},
    "write_file": {"content": "x"},
    "edit_file": {"old": "secret", "new": "x"},
    "list_files": {},
    "search": {"pattern": "secret"},
}


@pytest.mark.parametrize(
    "path", ["../outside/secret", "file-link", "folder-link/secret", "/etc/hostname", "a/../../x"]
)
def test_a_path_outside_is_an_error_that_says_so(tool, ws, tmp_path, path):
    (ws / "file-link").symlink_to("../outside/secret")
    (ws / "folder-link").symlink_to(tmp_path / "outside")
    for name, args in READING_OR_WRITING.items():
        outcome = tool(name, path=path, **args)
        assert outcome.result == "error"
        assert "outside the workspace" in outcome.output
    assert (tmp_path / "outside" / "secret").read_text() == "secret"
    assert names(tmp_path / "outside") == ["secret"]


def test_what_cannot_be_read_is_an_error_that_names_it(tool, ws):
    (ws / "folder").mkdir()
    os.mkfifo(ws / "pipe")
    (ws / "binary").write_bytes(b"\x7fELF\0\0")
    for path in ("gone", "gone/too", "folder", "pipe", "binary"):
        outcome = tool("read_file", path=path)
        assert outcome.result == "error"
        assert path in outcome.output


def test_an_edit_shows_a_short_diff(tool, ws):
    (ws / "f").write_text("one\ntwo\nthree\n")
    outcome = tool("edit_file", path="f", old="two", new="2")
    assert outcome.result == "success"
    assert "-two\n+2\n" in outcome.output
    assert (ws / "f").read_text() == "one\n2\nthree\n"


@pytest.mark.parametrize(
    ("old", "said"),
    [
        ("def ad(a, b):", "1: def add(a, b):"),
        ("return  a+b", "white space"),
        ("zzzzzz", "read the file"),
        ("", "old is empty"),
    ],
)
def test_an_edit_of_what_is_not_there_helps(tool, ws, old, said):
    (ws / "f").write_text("def add(a, b):\n    return a + b\n")
    outcome = tool("edit_file", path="f", old=old, new="x")
    assert outcome.result == "error"
    assert said in outcome.output


def test_a_search_gives_file_line_and_text(tool, ws):
    (ws / "sub").mkdir()
    (ws / "sub" / "f.py").write_text("import os\n\n  value = os.getcwd()\n")
    (ws / "binary").write_bytes(b"os.\0")
    assert tool("search", pattern=r"os\.\w+").output == "sub/f.py:3: value = os.getcwd()"
    assert tool("search", pattern="import", path="sub/f.py").output == "sub/f.py:1: import os"


def test_a_pattern_that_never_ends_is_stopped(tool, ws, monkeypatch):
    monkeypatch.setattr(registry, "_SEARCH_S", 0.2)
    (ws / "f").write_text("a" * 60 + "b\n")
    assert tool("search", pattern="(a|a)+$").result == "timeout"


@pytest.mark.parametrize("piece", [1, 3, 7, 1000])
def test_the_pieces_in_which_it_comes_make_no_difference(piece):
    data = bytes(range(32, 127)) * 20
    whole, parts = Capture(100), Capture(100)
    whole.add(data)
    for at in range(0, len(data), piece):
        parts.add(data[at : at + piece])
    assert whole.text() == parts.text()


@pytest.mark.parametrize("limit", range(9, 25))
def test_a_cut_tears_no_character(limit):
    text = cut("aé€\N{GRINNING FACE}" * 20, limit)
    assert "\N{REPLACEMENT CHARACTER}" not in text


def test_control_characters_are_replaced_and_colours_kept():
    assert clean("a\0b\x1b[31mc\td\r\n\ud800") == "a\ufffdb\x1b[31mc\td\r\n\ufffd"


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
