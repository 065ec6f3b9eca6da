"""A home with ten goals in different states, for pictures: `python showcase.py FOLDER` makes it and keeps it running.

One goal needs an answer, one was refused an action, one has changed files; the others are in every other state.
"""

import signal
import sys
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent)]

import llm_server  # noqa: E402
from harness import Clew, become_subreaper  # noqa: E402
from llm_server import Reply, ScriptedLlm, calls  # noqa: E402

KEPT_S = 8 * 3600
"""How long the model of the goal that thinks does not answer."""

LATER_S = 1800
"""When the goal that waits is tried again."""

PACKAGE = """---
checks:
  tests: grep -q "return a + b" mathx/__init__.py
---
# Create the package mathx with an add function
## Structure
- [ ] Create mathx/__init__.py
  ```python file=mathx/__init__.py
  def add(a, b):
      return a + b
  ```
- [ ] List what is there
  ```sh
  ls -l mathx
  ```
"""
PRICES = """---
workspace: {folder}
checks:
  rounds: grep -q "round(total, 2)" prices.py
---
# Round all prices to cents
## Round
- [ ] Round the total
  ```sh
  sed -i 's/return total$/return round(total, 2)/' prices.py
  ```
- [ ] Say so in the README, and remove the old notes
  ```sh
  echo "Prices are rounded to cents." >> README.md
  rm NOTES.txt
  ```
"""
LOOPING = """
hello()
if epoch == 1:
    act("write_file", path="notes.txt", content="The answer is in answer.txt\\n")
    run("sleep 0.7; ls -l")
    for number in range(40):
        if run("cat answer.txt")["verdict"] == "blocked":
            break
    run("sleep 1.2; grep -r answer .")
    say("ready to die")
    stopped.wait()
run("cat answer.txt")
act("write_file", path="answer.txt", content="42\\n")
run("cat answer.txt")
call("complete_subtask", success=True)
for number in range(4):
    run(f"sleep 1.{number}; wc answer.txt")
say("stays")
stopped.wait()
"""
ASKING = """
hello()
if epoch > 1:
    act("write_file", path="port", content="8080\\n")
    call("complete_subtask", success=True)
    call("finish", success=True, summary="the server uses port 8080")
run("ls -l /etc/hosts")
call("ask", question="Which of the two ports should the server use: 8080 or 9090?")
notice("never")
"""
LEAVING = """
hello()
run("ping -c 1 -W 1 mirror.example.org")
call("finish", success=False, summary="the mirror cannot be reached from here")
"""
WAITING = """
import os
hello()
run("date")
os._exit(75)
"""
DONE = """
hello()
act("write_file", path="summary.md", content="Three commits, all about dates.\\n")
call("complete_subtask", success=True)
call("finish", success=True, summary="the week in three lines")
"""
STAYING = """
hello()
run("ls")
say("stays")
stopped.wait()
"""
THINKING = [
    calls(("run_cmd", {"cmd": "ls -l"}), text="I look at what is there first."),
    calls(("write_file", {"path": "count.py", "content": "print(sum(range(10)))\n"})),
    calls(("run_cmd", {"cmd": "python3 count.py"})),
]
AGENTS = {
    "looping": LOOPING,
    "asking": ASKING,
    "leaving": LEAVING,
    "waiting": WAITING,
    "done": DONE,
    "staying": STAYING,
}


@dataclass(frozen=True)
class Shown:
    """The ids of the goals that pictures are about."""

    looping: str
    asking: str
    thinking: str
    changing: str


@contextmanager
def showcase(place):
    """Make the home in a folder; yields its `Clew`, whose daemon runs, and what is shown of it."""
    llm_server.HANG_MAX_S = KEPT_S
    with ScriptedLlm(*THINKING, then=Reply(hang=True)) as llm:
        clew = Clew(place)
        try:
            yield clew, prepare(clew, llm)
        finally:
            clew.close()


def prepare(clew, llm):
    """Bring ten goals into their states, one after the other."""
    agent = {"kind": "llm", "base_url": llm.base_url, "model": "scripted", "mode": "tools"}
    agent["timeout_s"] = KEPT_S
    clew.configure({f"agents.thinking.{key}": value for key, value in agent.items()})
    clew.configure({"daemon.max_workers": 6, "heartbeat.stall_timeout_s": KEPT_S})
    clew.configure({"restart.backoff_initial_s": LATER_S, "restart.backoff_max_s": LATER_S})
    for name, script in AGENTS.items():
        clew.agent(name, script)
    clew.start()
    clew.wait("goal.completed", goal=clew.submit(PACKAGE))
    changing = clew.completed(PRICES.format(folder=prices(clew.folder / "shop")))
    clew.wait("goal.completed", goal=submit(clew, "done", "Sum up the commits of this week"))
    clew.wait("goal.failed", goal=submit(clew, "leaving", "Mirror the documentation"))
    clew.wait("goal.waiting", goal=submit(clew, "waiting", "Fetch the exchange rates"))
    paused = submit(clew, "staying", "Translate the manual")
    clew.said(paused)
    clew.cli("pause", paused)
    clew.drop(goal_file("staying", "Publish the manual", f"depends_on: [{paused}]"), "publish.md")
    asking = submit(clew, "asking", "Serve the documentation on a port", "- [ ] Choose a port")
    clew.until(lambda: clew.goal(asking)["status"] == "blocked", "the question")
    looping = clew.submit(
        "---\nagent: looping\n---\n# Find the answer and write it down\n## Find it\n"
        "- [ ] Look for the answer\n- [ ] Write it into answer.txt\n## Check it\n- [ ] Read it again\n"
    )
    clew.said(looping, count=1)
    clew.kill_agent(looping)
    clew.said(looping, count=2)
    clew.cli("feedback", looping, "The answer is 42")
    thinking = submit(clew, "thinking", "Add up the numbers below ten")
    clew.until(lambda: len(llm.requests) > len(THINKING), "the last question")
    return Shown(looping, asking, thinking, changing)


def prices(folder):
    """Make a workspace that has files already."""
    folder.mkdir()
    total = "def price(items):\n    total = sum(one.price for one in items)\n    return total\n"
    for name, text in {
        "prices.py": f'"""Prices of a shop."""\n\n\n{total}',
        "README.md": "# Shop\n\nA small shop.\n",
        "NOTES.txt": "to do: rounding\n",
    }.items():
        (folder / name).write_text(text)
    return folder


def goal_file(agent, title, *front):
    """Give the text of a goal file."""
    return "\n".join(["---", f"agent: {agent}", *front, "---", f"# {title}", ""])


def submit(clew, agent, title, *items):
    """Submit a goal; its id."""
    return clew.submit(goal_file(agent, title) + "".join(f"{one}\n" for one in items))


def main(folder):
    """Keep the home running until a signal ends it."""
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    become_subreaper()
    with showcase(folder) as (clew, _):
        sys.stdout.write(f"ready: clew --home {clew.home} top\n")
        sys.stdout.flush()
        ended.wait()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
