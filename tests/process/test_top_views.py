"""The views of `clew top` beside a real daemon: prompts turn by turn, and what a goal has changed."""

import os
import time

from llm_server import Reply, ScriptedLlm, calls

from clew_daemon.reading.instance import Instance
from clew_daemon.top.app import TopApp
from clew_daemon.top.files_screen import FilesScreen
from clew_daemon.top.prompt_screen import PromptScreen
from clew_daemon.top.tables import TextPage

WITHIN_S = 60.0
HOSTILE = "[bold]x[/] \\x1b[2J"
WRITES = """\
# Write two files
## Do
- [ ] Write
  ```python file=one.py
  print(1)
  ```
- [ ] Write another
  ```sh
  printf '[bold]x[/] \\033[2J\\n' > two.txt
  ```
"""
SCRIPT = [calls(("run_cmd", {"cmd": f"seq {n} {n + 5}; echo {n} >> log"})) for n in range(3)]


async def until(pilot, condition):
    deadline = time.monotonic() + WITHIN_S
    while time.monotonic() < deadline:
        await pilot.pause(0.02)
        if found := condition():
            return found
    raise AssertionError(f"not reached; the screen is {pilot.app.screen}")


def shown(app):
    """All text of the page."""
    return "\n".join(page.render().plain for page in app.screen.query(TextPage))


def command(app):
    return app.screen.query_one(".command").render().plain


async def opened(pilot, key, kind):
    """Open a view once the goal is there."""
    await until(pilot, lambda: getattr(pilot.app.screen, "goal", None))
    await pilot.press(key)
    await until(pilot, lambda: isinstance(pilot.app.screen, kind))


async def test_what_a_goal_has_changed_is_shown_file_by_file_and_is_only_text(clew):
    goal = clew.start().submit(WRITES)
    clew.wait("goal.completed", goal=goal)
    app = TopApp(Instance.of(clew.home, os.environ), goal)
    async with app.run_test(size=(80, 12)) as pilot:
        await opened(pilot, "4", FilesScreen)
        await until(pilot, lambda: "2 files changed: 2 lines added" in shown(app))
        assert f"+{HOSTILE}" in shown(app)
        assert "\x1b" not in shown(app)


async def test_the_prompt_of_each_turn_is_shown_with_what_is_new_in_it(clew):
    with ScriptedLlm(*SCRIPT, then=Reply(hang=True)) as llm:
        agent = {"kind": "llm", "base_url": llm.base_url, "model": "scripted", "mode": "tools"}
        clew.configure({f"agents.scripted.{key}": value for key, value in agent.items()})
        goal = clew.start().submit("---\nagent: scripted\n---\n# Count in the log\n")
        clew.until(lambda: len(llm.requests) > len(SCRIPT), "the question that hangs")
        app = TopApp(Instance.of(clew.home, os.environ), goal)
        async with app.run_test(size=(80, 24)) as pilot:
            await opened(pilot, "3", PromptScreen)
            await until(pilot, lambda: "Turn 4 of 4 (the next call)" in shown(app))
            assert "== system (same, 1 line)\n==" in shown(app)
            assert '+ -> run_cmd {"cmd": "seq 2 7; echo 2 >> log"}' in shown(app)
            await pilot.press("b")
            await until(pilot, lambda: "Turn 3 of 4" in shown(app))
            assert command(app) == f"$ clew context {goal} --turn 3"
            await pilot.press("a")
            await until(pilot, lambda: "  You do a goal in a working folder" in shown(app))
            assert shown(app).splitlines() == clew.cli(*command(app).split()[2:]).splitlines()
            await pilot.press("n")
            await until(pilot, lambda: "Turn 4 of 4" in shown(app))
            assert command(app) == f"$ clew context {goal}"
