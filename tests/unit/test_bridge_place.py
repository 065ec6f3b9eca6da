"""The private HOME of a coding agent's CLI, and which program it really is."""

import os
from pathlib import Path

import pytest

from clew_worker.bridge.place import clear
from clew_worker.bridge.turn import Conversation
from clew_worker.sandbox import interpreter


def test_only_the_sessions_survive_and_no_link_is_followed(tmp_path):
    home, outside = tmp_path / "home", tmp_path / "outside"
    (home / ".codex" / "sessions" / "2026").mkdir(parents=True)
    (home / ".codex" / "sessions" / "2026" / "one.jsonl").write_text("{}")
    (home / ".codex" / "config.toml").write_text("old")
    (home / ".cache").mkdir()
    outside.mkdir()
    (outside / "precious").write_text("x")
    (home / "link").symlink_to(outside)
    clear(home, (".codex/sessions",))
    left = sorted(str(path.relative_to(home)) for path in home.rglob("*"))
    sessions = ".codex/sessions"
    assert left == [".codex", sessions, f"{sessions}/2026", f"{sessions}/2026/one.jsonl"]
    assert (outside / "precious").exists()


def test_a_link_in_the_place_of_the_sessions_is_removed(tmp_path):
    home, outside = tmp_path / "home", tmp_path / "outside"
    home.mkdir()
    outside.mkdir()
    (home / "sessions").symlink_to(outside)
    clear(home, ("sessions",))
    assert not os.path.lexists(home / "sessions")


@pytest.mark.parametrize("package", ["@maker/coder", "coder", "coder-ai"])
@pytest.mark.parametrize("nested", [False, True])
def test_the_program_in_an_npm_package_is_started_without_its_script(tmp_path, package, nested):
    modules = tmp_path / "node_modules"
    script = modules / package / "bin" / "coder.js"
    machine = "x64" if os.uname().machine == "x86_64" else "arm64"
    beside = modules / package / "node_modules" if nested else modules
    real = beside / Path(package).parent / f"coder-linux-{machine}" / "bin" / "coder"
    for path in (script, real):
        path.parent.mkdir(parents=True)
    (modules / package / "package.json").write_text("{}")
    script.write_text("#!/usr/bin/env node\n")
    real.write_bytes(b"\x7fELF")
    real.chmod(0o755)
    link = modules / ".bin" / "coder"
    link.parent.mkdir()
    link.symlink_to(script)
    assert interpreter.native(str(link)) == str(real)
    assert interpreter.native(str(script)) == str(real)


def test_a_conversation_continues_in_its_attempt_and_in_the_next_subtask_only():
    held = Conversation.read(Conversation(id="s1", attempt=(0, 1, 1)).model_dump_json())
    assert held.continues((0, 1, 1))
    assert held.continues((0, 2, 1))
    assert not held.continues((0, 1, 2))


def test_what_a_cli_wrote_in_its_place_is_no_conversation():
    for text in (None, "", "[]", "{", '{"id": 1}', '{"id": "x", "attempt": "abc"}'):
        assert not Conversation.read(text).continues((0, 0, 1))
