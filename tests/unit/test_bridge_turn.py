"""What the end of a coding agent's run means."""

import pytest

from clew_worker.agent.client import CannotContinue
from clew_worker.bridge.clis.cli import (
    Fault,
    SessionStarted,
    TurnEnded,
)
from clew_worker.bridge.turn import CliCrashError, CliTurn
from clew_worker.bridge.wire import CliEnded


class Named:
    name = "coder"
    harmless = frozenset({"todo"})


def turn_of(*events):
    turn = CliTurn(Named(), lambda: 1000.0)
    for event in events:
        turn.lines += 1
        turn.take(event)
    return turn


def outcome(turn, code=0, errors="", *, acted=False):
    turn.acted = acted
    with pytest.raises((CannotContinue, CliCrashError)) as caught:
        turn.close(CliEnded(code=code, errors=errors))
    return caught.value


def test_a_turn_without_clews_tools_is_a_crash_however_it_ended_and_did_not_count():
    turn = turn_of(SessionStarted("s"), TurnEnded(True, "I have no tools."))
    assert not turn.unfinished(0)
    turn.listed = False
    assert turn.unfinished(0)
    assert isinstance(outcome(turn), CliCrashError)
    turn.acted = True
    turn.close(CliEnded(code=0))


@pytest.mark.parametrize(("code", "unfinished"), [(137, True), (None, True), (0, False)])
def test_a_turn_without_an_end_was_cut_off_unless_its_program_ended_well(code, unfinished):
    assert turn_of(SessionStarted("s")).unfinished(code) is unfinished


def test_a_usage_limit_is_waited_for_until_it_is_reset_also_after_a_turn_that_ended_well():
    found = outcome(turn_of(Fault("limit reached", "limit", 1600.0), TurnEnded(True)))
    assert (found.kind, found.retry_after_s) == ("temporary", 600.0)


def test_a_fault_of_the_endpoint_is_temporary_and_a_lasting_one_needs_a_person():
    ended = TurnEnded(False, "connection refused")
    assert turn_of(SessionStarted("s"), ended).unfinished(1)
    assert outcome(turn_of(SessionStarted("s"), ended), 1).kind == "temporary"
    lasting = Fault("unknown model", "lasting")
    found = outcome(turn_of(SessionStarted("s"), lasting, ended), 1)
    assert (found.kind, found.reason) == ("configuration", "coder cannot go on: unknown model")


def test_a_cli_that_was_ended_because_it_had_lost_its_tools_is_a_crash():
    turn = turn_of(SessionStarted("s"), Fault("interrupted"))
    turn.cut_off = True
    found = outcome(turn, 143, acted=True)
    assert isinstance(found, CliCrashError)
    assert str(found) == "coder has lost its connection to clew's tools"
