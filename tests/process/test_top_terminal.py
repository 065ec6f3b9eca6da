"""`clew top` in a real terminal of 80 by 24, by keys and the mouse, beside a daemon that is killed and comes back."""

import os
import shutil
import time

import pytest
from harness import runbook
from textual.widgets import Static
from tmux import Terminal

from clew_daemon.reading.instance import Instance
from clew_daemon.top.app import TopApp
from clew_daemon.top.goal_views import FilesScreen
from clew_daemon.top.goals_screen import ActionScreen, GoalScreen
from clew_daemon.top.screens import RowTable

WITHIN_S = 60.0
HOSTILE = "[bold]x[/] \x1b[2J\u202e [link=x]"
SHOWN = HOSTILE.replace("\x1b", "\\x1b").replace("\u202e", "\\u202e")


@pytest.fixture
def terminal():
    """Made before the home: its server is none of the daemon's processes."""
    if shutil.which("tmux") is None:
        pytest.skip("tmux is not installed")
    one = Terminal(f"clew-{os.getpid()}")
    yield one
    one.close()


def test_a_goal_is_paused_by_keys_and_the_end_of_the_daemon_is_said(terminal, make_clew):
    clew = make_clew().start()
    goal = clew.submit(runbook("until test -e go; do sleep 0.02; done", on_interrupt="retry"))
    clew.wait("action.allowed", goal=goal)
    env = {key: clew.environment()[key] for key in ("PATH", "HOME") if key in clew.environment()}
    terminal.start(clew.command("top"), env | {"TERM": "tmux-256color", "LANG": "C.UTF-8"})

    def shows(*texts):
        clew.until(
            lambda: all(text in terminal.screen() for text in texts), f"{texts} on the screen"
        )

    shows("clew status", goal[:20], "in_progress")
    terminal.press("Enter")
    shows(f"clew status {goal}", "until test -e go", "running")
    terminal.press("2")
    shows(f"clew history {goal}", "epoch", "at work", "> running")
    terminal.press("3")
    shows(f"clew context {goal}", "Turn 1 of 1", "Take steps")
    terminal.press("4")
    shows(f"clew diff {goal}", "no changes")
    terminal.click(column=1, row=1)
    shows(f"clew status {goal}")
    for key, command, unconfirmed in (("p", "pause", "n"), ("c", "cancel", "Enter")):
        terminal.press(key)
        shows(f"$ clew {command} {goal}")
        terminal.press(unconfirmed)
        clew.until(lambda: "Run this?" not in terminal.screen(), "the end of the question")
    terminal.press("p")
    shows(f"$ clew pause {goal}")
    terminal.press("y")
    clew.wait("goal.waiting", goal=goal)
    shows("paused")
    clew.kill()
    shows("the daemon has ended")
    clew.start()
    clew.until(lambda: "the daemon has ended" not in terminal.screen(), "the daemon is back")
    terminal.press("r")
    shows(f"$ clew continue {goal}")
    terminal.press("y")
    clew.wait("goal.started", goal=goal, count=2)
    (clew.workspace(goal) / "go").touch()
    clew.wait("goal.completed", goal=goal)
    assert len(clew.seen("goal.waiting", goal=goal)) == 1
    shows("completed")
    terminal.press("q")
    clew.until(lambda: not terminal.is_open(), "the end")


class Top:
    """The running app, without a terminal."""

    def __init__(self, app, pilot):
        self.app, self.pilot = app, pilot

    async def until(self, condition):
        deadline = time.monotonic() + WITHIN_S
        while time.monotonic() < deadline:
            await self.pilot.pause(0.02)
            if found := condition():
                return found
        raise AssertionError(f"not reached; the screen is {self.app.screen}: {self.text('.note')}")

    async def opened(self, key, kind, *texts):
        """Press a key, and wait for a screen of that kind that shows these texts."""
        await self.pilot.press(key)
        await self.until(lambda: isinstance(self.app.screen, kind))
        await self.until(lambda: all(text in self.text() for text in texts))
        assert "\x1b" not in self.text()

    def rows(self):
        return list(self.app.screen.query_one(RowTable)._shown)

    def text(self, selector=".page"):
        return "\n".join(
            page.render().plain for page in self.app.screen.query(selector).results(Static)
        )


async def test_what_needs_a_person_comes_first_and_what_an_agent_wrote_is_only_text(clew):
    clew.agent("asks", f"""hello()\ncall("ask", question={HOSTILE!r})""")
    clew.start()
    done = clew.completed(runbook("printf '[bold]x[/] \\033[2J\\n' | tee two.txt", title="Write"))
    asks = clew.submit("---\nagent: asks\n---\n# Ask\n")
    clew.until(lambda: clew.goal(asks)["status"] == "blocked", "the question")
    later = clew.submit(runbook("true", title="Later", depends_on=f"[{asks}]"))
    app = TopApp(Instance.of(clew.home, os.environ))
    async with app.run_test(size=(80, 12)) as pilot:
        top = Top(app, pilot)
        await top.until(lambda: app.screen.query(RowTable) and top.rows() == [asks, later, done])
        await top.opened("enter", GoalScreen, SHOWN)
        await pilot.press("escape", "end")
        await top.opened("enter", GoalScreen, "Write")
        await top.until(top.rows)
        await top.opened("4", FilesScreen, "1 file, +1 -0", "+[bold]x[/] \\x1b[2J")
        await pilot.press("1")
        await top.until(lambda: isinstance(app.screen, GoalScreen) and top.rows())
        await top.opened("enter", ActionScreen, "[bold]x[/] \\x1b[2J")


async def test_without_a_daemon_it_says_so_and_shows_what_is_on_record(clew):
    done = clew.start().completed(runbook("true"))
    clew.stop()
    app = TopApp(Instance.of(clew.home, os.environ))
    async with app.run_test(size=(80, 12)) as pilot:
        top = Top(app, pilot)
        await top.until(lambda: "no daemon is running" in top.text(".note"))
        await top.until(lambda: top.rows() == [done])
