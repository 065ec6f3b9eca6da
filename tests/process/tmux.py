"""A real terminal of 80 by 24: a tmux server of its own, whose keys are pressed and whose screen is read."""

import shlex
import subprocess


class Terminal:
    """A tmux server of its own, with one window."""

    def __init__(self, name):
        self.name = name
        self.run("new-session", "-d", "-x", "80", "-y", "24", "sleep 600")

    def _tmux(self, *args, check):
        command = ["tmux", "-L", self.name, "-f", "/dev/null", *args]
        return subprocess.run(command, capture_output=True, text=True, check=check)

    def run(self, *args):
        return self._tmux(*args, check=True).stdout

    def is_open(self):
        """Whether its program runs: the server ends with its last window."""
        return self._tmux("list-panes", check=False).returncode == 0

    def close(self):
        self._tmux("kill-server", check=False)

    def start(self, argv, env):
        variables = [word for key, value in env.items() for word in ("-e", f"{key}={value}")]
        self.run("respawn-window", "-k", *variables, shlex.join(argv))

    def screen(self):
        return self.run("capture-pane", "-p")

    def press(self, *keys):
        self.run("send-keys", *keys)

    def click(self, column, row):
        """Press and release the mouse at a cell, counted from 0, as terminals report it (SGR)."""
        for end in "Mm":
            self.run("send-keys", "-l", f"\x1b[<0;{column + 1};{row + 1}{end}")
