"""Write the screenshots of docs/web.md: `python screenshots.py FOLDER`. A real home with goals of every kind."""

import sys
import tempfile
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

from browsers import Visitor, chromium  # noqa: E402
from harness import Clew, become_subreaper  # noqa: E402
from llm_server import Reply, ScriptedLlm, calls  # noqa: E402
from web_server import WebServer  # noqa: E402

SCREENS = {
    "light": {"color_scheme": "light", "viewport": {"width": 1180, "height": 820}},
    "dark": {"color_scheme": "dark", "viewport": {"width": 1180, "height": 820}},
    "phone": {"color_scheme": "light", "viewport": {"width": 390, "height": 844}},
}
RUNBOOK = """---
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
LOOPING = """
hello()
if epoch == 1:
    act("write_file", path="notes.txt", content="The answer is in answer.txt\\n")
    run("ls -l")
    for number in range(40):
        if run("cat answer.txt")["verdict"] == "blocked":
            break
    run("grep -r answer .")
    say("ready to die")
    notice("never")
run("cat answer.txt")
act("write_file", path="answer.txt", content="42\\n")
run("cat answer.txt")
for number in range(4):
    run(f"sleep 0.{number}; wc answer.txt")
say("stays")
notice("never")
"""
ASKING = """
hello()
run("ls -l /etc/hosts")
call("ask", question="Which of the two ports should the server use: 8080 or 9090?")
notice("never")
"""


THINKING = [
    calls(("run_cmd", {"cmd": "ls -l"}), text="I look at what is there first."),
    calls(("write_file", {"path": "count.py", "content": "print(sum(range(10)))\n"})),
    calls(("run_cmd", {"cmd": "python3 count.py"})),
]


def prepare(clew, llm):
    """Make goals: one completed, one refused and killed, one that asks, one that thinks; the ids that are shown."""
    agent = {"kind": "llm", "base_url": llm.base_url, "model": "scripted", "mode": "tools"}
    clew.configure({f"agents.thinking.{key}": value for key, value in agent.items()})
    clew.agent("looping", LOOPING)
    clew.agent("asking", ASKING)
    clew.start()
    done = clew.submit(RUNBOOK)
    clew.wait("goal.completed", goal=done)
    asks = clew.submit(
        "---\nagent: asking\n---\n# Serve the documentation on a port\n- [ ] Choose a port\n"
    )
    looping = clew.submit(
        "---\nagent: looping\n---\n# Find the answer and write it down\n"
        "## Find it\n- [ ] Look for the answer\n- [ ] Write it into answer.txt\n## Check it\n- [ ] Read it again\n"
    )
    clew.said(looping, count=1)
    clew.kill_agent(looping)
    clew.said(looping, count=2)
    clew.cli("feedback", looping, "The answer is 42")
    clew.until(lambda: clew.goal(asks)["status"] == "blocked", "the question")
    thinks = clew.submit("---\nagent: thinking\n---\n# Add up the numbers below ten\n")
    clew.until(lambda: len(llm.requests) > len(THINKING), "the last question")
    return looping, done, thinks


def main(folder):
    """Write each page as it looks on each screen."""
    folder.mkdir(parents=True, exist_ok=True)
    become_subreaper()
    with (
        tempfile.TemporaryDirectory() as place,
        chromium() as browser,
        ScriptedLlm(*THINKING, then=Reply(hang=True)) as llm,
    ):
        clew = Clew(Path(place))
        try:
            looping, done, thinks = prepare(clew, llm)
            server = WebServer(clew).start()
            pages = {
                "goals": "/",
                "goal": f"/goals/{looping}",
                "changes": f"/goals/{done}/changes",
                "prompt": f"/goals/{thinks}/prompt?turn=3",
                "log": "/log?q=action",
            }
            for screen, options in SCREENS.items():
                visitor = Visitor(browser, server, **options)
                for name, path in pages.items():
                    page = visitor.goto(path)
                    visitor.waits("document.querySelector('#live').textContent === 'live'")
                    page.screenshot(path=folder / f"{name}-{screen}.png")
                visitor.context.close()
            server.stop()
        finally:
            clew.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
