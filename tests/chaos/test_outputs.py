"""Commands that print without measure: what is kept is bounded, and so are time and memory of all who see it."""

import sys

import pytest

from surroundings import bystander, foreign, resident_mb, sound, unharmed

MB_MAX = 250
KEPT_BYTES_MAX = 70_000

FLOODS = {
    "1_gb": ("head -c 1000000000 /dev/zero", "success"),
    "endless_line": ("yes | tr -d '\\n'", "timeout"),
    "endless_binary": ("cat /dev/urandom", "timeout"),
    "a_million_lines": ("seq 1000000", "success"),
    "flood_left_behind": ("cat /dev/zero & cat /dev/zero & echo over", "success"),
    "closed": ("exec >&- 2>&-; sleep 0.2", "success"),
    "fork_of_floods": ("for i in 1 2 3 4; do yes $i & done; sleep 0.5", "success"),
}


def flooding(clew, cmd, timeout_s=5):
    clew.agent(
        "worker",
        f"""
        hello()
        outcome = act("run_cmd", cmd={cmd!r}, timeout_s={timeout_s})["outcome"]
        output = outcome["output"]
        say([outcome["result"], len(output.encode()), "left out" in output, outcome["duration_s"]])
        say(act("run_cmd", cmd="echo still here")["outcome"]["output"])
        done()
        """,
    )


def flood(clew, name):
    cmd, result = FLOODS[name]
    flooding(clew, cmd)
    goal = clew.start().submit(foreign("worker"))
    other = bystander(clew)
    clew.wait("action.allowed", goal=goal)
    agent, executor = clew.agent_pid(goal), clew.executor_pid(goal)
    peaks = {}

    def over():
        for who, pid in (("daemon", clew.daemon.pid), ("agent", agent), ("executor", executor)):
            peaks[who] = max(peaks.get(who, 0), resident_mb(pid))
        return clew.seen("goal.completed", goal=goal)

    clew.until(over, "the end of the flood")
    unharmed(clew, other)
    (said, size, cut, duration_s), after = clew.said(goal)
    sys.stdout.write(f"{name}: {said}, {size} bytes, cut: {cut}, {duration_s} s, MB {peaks}\n")
    assert said == result
    assert size <= KEPT_BYTES_MAX
    assert after == "still here\n"
    assert max(peaks.values()) < MB_MAX
    assert not clew.seen("executor.died")
    if result == "success":
        assert duration_s < 60
    sound(clew)


@pytest.mark.parametrize("name", ["flood_left_behind"])
def test_a_command_is_over_when_it_ends_whatever_goes_on_printing(clew, name):
    flood(clew, name)


@pytest.mark.long
@pytest.mark.parametrize("name", FLOODS)
def test_no_flood_of_output_takes_more_than_its_share(clew, name):
    flood(clew, name)
