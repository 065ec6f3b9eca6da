"""What a person finds in the log, the loops and an executor's environment, as the contract words it."""

import json
import sqlite3

from clew_daemon.host import git
from clew_shared.exit_codes import ExitCode

GOAL = """\
# Say hello
## Say
- [ ] it
  ```sh
  env | cut -d= -f1 | sort -u
  ```
"""


def test_the_log_says_all_that_is_wrong_with_a_rejected_file(clew):
    clew.start()
    clew.drop("---\npriority: high\nmax_iterations: 0\n---\n# Do it\n", "wrong.md")
    error = clew.wait("goal.rejected", name="wrong.md")["error"]
    assert "line 2: `priority`" in error
    assert "line 3: `max_iterations`" in error


def test_commands_have_the_whole_environment_of_the_contract_and_no_more(clew):
    clew.start()
    goal = clew.submit(GOAL)
    clew.wait("goal.completed", goal=goal)
    names = set(clew.history(goal)[-1]["output"].split()) - {"PWD", "OLDPWD", "SHLVL", "_"}
    assert names - set(git.NAMES) == {"PATH", "HOME", "TMPDIR", "LANG", "TERM", "USER"}


def test_loops_json_counts_the_failures_that_were_escalated(clew):
    clew.start()
    goal = clew.submit(
        "---\nretries: 1\n---\n# No way\n## Try\n- [ ] it\n  ```sh\n  false\n  ```\n"
    )
    clew.wait("goal.blocked", goal=goal)
    folder = clew.workspace(goal) / ".agent_context"
    loops = clew.until(lambda: json.loads((folder / "loops.json").read_text()))
    assert [(loop["kind"], loop["attempt_count"]) for loop in loops] == [("failures", 2)]


def test_a_daemon_does_not_go_on_from_a_ledger_that_was_changed(clew):
    clew.start()
    goal = clew.submit(GOAL)
    clew.wait("goal.completed", goal=goal)
    clew.stop()
    con = sqlite3.connect(clew.home / "state" / "ledger.db")
    with con:
        con.execute("UPDATE events SET body = CAST('no json' AS BLOB) WHERE seq = 5")
    con.close()
    said = clew.clew("run", code=ExitCode.CONFIGURATION)
    assert f"event 5 of {goal}" in said
    assert "Traceback" not in said
    assert "event 5" in clew.clew("verify", code=1)
    assert "event 5" in clew.clew("status", code=1)
