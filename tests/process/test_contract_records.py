"""What a person finds in the log, the loops and an executor's environment, as the contract words it."""

import sqlite3

from clew_shared.exit_codes import ExitCode

GOAL = """\
# Say hello
## Say
- [ ] it
  ```sh
  env | cut -d= -f1 | sort -u
  ```
"""


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
