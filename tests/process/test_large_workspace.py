"""A workspace with more entries than are looked at: real work in it is no loop, and failing again and again is."""

import sys

STARTER = """
import sys
from types import SimpleNamespace

if sys.argv[1] == "nursery":
    from clew_worker.cell import nursery
    from clew_worker.executor.world import tree
    tree.ENTRIES_MAX = 8
    sys.exit(nursery.main(["nursery", *sys.argv[2:]]))

from clew_daemon.cli import main
from clew_daemon.processes import zygote

start = zygote.subprocess.Popen

def popen(command, **named):
    arguments = command[command.index("clew_worker.cell.nursery") + 1 :]
    return start([sys.executable, __file__, "nursery", *arguments], **named)

zygote.subprocess = SimpleNamespace(**vars(zygote.subprocess) | {"Popen": popen})
sys.argv = ["clew", *sys.argv[4:]]
main()
"""
LARGE = "mkdir -p d/{01,02,03,04,05,06,07,08,09,10,11,12}/deep; true"


def played(clew, body):
    """Start a daemon that looks at few entries, and play an agent in a workspace that has more."""
    script = clew.folder / "starter.py"
    script.write_text(STARTER)
    made = "\n".join(("hello()", f"run('bash -c \\'{LARGE}\\'')", body, "done()"))
    clew.agent("player", made)
    clew.start(under=(sys.executable, str(script)))
    goal = clew.submit("---\nagent: player\n---\n# Work in a large folder\n")
    clew.wait("goal.completed", goal=goal)
    return clew.said(goal)[-1]


def test_work_that_no_look_sees_is_not_refused(clew):
    found = played(
        clew,
        """
answers_of = [run("echo more >> d/12/deep/log") for _ in range(6)]
say([[a["verdict"], a.get("outcome", {}).get("changed", "")] for a in answers_of])
""",
    )
    assert found == [["allowed", None]] * 6


def test_tests_between_edits_that_no_look_sees_are_not_refused(clew):
    found = played(
        clew,
        """
verdicts = []
for n in range(5):
    verdicts.append(run("false")["verdict"])
    verdicts.append(run(f"echo {n} > d/12/deep/file")["verdict"])
say(verdicts)
""",
    )
    assert found == ["allowed"] * 10


def test_the_same_failing_command_is_still_a_loop(clew):
    found = played(clew, 'say([run("false")["verdict"] for _ in range(4)])')
    assert found == ["allowed", "allowed", "blocked", "blocked"]
