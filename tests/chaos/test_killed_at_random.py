"""Any process of the daemon's tree, at any moment: SIGKILL, or a short sleep. SEED and ROUNDS from the environment."""

import contextlib
import os
import random
import signal
import time

import psutil
import pytest
from chaos_life import Life

SEED = int(os.environ["SEED"])
ROUNDS = int(os.environ.get("ROUNDS") or 0)
CONFIG = {
    "daemon.max_workers": 3,
    "heartbeat.timeout_s": 3.0,
    "loops.crash_limit": 50,  # what dies with its worker is not its own fault here
    "loops.failure_limit": 50,
    "restart.max_restarts": 1000,
}


WORKER_PROCESSES = 5
"""The nursery, and the guards and payloads of an agent and an executor."""


def beneath(daemon):
    """The processes of cells and the nursery, and those that an executor has started."""
    with contextlib.suppress(psutil.Error):
        own = psutil.Process(daemon.pid)
        cells = [one for child in own.children() for one in (child, *child.children())]
        return cells, [one for one in own.children(recursive=True) if one not in cells]
    return [], []


def victim(daemon, chance, commands):
    """Draw a process: the daemon now and then, else anyone beneath it; None where there is nobody yet."""
    near, far = beneath(daemon)
    if len(near) < WORKER_PROCESSES:  # it has only just begun: let it come to something, mostly
        beginning = [daemon.pid, *(one.pid for one in near)]
        return chance.choice(beginning) if chance.random() < 0.02 else None
    if far and commands and chance.random() < 0.2:
        commands.pop()
        return chance.choice(far).pid
    return daemon.pid if chance.random() < 0.25 else chance.choice(near).pid


def strike(pid, chance):
    with contextlib.suppress(ProcessLookupError):
        if chance.random() < 0.8:
            os.kill(pid, signal.SIGKILL)
            return
        os.kill(pid, signal.SIGSTOP)
        time.sleep(chance.uniform(0, 0.5))
        os.kill(pid, signal.SIGCONT)


def live_dangerously(life, seed, strikes):
    """Strike so often, at drawn moments, and start the daemon again whenever it was hit."""
    print(f"SEED={seed} ROUNDS=1: {strikes} strikes")  # noqa: T201 - for whoever tries it again
    chance, order = random.Random(seed), life.order("", ())
    commands = [1, 2]  # a command that is killed has failed, and a third time it is a loop
    life.start(order)
    while strikes and not life.is_over(life.goals()):
        time.sleep(chance.expovariate(8.0))
        if not revived(life, order) and (pid := victim(life.clew.daemon, chance, commands)):
            strike(pid, chance)
            strikes -= 1
    if not life.finish():  # hit by the last strike
        assert revived(life, order)
        assert life.finish()
    life.check()


def revived(life, order):
    """Start the daemon again where it is dead."""
    if not life.dead:
        return False
    life.deaths += 1
    life.survey()
    life.start(order)
    return True


def test_processes_killed_at_random_cost_nothing_but_time(make_clew):
    live_dangerously(Life(make_clew(CONFIG), pause_s=0.1), SEED, 8)


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize("number", range(ROUNDS or 8))
def test_a_life_of_many_kills(make_clew, number):
    namespaces = (SEED + number) % 2 == 0  # else guards are processes like others
    life = Life(make_clew(CONFIG), namespaces=namespaces, pause_s=0.3)
    live_dangerously(life, SEED + number, 30)
