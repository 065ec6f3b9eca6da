"""The files of the home of `clew demo`: a config, a sample goal, and one whose agent loops."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

from clew_daemon.cli.commands.demo import stubborn_agent

PAUSE_S = 0.4
"""The length of each step, so that there is something to see, and to kill."""

_CONFIG = """\
[daemon]
settle_s = 0.05

[heartbeat]
interval_s = 0.2

[restart]
backoff_initial_s = 0.05
backoff_max_s = 0.5
max_restarts = 20

[sandbox]
mode = "best_effort"

[agents.stubborn]
kind = "command"
command = {command}
"""

_GOAL = """\
---
on_interrupt: retry
checks:
  pkg_exists: test -f mathx/__init__.py
  tests_pass: {check}
---
# Create mathx package with an add function and tests

A sample goal. Its blocks are its actions, so that it needs no LLM: the runbook agent proposes them
one by one, the daemon judges and records each, and the executor carries it out.

## Create package structure

- [ ] Create mathx/__init__.py
  ```python file=mathx/__init__.py
  from mathx.sums import add

  __all__ = ["add"]
  ```
  ```sh
  sleep {pause_s}
  ```
- [ ] Create mathx/sums.py
  ```python file=mathx/sums.py
  def add(a, b):
      return a + b
  ```
  ```sh
  sleep {pause_s}; {python} -c "import mathx; print(mathx.add(2, 3))"
  ```

## Add tests

- [ ] Write the tests
  ```python file=test_mathx.py
  import unittest

  from mathx import add


  class Adding(unittest.TestCase):
      def test_two_numbers(self):
          self.assertEqual(add(2, 3), 5)
  ```
  ```sh
  sleep {pause_s}; test -s test_mathx.py
  ```
- [ ] Run the tests
  ```sh
  sleep {pause_s}; {python} -m unittest -v
  ```
"""

_LOOPING_GOAL = """\
---
agent: stubborn
workspace: {workspace}
checks:
  tests_pass: sh check.sh
---
Fix change.py, so that the tests in test_change.py pass.

The agent of this goal says that it is done before it is, and goes in circles on purpose, to show how that ends. The
tests were there before it: what it says itself decides nothing.
"""

_FAULTY = {
    "check.sh": """\
exec {python} -m unittest -q test_change
""",
    "change.py": """\
def change(paid, price):
    return price - paid
""",
    "test_change.py": """\
import unittest

from change import change


class Change(unittest.TestCase):
    def test_what_was_paid_too_much_comes_back(self):
        self.assertEqual(change(10, 7), 3)
""",
}
"""The workspace of the looping goal before its agent has done anything."""


def furnish(home: Path, python: str) -> None:
    """Write the config of the demo, and the files that the looping goal begins with, into its home."""
    command = [python, "-I", str(Path(stubborn_agent.__file__).resolve())]
    text = _CONFIG.format(command=_quoted(command))
    home.joinpath("config.toml").write_text(text, encoding="utf-8")
    _shop(home).mkdir()
    for name, content in _FAULTY.items():
        text = content.replace("{python}", shlex.quote(python))
        (_shop(home) / name).write_text(text, encoding="utf-8")


def _shop(home: Path) -> Path:
    return home / "shop"


def goal_files(home: Path, python: str) -> dict[str, bytes]:
    """Return the goal files by name."""
    command = shlex.quote(python)
    check = _quoted(f"{command} -m unittest -q test_mathx")
    sample = _GOAL.format(python=command, check=check, pause_s=PAUSE_S)
    looping = _LOOPING_GOAL.format(workspace=_quoted(str(_shop(home))))
    return {"mathx.md": sample.encode(), "change.md": looping.encode()}


def _quoted(value: object) -> str:
    """Return a value as TOML and YAML write it."""
    return json.dumps(value, ensure_ascii=False)
