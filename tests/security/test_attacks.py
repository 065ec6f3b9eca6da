"""A hostile worker gets nothing: every attack of the table, by every kind of worker, as root and as a user."""

import os

import as_user
import attack
import pytest
from attack_life import ORDINARY_UID, REFUSALS, ROLES, Circumstances, Life

from clew_worker import sandbox

pytestmark = [
    pytest.mark.xdist_group("an ordinary user"),
    pytest.mark.skipif(sandbox.landlock.abi() < 6, reason="needs Landlock ABI 6"),
]
LIVES = {
    "root-pidns-offline": (0, "pidns", False),
    "user-guard": (ORDINARY_UID, "guard", True),
    "user-pidns": (ORDINARY_UID, "pidns", True),
    "root-guard-offline": (0, "guard", False),
    "user-guard-offline": (ORDINARY_UID, "guard", False),
}
PRETENDED = ("change_modes_outside", "change_times_outside")
"""Changes of modes and times are reported as done to the CLI of a coding agent, and are not."""

IN_EVERY_RUN = ("root-pidns-offline" if os.geteuid() == 0 else "user-pidns",)


def circumstances(uid, isolation, network, mode="enforce"):
    if os.geteuid() != 0:
        if uid == 0:
            pytest.skip("only root can run the daemon as root")
        uid = os.geteuid()
    if uid != os.geteuid() and (reason := as_user.reason_to_skip()):
        pytest.skip(reason)
    return Circumstances(uid, isolation, network, mode)


@pytest.mark.parametrize(
    "name",
    [
        name if name in IN_EVERY_RUN else pytest.param(name, marks=pytest.mark.long)
        for name in LIVES
    ],
)
def test_every_attack_is_refused_and_nothing_outside_is_changed(name):
    with Life(circumstances(*LIVES[name])) as life:
        for role in ROLES:
            found = life.attacked_by(role)
            assert set(found) == life.expected(role), role
            assert {k: v for k, v in found.items() if v not in REFUSALS} == {}, role
        assert life.damage() == []
        life.clew.stop()
        assert life.clew.verified()


@pytest.mark.parametrize(
    "name",
    [
        name if name in IN_EVERY_RUN else pytest.param(name, marks=pytest.mark.long)
        for name in LIVES
    ],
)
def test_every_attack_from_the_cell_of_a_coding_agent_is_refused_or_has_no_effect(name):
    with Life(circumstances(*LIVES[name])) as life:
        found = life.attacked_by_cli()
        assert set(found) == life.expected("cli")
        got = {k: v for k, v in found.items() if v not in REFUSALS}
        assert {k: v for k, v in got.items() if k not in PRETENDED} == {}
        assert life.damage() == []
        life.clew.stop()
        assert life.clew.verified()


def test_the_same_attacks_succeed_where_there_is_no_sandbox():
    with Life(circumstances(ORDINARY_UID, "guard", network=True, mode="off")) as life:
        found = life.attacked_by("executor")
        assert set(found) == life.expected("executor")
        assert {k: v for k, v in found.items() if not v.startswith("succeeded")} == {}
        assert life.damage() != []


def test_every_attack_says_what_it_does():
    assert [one.name for one in attack.ATTACKS.values() if not one.does] == []
