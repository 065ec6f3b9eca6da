"""The command line and a real daemon: what it waits for and follows."""

import json
import signal

from harness import DEADLINE_S

QUICK = "# Say hello\n\n## Do\n- [ ] Write it\n  ```text file=hello.txt\n  hello\n  ```\n"


def test_submit_wait_says_why_a_goal_is_not_reached_what_it_asks_and_what_is_refused(clew):
    clew.start()
    failing = f"---\nchecks: {{never: 'false'}}\n---\n{QUICK}"
    assert "checks failed: never" in clew.clew("submit", "--wait", "-", given=failing, code=1)
    asked = clew.clew("submit", "--wait", "-", given="Think of something.\n", code=1)
    assert "question: " in asked
    assert "no model" in asked
    assert "`clew continue " in asked
    inside = f"---\nworkspace: {clew.home}/state/inside\n---\n{QUICK}"
    assert "workspace" in clew.clew("submit", "-", given=inside, code=1)
    assert not list((clew.home / "inbox").glob("stdin-*"))


def test_logs_follow_across_rotation(clew):
    clew.start()
    process, printed = clew.beside(clew.command("logs", "-f", "-n", "10000"))
    with printed:
        assert json.loads(printed.readline())["event"] == "daemon.started"
        log = clew.home / "state" / "clew.log"
        log.rename(log.with_name("clew.log.1"))
        log.write_text('{"event": "after.rotation"}\n')
        events = iter(printed.readline, "")
        assert any(json.loads(line)["event"] == "after.rotation" for line in events)
        process.send_signal(signal.SIGINT)
        assert process.wait(DEADLINE_S) == 130
