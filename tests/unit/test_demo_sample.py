"""The demo's files are right wherever the Python that runs clew lies."""

import shlex
import tomllib
from pathlib import Path

import pytest

from clew_daemon.cli.commands.demo import furnish, goal_files
from clew_daemon.inbox.goalfile.parse import parse

PLACES = ["/usr/bin", "/a folder/of mine", '/it\'s "mine"', "/a: b #c", "/Zoë 測試 🧵", "/100%{}"]


@pytest.mark.parametrize("folder", PLACES)
def test_the_demos_goal_and_config_name_a_python_at_any_path(folder, tmp_path):
    python = f"{folder}/python"
    files, tests = goal_files(tmp_path, python), ["-m", "unittest", "-q"]
    goal = parse(files["mathx.md"], "mathx.md", ["default", "stubborn"])
    assert shlex.split(dict(goal.checks)["tests_pass"]) == [python, *tests, "test_mathx"]
    furnish(tmp_path, python)
    shop = Path(parse(files["change.md"], "change.md", ["default", "stubborn"]).workspace)
    told = shlex.split((shop / "check.sh").read_text(encoding="utf-8"))
    assert told == ["exec", python, *tests, "test_change"]
    config = tomllib.loads((tmp_path / "config.toml").read_text(encoding="utf-8"))
    assert config["agents"]["stubborn"]["command"][0] == python
