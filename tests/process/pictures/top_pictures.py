"""The pictures of `clew top`, taken in a real terminal: a recording, and stills of its views."""

import time

from terminal_svg import Frame, picture
from tmux import Terminal

COLUMNS, ROWS = 80, 24
TITLE = (
    "clew top, recorded: what needs you, why an action was refused, what a goal changed, an answer"
)
LOOK_S = 0.4
"""A screen is taken once it stays the same for this time."""


class Camera:
    """Presses keys in a terminal and keeps what it shows."""

    def __init__(self, clew, terminal):
        self.clew, self.terminal = clew, terminal
        self.frames = []

    def take(self, *keys, until, seconds=2.0):
        """Press keys, wait until all of these texts are shown, and keep the screen for some seconds."""
        for key in keys:
            self.terminal.press(key)
            time.sleep(LOOK_S)  # an Esc is a key of its own only if nothing follows it at once
        self.clew.until(lambda: all(text in self.terminal.screen() for text in until), str(until))
        self.frames.append(Frame(self._settled(), seconds))
        return self.frames[-1]

    def _settled(self):
        before, now = "", self.terminal.screen(styled=True)
        while now != before:
            time.sleep(LOOK_S)
            before, now = now, self.terminal.screen(styled=True)
        return now


def write(clew, shown, folder):
    """Write top.svg, the recording, and a still of each view of a goal."""
    terminal = Terminal("clew-pictures")
    try:
        env = {key: clew.environment()[key] for key in ("PATH", "HOME")}
        env |= {"TERM": "tmux-256color", "COLORTERM": "truecolor", "LANG": "C.UTF-8"}
        terminal.start(clew.command("top"), env)
        pictures = play(Camera(clew, terminal), shown)
    finally:
        terminal.close()
    for name, text in pictures.items():
        (folder / f"{name}.svg").write_text(text)


def play(camera, shown):
    """Find which goal needs an answer, why one was refused, what one changed, and answer; the pictures by name."""
    camera.take(until=["Which of the two ports", shown.looping], seconds=4)
    camera.take("Down", "Down", "Down", "Down", until=["choosing the next step"], seconds=1.5)
    goal = camera.take("Enter", until=[shown.looping, "epoch 2", "wc answer"], seconds=3)
    camera.take("2", until=["at work", "killed by SIGKILL"], seconds=2)
    timeline = camera.take(until=["refused"], seconds=2.5)
    camera.take("Escape", until=["sum-up-commits"], seconds=0.5)
    camera.take("End", "Up", until=[shown.changing], seconds=1.5)
    camera.take("Enter", until=[shown.changing, "sed -i"], seconds=1.5)
    files = camera.take("4", until=["3 files changed"], seconds=4)
    camera.take("Escape", until=["sum-up-commits"], seconds=0.5)
    camera.take("Home", until=["Which of the two ports"], seconds=1.5)
    camera.take("f", until=["Your message to the agent"], seconds=1)
    camera.terminal.press("-l", "Take 8080")
    camera.take(until=["Take 8080"], seconds=1.5)
    camera.take("Enter", until=["Run this?"], seconds=2.5)
    camera.terminal.press("y")
    camera.clew.wait("goal.completed", goal=shown.asking)
    camera.take(until=[shown.asking, "completed"], seconds=4)
    return {
        "top": picture(camera.frames, TITLE, COLUMNS, ROWS),
        "top-goal": picture([goal], "clew top: a goal", COLUMNS, ROWS),
        "top-timeline": picture([timeline], "clew top: the timeline of a goal", COLUMNS, ROWS),
        "top-files": picture([files], "clew top: what a goal has changed", COLUMNS, ROWS),
    }
