"""How the daemon does, from its answer to `health`: the state of its ledger, and how long its commits took."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from clew_daemon.cli.client import NoAnswer, NoDaemon, RequestRefused, send
from clew_daemon.cli.errors import CliError
from clew_daemon.control.requests import HealthRequest

if TYPE_CHECKING:
    from clew_daemon.cli.client import Address

ANSWER_S = 5.0
SLOW_S = 1.0


@dataclass(frozen=True, slots=True)
class DaemonHealth:
    """The ledger's `state`; `counts` are the commits up to each of `bounds`, in seconds, and above the last one."""

    state: str
    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    sum_s: float

    @property
    def slow_commits(self) -> int:
        """How many commits took longer than `SLOW_S`."""
        return sum(self.counts[sum(bound <= SLOW_S for bound in self.bounds) :])


def ask_health(at: Address) -> DaemonHealth | str:
    """Return how the daemon does, or why it cannot be known: no daemon is there, or it does not answer."""
    try:
        answer = send(at, HealthRequest(), within_s=ANSWER_S)
        commits = answer["commits"]
        bounds, counts = tuple(commits["bounds_s"]), tuple(commits["counts"])
        return DaemonHealth(answer["ledger"], bounds, counts, commits["sum_s"])
    except RequestRefused:  # an older daemon runs
        return DaemonHealth("ok", (), (0,), 0.0)
    except NoDaemon:
        return "No daemon is running."
    except NoAnswer:
        return "A daemon is running but does not answer."
    except (CliError, KeyError, TypeError) as error:
        return f"The daemon cannot be asked: {error}"
