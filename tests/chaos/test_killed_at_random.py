"""Any process of the daemon's tree, at any moment: SIGKILL, or a short sleep. SEED and ROUNDS from the environment."""

import contextlib
import os
import random
import signal
import time

import psutil
import pytest
from chaos_life import Life

SEED = int(os.environ.get("SEED") or int.from_bytes(os.urandom(3)))
ROUNDS = int(os.environ.get("ROUNDS") or 0)
CONFIG = {
    "daemon.max_workers": 3,
    "heartbeat.timeout_s": 3.0,
    "loops.crash_limit": 50,  # what dies with its worker is not its own fault here
    "restart.max_restarts": 1000,
}


def victim(daemon, chance):
    """Draw a process: the daemon now and then, else anyone beneath it."""
    with contextlib.suppress(psutil.Error):
        tree = psutil.Process(daemon.pid).children(recursive=True)
        if tree and chance.random() < 0.85:
            return chance.choice(tree).pid
    return daemon.pid


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
    life.start(order)
    for _ in range(strikes):
        time.sleep(chance.expovariate(3.0))
        if revived(life, order):
            continue
        if life.is_over(life.goals()):
            break
        strike(victim(life.clew.daemon, chance), chance)
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
    live_dangerously(Life(make_clew(CONFIG)), SEED, 6)


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize("namespaces", [True, False])
@pytest.mark.parametrize("number", range(ROUNDS or 12))
def test_a_life_of_many_kills(make_clew, number, namespaces):
    live_dangerously(Life(make_clew(CONFIG), namespaces=namespaces), SEED + number, 25)
