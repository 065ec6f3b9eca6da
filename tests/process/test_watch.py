"""`clew watch` and `submit --wait` with a real daemon: nothing is missed, one can leave and come back."""

import json
import signal
import threading

import pytest
from harness import DEADLINE_S, runbook, until
from terminal import Terminal

MANY = 25
QUICK = runbook(*(f"echo number {n}" for n in range(MANY)), title="Count")
WAITS = "echo begun > begun; until test -e go; do sleep 0.02; done; echo went on"
GATED = runbook(WAITS, "echo the end", title="Wait for a sign", on_interrupt="retry")


class Watching:
    """A `clew …` that runs beside the test; what it has printed so far."""

    def __init__(self, clew, *args, given=""):
        self.clew = clew
        self.process, self.printed = clew.beside(clew.command(*args), given)
        self.lines = []
        self._reading = threading.Thread(target=self._read)
        self._reading.start()

    def _read(self):
        for line in self.printed:
            self.lines.append(line.rstrip("\n"))

    @property
    def text(self):
        return "\n".join(self.lines)

    def until(self, text):
        """Wait until a line has that text in it; the line."""
        return until(lambda: [e for e in self.lines if text in e], repr(text), lambda: self.text)[0]

    def end(self, signum=None):
        """Wait for its end, after a signal where one is given; the exit code."""
        if signum:
            self.process.send_signal(signum)
        code = self.process.wait(DEADLINE_S)
        self._reading.join(DEADLINE_S)
        return code


@pytest.fixture
def watching(clew):
    started = []

    def start(*args, given=""):
        started.append(Watching(clew, *args, given=given))
        return started[-1]

    yield start
    for one in started:
        if one.process.poll() is None:
            one.process.kill()
        one.end()
        one.printed.close()


def gate(clew, goal):
    """Wait until the goal stands at its gate; the file that opens it."""
    folder = clew.workspace(goal)
    clew.until((folder / "begun").exists, "the beginning")
    return folder / "go"


def test_every_action_appears_with_its_output_however_short_it_was(clew, watching):
    clew.start()
    seen = watching("submit", "--wait", "-", given=QUICK)
    assert seen.end() == 0
    goal = seen.lines[0]
    actions = json.loads(clew.clew("history", goal, "--json"))["actions"]
    assert len(actions) == MANY
    for number, action in enumerate(actions):
        one = f"{goal}: #{action['seq']}"
        assert [line for line in seen.lines if line.startswith(f"{one} echo")]
        ended = [line for line in seen.lines if line.startswith(f"{one} worked")]
        assert len(ended) == 1
        assert ended[0].endswith(f": number {number}")
    assert f"{goal}: completed, unverified 100%" in seen.lines


def test_ctrl_c_leaves_the_goal_running_and_says_how_to_see_it_again(clew, watching):
    clew.start()
    seen = watching("submit", "--wait", "-", given=GATED)
    seen.until("echo begun")
    goal = seen.lines[0]
    assert seen.end(signal.SIGINT) == 130
    assert f"{goal} continues; watch it again: clew --home {clew.home} watch {goal}" in seen.lines
    assert "Traceback" not in seen.text
    assert clew.goal(goal)["status"] == "in_progress"
    again = watching("watch", goal)
    again.until(f"{goal}: in_progress 0%")
    gate(clew, goal).touch()
    assert again.end() == 0
    assert again.until("worked").endswith(": went on")
    assert f"{goal}: completed, unverified 100%" in again.lines


def test_a_daemon_that_ends_is_told_at_once_and_the_watch_goes_on_when_it_is_back(clew, watching):
    clew.start()
    seen = watching("submit", "--wait", "-", given=GATED)
    seen.until("echo begun")
    goal = seen.lines[0]
    go = gate(clew, goal)
    clew.kill()
    said = seen.until("clew: the daemon has ended; waiting up to")
    assert "Ctrl-C" in said
    clew.start()
    seen.until("clew: the daemon is running again")
    go.touch()
    assert seen.end() == 0
    assert any(": worker restarted, epoch 2" in line for line in seen.lines)
    assert f"{goal}: completed, unverified 100%" in seen.lines


@pytest.mark.long
def test_a_daemon_that_stays_away_ends_the_watch_with_code_three(clew, watching):
    goal = clew.start().submit(GATED)
    gate(clew, goal)
    seen = watching("watch", goal)
    seen.until(f"{goal}: in_progress")
    clew.kill()
    seen.until("clew: the daemon has ended")
    assert seen.end() == 3
    assert (
        f"{goal} continues when one does: start it with `clew run` in another terminal"
        in seen.lines[-1]
    )


def test_without_a_goal_those_that_come_later_are_shown_until_ctrl_c(clew, watching):
    first = clew.start().submit(GATED, "first.md")
    gate(clew, first)
    seen = watching("watch")
    seen.until(f"{first}: in_progress 0%")
    later = clew.submit(QUICK, "later.md")
    seen.until(f"{later}: accepted: Count")
    seen.until(f"{later}: completed")
    assert len([line for line in seen.lines if line.startswith(f"{later}: #")]) == 2 * MANY
    assert seen.end(signal.SIGINT) == 0
    assert f"{first} continues; watch it again: clew --home {clew.home} watch {first}" in seen.lines


def test_status_reads_the_ledger_where_the_daemon_hangs(clew):
    goal = clew.start().submit(GATED)
    go = gate(clew, goal)
    clew.daemon.send_signal(signal.SIGSTOP)
    try:
        every = json.loads(clew.clew("status", "--json"))
        said = clew.clew("status")
    finally:
        clew.daemon.send_signal(signal.SIGCONT)
    assert every["daemon"] is None
    assert [(each["id"], each["status"]) for each in every["goals"]] == [(goal, "in_progress")]
    assert "does not answer; showing the last recorded state" in said
    go.touch()
    clew.wait("goal.completed", goal=goal)


@pytest.fixture
def terminal(clew):
    opened = []

    def open_one(columns, rows, *args):
        env = clew.environment() | {"TERM": "xterm-256color"}
        opened.append(Terminal(clew.command(*args), env, columns, rows))
        return opened[-1]

    yield open_one
    for one in opened:
        one.close()


def test_a_window_on_all_goals_names_those_that_failed_meanwhile_as_the_list_does(clew, terminal):
    clew.agent("gives_up", 'hello()\ncall("finish", success=False, summary="no")\n')
    clew.start()
    window = terminal(100, 30, "watch")
    window.until("Ctrl-C stops watching")
    goal = clew.submit("---\nagent: gives_up\n---\n# Work\n\n- [ ] It\n")
    window.until(f"1 goal failed: {goal}; `clew status {goal}` shows why")


def test_a_window_shows_what_happens_now_and_leaves_the_final_state_standing(clew, terminal):
    goal = clew.start().submit(GATED)
    go = gate(clew, goal)
    window = terminal(60, 20, "watch", goal)
    window.until(r"running for \d+ s: #\d+ echo begun")
    window.until("Ctrl-C stops watching; the goals continue.")
    window.resize(100, 30)
    window.until(r"running for [1-9]")
    go.touch()
    assert window.end() == 0
    assert "went on" in window.text
    final = window.text[window.text.rindex("Ctrl-C stops watching") :]
    assert goal in final
    assert "[x]     " not in final
    for said in ("Wait for a sign", "completed", "Steps", "Step 1"):
        assert said in final, final
    assert "completed, unverified 100%" in window.text
    assert window.raw.endswith(b"\n")
    assert window.raw.rindex(b"\x1b[?25h") > window.raw.rindex(b"\x1b[?25l")  # the cursor is back
