"""An agent of clew that proposes one failing action again and again, whatever it is told: fails_clew.py PORT TIMES."""

from __future__ import annotations

import sys

from steps_clew import Daemon
from steps_line import Line


def main() -> None:
    daemon = Daemon()
    hello = daemon.call("hello", protocol=1, agent="bench/1")
    line = Line(int(sys.argv[1]), hello["goal_id"])
    for _ in range(int(sys.argv[2])):
        verdict = daemon.call("propose", tool="run_cmd", args={"cmd": "pytest nowhere.py"})
        allowed = verdict["verdict"] == "allowed"
        line.say(
            {
                "tried": "ran" if allowed else verdict["reason"],
                "escalated_to": verdict["escalated_to"],
            }
        )
        if allowed:
            daemon.call(
                "outcome",
                seq=verdict["seq"],
                result="failure",
                output="pytest nowhere.py: no such file",
                changed=False,
            )
    sys.exit(1)


if __name__ == "__main__":
    main()
