"""What tests of the surroundings share: a goal beside the one that suffers, and what holds after a fault.

The bystander works all the while; whatever happens to another goal, it must not notice.
"""

import resource
from functools import partial
from pathlib import Path

import aftermath
import harness
import of_proc
from invariants import every_rest_is_reported_and_learned_from

STEPS = 6


def bystander(clew):
    """Submit a goal that has nothing to do with the fault; its id."""
    steps = "".join(
        f"- [ ] Step {n}\n  ```sh\n  sleep 0.1\n  ```\n  ```sh\n  echo {n} >> trace\n  ```\n"
        for n in range(STEPS)
    )
    return clew.submit(
        f"---\non_interrupt: retry\n---\n# Bystander\n\n## Steps\n{steps}", "bystander.md"
    )


def unharmed(clew, goal):
    """Wait until the bystander has completed, and see that it did each step once, in one epoch."""
    clew.wait("goal.completed", goal=goal)
    assert clew.lines(goal, "trace") == [str(n) for n in range(STEPS)]


def sound(clew, *lost):
    """Stop a daemon that must still answer; see that record, reports and, but of goals `lost`, effects are whole."""
    assert clew.answers()
    assert clew.stop() == 0
    told = aftermath.record(clew)
    for one in told.values():
        assert not one.state.in_flight
        if one.id not in lost:
            aftermath.effects_happened_at_most_once(one)
        every_rest_is_reported_and_learned_from(one.id, one.state)


def foreign(name, **front):
    """Write the goal of a played agent, with keys of front matter."""
    keys = "".join(f"{key}: {value}\n" for key, value in {"agent": name, **front}.items())
    return f"---\n{keys}---\n# Do it\n"


runbook = partial(harness.runbook, on_interrupt="retry")


def resident_mb(pid):
    """Give the largest resident memory that a process ever had, in MiB; 0 where it is gone."""
    lines = of_proc.of_process(pid, "status").splitlines()
    return next((int(line.split()[1]) // 1024 for line in lines if line.startswith(b"VmHWM")), 0)


class NoDescriptors:
    """While it lasts, a process can open nothing more: EMFILE."""

    def __init__(self, pid, spare=0):
        self._pid = pid
        self._spare = spare

    def __enter__(self):
        self._before = resource.prlimit(self._pid, resource.RLIMIT_NOFILE)
        used = {int(fd.name) for fd in Path(f"/proc/{self._pid}/fd").iterdir()}
        free = (fd for fd in range(1 << 16) if fd not in used)
        ceiling = [next(free) for _ in range(self._spare + 1)][-1]
        resource.prlimit(self._pid, resource.RLIMIT_NOFILE, (ceiling, self._before[1]))
        return self

    def __exit__(self, *_):
        resource.prlimit(self._pid, resource.RLIMIT_NOFILE, self._before)
