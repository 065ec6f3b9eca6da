"""What tests change in the nursery from outside: the built-in agent, PID namespaces.

On PYTHONPATH of a daemon that is under attack; only in its nursery does it do anything.
"""

import sys

if "clew_worker.cell.nursery" in sys.orig_argv:
    import json
    import os
    from pathlib import Path

    import clew_worker.agent.runbook
    from clew_worker.sandbox import namespaces

    plain = clew_worker.agent.runbook.main

    def attacking(name, channel):
        """Be a built-in agent that has been taken over: attack instead of thinking, if so asked."""
        if not os.environ["CLEW_GOAL_ID"].startswith("builtin"):
            return plain(name, channel)
        folder = Path.cwd() / "hostile"
        sys.path.insert(0, str(folder))
        import attack

        targets = json.loads((folder / "targets.json").read_text())
        attack.load()
        for pair in attack.perform_all("builtin", targets).items():
            sys.stdout.write(f"say {json.dumps(pair)}\n")
        sys.stdout.flush()
        return 78

    clew_worker.agent.runbook.main = attacking
    if Path(__file__).with_name("guard").exists():
        namespaces.possible = lambda **_: False
