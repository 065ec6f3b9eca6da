"""The daemon killed by SIGKILL: no worker outlives it, and the next start goes on without a step twice."""

import random
from collections import Counter

STEPS = 10
SEEDS = random.SystemRandom()


def seeded():
    """A generator whose seed is shown when the test fails."""
    seed = SEEDS.randrange(2**32)
    print(f"seed: {seed}")  # noqa: T201 - for whoever replays it
    return random.Random(seed)


def test_a_goal_completes_across_daemon_deaths_and_no_step_runs_twice_unasked(clew):
    chance = seeded()
    items = "".join(f"- [ ] Step {i}\n  ```sh\n  echo {i} >> trace\n  ```\n" for i in range(STEPS))
    clew.start()
    goal = clew.submit(
        f"---\non_interrupt: retry\nchecks: {{all: grep -q {STEPS - 1} trace}}\n---\n# Go\n\n## S\n{items}"
    )
    for life in range(1, 6):
        since, actions = clew.now(), chance.randrange(4)
        clew.until(
            lambda since=since, actions=actions: (
                clew.seen("goal.completed")
                or len(clew.seen("action.allowed", since=since)) >= actions
            )
        )
        clew.kill()  # and nothing of it is left
        assert clew.verified(), f"after life {life}"
        clew.start()
    clew.wait("goal.completed", goal=goal)
    assert clew.stop() == 0
    assert clew.verified()
    history = clew.history(goal)
    seqs = [line["seq"] for line in history]
    assert seqs == sorted(set(seqs))
    proposed = Counter(line["args"]["cmd"] for line in history)
    ran = Counter(f"echo {line} >> trace" for line in clew.lines(goal, "trace"))
    assert all(
        1 <= ran[cmd] <= proposed[cmd] for cmd in proposed
    )  # each allowed action at most once
    finished = Counter(line["args"]["cmd"] for line in history if line["result"] == "success")
    assert set(finished.values()) == {1}
    assert len(finished) == STEPS


def test_a_goal_that_was_blocked_or_completed_is_not_taken_up_again(clew):
    clew.start()
    done = clew.submit("# A\n\n## S\n- [ ] one\n  ```sh\n  echo x >> trace\n  ```\n", "a.md")
    blocked = clew.submit("# B\n\n## S\n- [ ] one\n  ```sh\n  exit 1\n  ```\n", "b.md")
    clew.wait("goal.completed", goal=done)
    clew.wait("goal.blocked", goal=blocked)
    clew.kill()
    since = clew.now()
    clew.start()
    last = clew.submit("# C\n\n## S\n- [ ] one\n  ```sh\n  true\n  ```\n", "c.md")
    clew.wait("goal.completed", goal=last)
    assert {e["goal"] for e in clew.seen("worker.started", since=since)} == {last}
    assert clew.lines(done, "trace") == ["x"]
    clew.report(blocked)
